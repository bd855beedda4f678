#!/usr/bin/env bash
# diffprivlib's median of ratings is never the rating that most records have.
#
# Guess: with 1,000 ratings of 1 to 5, of which 400 are the median 3, and epsilon 1, the DP median is near 3
# Truth: the mechanism chooses a gap between two neighbouring values and then a uniform number inside. Equal values
#   have no gap, so the results are spread evenly over 2.5 to 4, and less noise does not help
# Packages: diffprivlib==0.6.6, scikit-learn==1.6.1, numpy==2.4.6; Python 3.11
# Date: 2026-11-29
# Source: diffprivlib/tools/quantiles.py, `quantile`; the chance of a false alarm is below 1e-9
# Output seen: the lines of `expected`. The script fails if they change.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
  diffprivlib==0.6.6 scikit-learn==1.6.1 numpy==2.4.6
cd "$folder"

cat > expected <<'END'
epsilon 1: within 0.05 of 3 in more than a fifth of the runs: False; farther than 0.25 in more than half: True
epsilon 3: within 0.05 of 3 in more than a fifth of the runs: False; farther than 0.25 in more than half: True
END

venv/bin/python - > seen <<'END'
import numpy as np
from diffprivlib import tools

ratings = np.repeat([1, 2, 3, 4, 5], [100, 200, 400, 200, 100])
for epsilon in (1, 3):
    found = np.array([tools.median(ratings, epsilon=epsilon, bounds=(1, 5)) for _ in range(400)])
    near = np.mean(np.abs(found - np.median(ratings)) < 0.05)
    print(f"epsilon {epsilon}: within 0.05 of 3 in more than a fifth of the runs: {near > 0.2};", end=" ")
    print(f"farther than 0.25 in more than half: {np.mean(np.abs(found - 3) > 0.25) > 0.5}")
END

diff expected seen
echo "diffprivlib-median-of-ratings: as described"
