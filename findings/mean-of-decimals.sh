#!/usr/bin/env bash
# The mean, the median and the quotient of decimals are cut to the scale of the column.
#
# Guess: the mean and the median of the prices 0.01 and 0.02 are 0.015, and a cent divided by 3 is about 0.0033
# Truth: pyarrow's mean is 0.02, also for pandas with Arrow types; DuckDB's median is 0.01; a polars quotient is
#   0.00. In each library another function of the same column gives the right value
# Packages: pyarrow==26.0.1, pandas==3.1.1, polars==2.1.0, duckdb==2.0.1; Python 3.11
# Date: 2026-11-29
# Source: pyarrow.compute.mean, polars Series division and DuckDB's quantile_cont: the result has the type of the
#   column
# Output seen: the lines of `expected`. The script fails if they change.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
  pyarrow==26.0.1 pandas==3.1.1 polars==2.1.0 duckdb==2.0.1
cd "$folder"

cat > expected <<'END'
pyarrow mean 0.02 quantile 0.015
pandas mean 0.02
polars mean 0.015 quotient 0.00
DuckDB mean 0.015 median 0.01
END

venv/bin/python - > seen <<'END'
from decimal import Decimal

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

cents = [Decimal("0.01"), Decimal("0.02")]
column = pa.array(cents)
print("pyarrow mean", pc.mean(column), "quantile", pc.quantile(column, q=0.5)[0])
print("pandas mean", pd.Series(cents, dtype=pd.ArrowDtype(column.type)).mean())
print("polars mean", pl.Series(cents).mean(), "quotient", (pl.Series(cents[:1]) / Decimal("3.00"))[0])
print("DuckDB", *duckdb.sql("select 'mean', avg(x), 'median', median(x) from (values (0.01), (0.02)) t(x)").fetchall()[0])
END

diff expected seen
echo "mean-of-decimals: as described"
