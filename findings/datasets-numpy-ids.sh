#!/usr/bin/env bash
# datasets' numpy format loses the last digits of ids if one id is missing.
#
# Guess: integers with a missing value become float64, as in pandas, so ids below 2^53 stay exact
# Truth: the column becomes float32, so 16777217 reads as 16777216 and different ids become equal. One row alone is
#   an exact integer, and a column without a missing value has integers
# Packages: datasets==5.2.0, numpy==2.4.6; Python 3.11
# Date: 2026-11-29
# Source: datasets/formatting/np_formatter.py: floating point arrays become float32
# Output seen: the lines of `expected`. The script fails if they change.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
  datasets==5.2.0 numpy==2.4.6
cd "$folder"

cat > expected <<'END'
float32 [16777216, 16777216]
one row 16777217
none missing [16777216, 16777217]
END

HF_HUB_OFFLINE=1 venv/bin/python - > seen <<'END'
from datasets import Dataset

ids = Dataset.from_dict({"id": [16_777_216, 16_777_217, None]}).with_format("numpy")
column = ids["id"][:]
print(column.dtype, [int(value) for value in column[:2]])
print("one row", int(ids[1]["id"]))
print("none missing", ids.select([0, 1])["id"][:].tolist())
END

diff expected seen
echo "datasets-numpy-ids: as described"
