"""Is AIM ever worse than independent marginals on little data?

    python -m research.small_data                       # 500 to 5,000 rows, epsilon 0.1 to 1

Both spend the same mu on the same tables (`benchmarks.aim.adult_like`), one table a seed. TVD2 is
the mean total variation over all two-way marginals; "worse by" the mean of AIM's less
independent's with its standard error over the seeds; "rare" the mean share of the schema's values
that AIM merged.
"""

from __future__ import annotations

import argparse
import itertools
import math
import statistics

import numpy as np
from numpy.typing import NDArray

from benchmarks.aim import DELTA, SIZES, Table, make_table, mean_variation, shares_of
from sugarbush.privacy.budget import mu_of
from sugarbush.privacy.data_types import Private
from sugarbush.randomness import public_rng
from sugarbush.tables.aim import aim
from sugarbush.tables.baselines import independent
from sugarbush.tables.marginal_measurer import MarginalMeasurer
from sugarbush.tables.synthesis import Synthesis, draw_rows


def error(synthesis: Synthesis, table: Table, *, seed: int) -> float:
    """Mean total variation over all two-way marginals."""
    rows: NDArray[np.int64] = draw_rows(synthesis, public_rng(seed, "rows"))
    return mean_variation(table.shares, shares_of(rows, table.sizes))[1]


def merged_share(synthesis: Synthesis, sizes: tuple[int, ...]) -> float:
    merged = (len(rare.cells) - max(rare.cells) for rare in synthesis.rare.values())
    return sum(merged) / sum(sizes)


def compare(rows: int, columns: int, epsilon: float, *, seeds: range) -> str:
    mu, sizes = mu_of(epsilon=epsilon, delta=DELTA), SIZES[:columns]
    domain = {f"column{i:02d}": size for i, size in enumerate(sizes)}
    ours, theirs, rare = [], [], []
    for seed in seeds:
        table = make_table(rows, sizes, seed=seed)

        def asked(codes: NDArray[np.int64] = table.codes) -> MarginalMeasurer:
            return MarginalMeasurer(Private(codes), domain, mu=mu)

        made = aim(asked(), degree=2, max_cells=10_000, max_model_mb=4)
        ours.append(error(made, table, seed=seed))
        theirs.append(error(independent(asked()), table, seed=seed))
        rare.append(merged_share(made, sizes))
    apart = [a - b for a, b in zip(ours, theirs, strict=True)]
    return (
        f"| {rows:,} | {columns} | {epsilon:g} | {statistics.fmean(ours):.4f} "
        f"| {statistics.fmean(theirs):.4f} | {statistics.fmean(apart):+.4f} "
        f"± {statistics.stdev(apart) / math.sqrt(len(seeds)):.4f} | {statistics.fmean(rare):.0%} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", nargs="+", type=int, default=[500, 1_500, 5_000])
    parser.add_argument("--columns", nargs="+", type=int, default=[5, 9, 15])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.1, 0.3, 1])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0)
    asked = parser.parse_args()
    seeds = range(asked.first_seed, asked.first_seed + asked.seeds)
    print("| rows | columns | epsilon | AIM TVD2 | independent TVD2 | worse by | rare |")
    print("|---|---|---|---|---|---|---|")
    for case in itertools.product(asked.rows, asked.columns, asked.epsilons):
        print(compare(*case, seeds=seeds), flush=True)


if __name__ == "__main__":
    main()
