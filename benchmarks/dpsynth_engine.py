"""Runs one mechanism of google/dpsynth on a table of codes. `benchmarks.aim` starts this file.

    PYTHON benchmarks/dpsynth_engine.py aim-gdp TABLE.npz ROWS.npy --rho 0.01 --mb 4

dpsynth needs Python 3.12 and packages that the project does not have. So PYTHON is the interpreter
of another environment, and this file imports nothing of the project. TABLE.npz contains the codes
(n, d) and the sizes (d,). Both mechanisms compose Gaussian mechanisms, so rho = mu^2 / 2 is exact.
They have their own defaults, except for the workload (all pairs of columns) and the size of the
model.
"""

from __future__ import annotations

import argparse
import itertools

import numpy as np


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("mechanism", choices=["aim-gdp", "swift"])
    parser.add_argument("table")
    parser.add_argument("rows")
    parser.add_argument("--rho", type=float, required=True)
    parser.add_argument("--mb", type=float, required=True)
    asked = parser.parse_args()

    import mbi
    from dpsynth.discrete_mechanisms import aim_gdp, discrete, swift

    with np.load(asked.table) as table:
        codes, sizes = table["codes"], table["sizes"]
    names = [f"column{i:02d}" for i in range(len(sizes))]
    data = mbi.Dataset(
        dict(zip(names, codes.T, strict=True)), mbi.Domain(names, [int(size) for size in sizes])
    )
    pairs = list(itertools.combinations(names, 2))
    cells = asked.mb * 2**20 / 8
    inner = {
        "aim-gdp": lambda: aim_gdp.AIMGDPConfig(workload=pairs, max_model_size=asked.mb),
        "swift": lambda: swift.SWIFTConfig(workload=pairs, max_clique_size=cells),
    }[asked.mechanism]()
    mechanism = discrete.DiscreteConfig(mechanism=inner)
    run = mechanism.configure(zcdp_rho=asked.rho)
    made = run(np.random.default_rng(), data).synthetic_data.data
    np.save(asked.rows, np.stack([np.asarray(made[name]) for name in names], axis=1))


if __name__ == "__main__":
    main()
