#!/usr/bin/env bash
# Dask draws noise once for equal inputs of `client.map`.
#
# Guess: `client.map(noisy, [5, 5, 5])` makes three draws, and a second `submit` another one
# Truth: a task is named after its function and inputs, so equal inputs share one result while it is in memory:
#   three equal counts get the same noise, and a second release repeats the first one's. `pure=False` draws each
#   time; `dask.delayed` does so by default
# Packages: dask==2026.8.0, distributed==2026.8.0; Python 3.11
# Date: 2026-11-29
# Source: distributed.Client.map and submit, argument `pure`
# Output seen: the lines of `expected`. The script fails if they change.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
  dask==2026.8.0 distributed==2026.8.0
cd "$folder"

cat > expected <<'END'
map: 1 draw of 3
a second submit repeats the first: True
pure=False: 3 draws of 3
delayed: 3 draws of 3
END

venv/bin/python - > seen <<'END'
import random

import dask
from dask.distributed import Client


def noisy(count):
    return count + random.SystemRandom().gauss(0, 1)


with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None) as client:
    print("map:", len(set(client.gather(client.map(noisy, [5, 5, 5])))), "draw of 3")
    first = client.submit(noisy, 5)
    print("a second submit repeats the first:", client.submit(noisy, 5).result() == first.result())
    print("pure=False:", len(set(client.gather(client.map(noisy, [5, 5, 5], pure=False)))), "draws of 3")
    print("delayed:", len(set(dask.compute(*[dask.delayed(noisy)(5) for _ in range(3)]))), "draws of 3")
END

diff expected seen
echo "dask-map-of-equal-inputs: as described"
