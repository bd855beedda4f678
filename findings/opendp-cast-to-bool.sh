#!/usr/bin/env bash
# OpenDP casts the string "false" to True.
#
# Guess: the cast of "true", "false", "1", "0", "yes" and "no" reads the words, or gives the default for what it
#   cannot read
# Truth: every string that is not empty is True. A DP count of the column counts the records that say no as well
# Packages: opendp==0.16.0; Python 3.11
# Date: 2026-11-29
# Source: opendp: `make_cast_default` with TOA=bool, in the cast of strings of the Rust library
# Output seen: the lines of `expected`. The script fails if they change.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
  opendp==0.16.0
cd "$folder"

cat > expected <<'END'
{'true': True, 'false': True, '1': True, '0': True, 'yes': True, 'no': True, '': False}
END

venv/bin/python - > seen <<'END'
import opendp.prelude as dp

dp.enable_features("contrib")
words = ["true", "false", "1", "0", "yes", "no", ""]
space = dp.vector_domain(dp.atom_domain(T=str)), dp.symmetric_distance()
cast = space >> dp.t.then_cast_default(TOA=bool)
print(dict(zip(words, cast(words))))
END

diff expected seen
echo "opendp-cast-to-bool: as described"
