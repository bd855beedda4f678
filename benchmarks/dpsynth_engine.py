"""Runs a mechanism of google/dpsynth, or private-pgm's AIM, on a table of codes.

`benchmarks.aim` starts this file.

    PYTHON benchmarks/dpsynth_engine.py aim-gdp TABLE.npz ROWS.npy --rho 0.01 --mb 4

dpsynth needs Python 3.12 and packages that the project does not have. So PYTHON is the interpreter
of another environment, and this file imports nothing of the project. TABLE.npz contains the codes
(n, d) and the sizes (d,). Both mechanisms of dpsynth compose Gaussian mechanisms, so rho = mu^2 / 2
is exact. All have their own defaults, except for the workload (all sets of `--degree` columns; for
private-pgm with at most 10,000 cells, as in its program) and the size of the model. `swift-merged`
also merges rare values. private-pgm converts epsilon and delta to rho by itself.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from typing import Any

import numpy as np


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("mechanism", choices=["aim-gdp", "swift", "swift-merged", "private-pgm"])
    parser.add_argument("table")
    parser.add_argument("rows")
    parser.add_argument("--rho", type=float, required=True)
    parser.add_argument("--mb", type=float, required=True)
    parser.add_argument("--degree", type=int, required=True)
    parser.add_argument("--pgm", help="a checkout of ryan112358/mbi, for private-pgm")
    parser.add_argument("--epsilon", type=float)
    parser.add_argument("--delta", type=float)
    asked = parser.parse_args()

    import mbi

    with np.load(asked.table) as table:
        codes, sizes = table["codes"], table["sizes"]
    names = [f"column{i:02d}" for i in range(len(sizes))]
    data = mbi.Dataset(
        dict(zip(names, codes.T, strict=True)), mbi.Domain(names, [int(size) for size in sizes])
    )
    workload = list(itertools.combinations(names, asked.degree))
    run = _private_pgm if asked.mechanism == "private-pgm" else _dpsynth
    made = run(asked, data, workload)
    np.save(asked.rows, np.stack([np.asarray(made[name]) for name in names], axis=1))


def _dpsynth(asked: argparse.Namespace, data: Any, workload: list[tuple[str, ...]]) -> Any:
    from dpsynth.discrete_mechanisms import aim_gdp, discrete, swift

    cells = asked.mb * 2**20 / 8
    inner = {
        "aim-gdp": lambda: aim_gdp.AIMGDPConfig(workload=workload, max_model_size=asked.mb),
        "swift": lambda: swift.SWIFTConfig(workload=workload, max_clique_size=cells),
    }[asked.mechanism.removesuffix("-merged")]()
    merged = asked.mechanism.endswith("-merged")
    mechanism = discrete.DiscreteConfig(mechanism=inner, compress_columns=merged)
    run = mechanism.configure(zcdp_rho=asked.rho)
    return run(np.random.default_rng(), data).synthetic_data.data


def _private_pgm(asked: argparse.Namespace, data: Any, workload: list[tuple[str, ...]]) -> Any:
    sys.path.insert(0, f"{asked.pgm}/mechanisms")
    from aim import AIM

    small = [(names, 1.0) for names in workload if data.domain.size(names) <= 10_000]
    mechanism = AIM(asked.epsilon, asked.delta, max_model_size=asked.mb)
    return mechanism.run(data, small)[1].to_dict()


if __name__ == "__main__":
    main()
