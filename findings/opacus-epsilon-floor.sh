#!/usr/bin/env bash
# Opacus' RDP accountant never goes below an epsilon that depends on delta alone.
#
# Guess: a thousand times the noise divides a small epsilon by about a thousand
# Truth: the largest order of the accountant is 63, so epsilon stays above 0.10 at delta 1e-5 and 0.25 at 1e-9. At a
#   noise multiplier of 1,000, the exact epsilon is 0.0019, and `get_noise_multiplier` finds no noise at all for
#   epsilon 0.05
# Packages: opacus==1.6.0, torch==2.13.0, numpy==2.4.6, scipy==1.17.1; Python 3.11. torch is several GB where pip
#   has no wheel for CPUs alone
# Date: 2026-11-29
# Source: opacus/accountants/rdp.py, DEFAULT_ALPHAS; the exact value is the formula of Balle and Wang 2018, Theorem
#   8
# Output seen: the lines of `expected`. The script fails if they change.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
  opacus==1.6.0 torch==2.13.0 numpy==2.4.6 scipy==1.17.1
cd "$folder"

cat > expected <<'END'
noise 1: Opacus 4.7285, exact 4.3772
noise 50: Opacus 0.1155, exact 0.0586
noise 1000: Opacus 0.1029, exact 0.0019
epsilon 0.05: The privacy budget is too low.
END

venv/bin/python - > seen <<'END'
import warnings

from opacus.accountants import RDPAccountant
from opacus.accountants.utils import get_noise_multiplier
from scipy.optimize import brentq
from scipy.stats import norm

warnings.simplefilter("ignore")


def exact(noise, delta):
    def excess(epsilon):
        upper = norm.cdf(0.5 / noise - epsilon * noise)
        return upper - 2.718281828459045**epsilon * norm.cdf(-0.5 / noise - epsilon * noise) - delta

    return brentq(excess, 0, 20)


for noise in (1, 50, 1000):
    accountant = RDPAccountant()
    accountant.step(noise_multiplier=noise, sample_rate=1.0)
    print(f"noise {noise}: Opacus {accountant.get_epsilon(delta=1e-5):.4f}, exact {exact(noise, 1e-5):.4f}")
try:
    get_noise_multiplier(
        target_epsilon=0.05, target_delta=1e-6, sample_rate=0.01, steps=100, accountant="rdp"
    )
    print("noise for epsilon 0.05 found")
except ValueError as error:
    print("epsilon 0.05:", error)
END

diff expected seen
echo "opacus-epsilon-floor: as described"
