#!/usr/bin/env bash
# datasets reads the rating "0" as the class "1", and the number 1 as the class "2".
#
# Guess: a `ClassLabel` with the names "1" to "5" refuses the value "0", and reads the number 1 as the class "1"
# Truth: a string that is no name is read as the position of a class, and a number always is. So "0" becomes "1"
#   without a message, and whether "1" or 1 was stored decides the class
# Packages: datasets==5.2.0; Python 3.11
# Date: 2026-11-29
# Source: datasets/features/features.py, `ClassLabel._strval2int`
# Output seen: the lines of `expected`. The script fails if they change.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
  datasets==5.2.0
cd "$folder"

cat > expected <<'END'
['0', '1', '5'] -> ['1', '1', '5']
[1, 4] -> ['2', '5']
END

HF_HUB_OFFLINE=1 venv/bin/python - > seen <<'END'
from datasets import ClassLabel, Dataset, Features

stars = ClassLabel(names=["1", "2", "3", "4", "5"])
for values in (["0", "1", "5"], [1, 4]):
    rows = Dataset.from_dict({"stars": values}, features=Features({"stars": stars}))
    print(values, "->", [stars.int2str(code) for code in rows["stars"]])
END

diff expected seen
echo "datasets-class-by-number: as described"
