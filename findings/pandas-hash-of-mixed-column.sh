#!/usr/bin/env bash
# pandas gives 1, 1.0, True and "1" one hash in a column of mixed types.
#
# Guess: `hash_pandas_object` tells 1 from the text "1", so equal hashes mean equal tables
# Truth: a column of objects that is not all text is converted to text first. Numbers and booleans of equal value
#   and the text "1" have one hash. As columns of one type, the text has another hash, but 1 and True still share
#   theirs
# Packages: pandas==3.1.1, numpy==2.4.6; Python 3.11
# Date: 2026-11-29
# Source: pandas/core/util/hashing.py, `_hash_ndarray`
# Output seen: the lines of `expected`. The script fails if they change.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
  pandas==3.1.1 numpy==2.4.6
cd "$folder"

cat > expected <<'END'
mixed column: 1 hash of 4 values
columns of one type: 3 hashes; 1 and True equal: True
END

venv/bin/python - > seen <<'END'
import pandas as pd

mixed = pd.util.hash_pandas_object(pd.Series([1, "1", 1.0, True], dtype=object), index=False)
print("mixed column:", mixed.nunique(), "hash of 4 values")
names = {"1": [1], "1.0": [1.0], "True": [True], "'1'": ["1"]}
apart = {name: pd.util.hash_pandas_object(pd.Series(value), index=False)[0] for name, value in names.items()}
print("columns of one type:", len(set(apart.values())), "hashes; 1 and True equal:", bool(apart["1"] == apart["True"]))
END

diff expected seen
echo "pandas-hash-of-mixed-column: as described"
