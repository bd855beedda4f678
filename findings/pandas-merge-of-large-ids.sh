#!/usr/bin/env bash
# pandas joins two different ids if one table has a missing id.
#
# Guess: an id of one table that is not in the other one matches nothing
# Truth: a missing value makes a column of integers a column of floats. The join compares as floats, so
#   9007199254740993 meets 9007199254740992, without a warning. `isin` on the same columns finds no match
# Packages: pandas==3.1.1, numpy==2.4.6; Python 3.11
# Date: 2026-11-29
# Source: pandas.merge of int64 with float64 keys
# Output seen: the lines of `expected`. The script fails if they change.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
  pandas==3.1.1 numpy==2.4.6
cd "$folder"

cat > expected <<'END'
[{'id': 9007199254740993, 'letter': 'of another person'}]
isin: [False, False]
END

venv/bin/python - > seen <<'END'
import warnings

import pandas as pd

warnings.simplefilter("error")
people = pd.DataFrame({"id": [2**53 + 1, 7]})
letters = pd.DataFrame({"id": [2**53, None], "letter": ["of another person", "of nobody"]})
joined = people.merge(letters, on="id")
print(joined.to_dict("records"))
print("isin:", people["id"].isin([2**53, 7.5]).tolist())
END

diff expected seen
echo "pandas-merge-of-large-ids: as described"
