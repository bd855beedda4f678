#!/usr/bin/env bash
# 0.0, -0.0, NaN, NaN and null are two, three or four distinct values.
#
# Guess: libraries that exchange a column without a copy count its distinct values alike
# Truth: pandas counts 2, polars 3 and pyarrow 4. A histogram of pyarrow's groups has 0.0 and -0.0 as two groups, so
#   a count by value of the same column changes with the library
# Packages: pyarrow==26.0.1, pandas==3.1.1, polars==2.1.0, numpy==2.4.6; Python 3.11
# Date: 2026-11-29
# Source: pandas.Series.nunique, polars.Series.n_unique, pyarrow.compute.count_distinct, pyarrow.Table.group_by
# Output seen: the lines of `expected`. The script fails if they change.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
  pyarrow==26.0.1 pandas==3.1.1 polars==2.1.0 numpy==2.4.6
cd "$folder"

cat > expected <<'END'
pandas 2
polars 3
pyarrow 4
pyarrow groups [(0.0, 1), (-0.0, 1), (nan, 2), (None, 1)]
END

venv/bin/python - > seen <<'END'
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

values = [0.0, -0.0, float("nan"), float("nan"), None]
print("pandas", pd.Series(values).nunique(dropna=False))
print("polars", pl.Series(values).n_unique())
print("pyarrow", pc.count_distinct(pa.array(values), mode="all"))
groups = pa.table({"key": values}).group_by("key").aggregate([([], "count_all")]).to_pylist()
print("pyarrow groups", [(group["key"], group["count_all"]) for group in groups])
END

diff expected seen
echo "distinct-zeros-and-nans: as described"
