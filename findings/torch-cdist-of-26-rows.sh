#!/usr/bin/env bash
# The distance of a row to itself is 0 for 25 rows in torch, and 5.7 for 26.
#
# Guess: `torch.cdist(rows, rows)` has zeros on its diagonal, or nearly
# Truth: above 25 rows, the default multiplies matrices and subtracts squared norms. With a common offset of 1,000
#   the float32 distance of a row to itself exceeds 1, where true distances of neighbours are about 11. 25 rows give
#   exact zeros
# Packages: torch==2.13.0, numpy==2.4.6; Python 3.11. torch is several GB where pip has no wheel for CPUs alone
# Date: 2026-11-29
# Source: torch.cdist, compute_mode='use_mm_for_euclid_dist_if_necessary'
# Output seen: the lines of `expected`. The script fails if they change.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
  torch==2.13.0 numpy==2.4.6
cd "$folder"

cat > expected <<'END'
25 rows: a row is farther than 1 from itself: False true: 0.0
26 rows: a row is farther than 1 from itself: True true: 0.0
END

venv/bin/python - > seen <<'END'
import torch

torch.manual_seed(0)
rows = torch.randn(26, 64) + 1000
for count in (25, 26):
    own = torch.cdist(rows[:count], rows[:count]).diagonal().max().item()
    exact = torch.cdist(rows[:count].double(), rows[:count].double(), compute_mode="donot_use_mm_for_euclid_dist")
    print(count, "rows: a row is farther than 1 from itself:", own > 1, "true:", exact.diagonal().max().item())
END

diff expected seen
echo "torch-cdist-of-26-rows: as described"
