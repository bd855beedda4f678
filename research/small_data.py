"""Measures whether AIM is worse than independent marginals on little data.

    python -m research.small_data                       # 500 to 5,000 rows, epsilon 0.1 to 1

AIM and independent marginals spend the same epsilon on the same tables
(`benchmarks.aim.adult_like`), one table per seed. TVD2 is the mean total variation over all two-way
marginals. The column "worse by" is the TVD2 of AIM minus the TVD2 of independent marginals: the
mean over tables, with its standard error.
"""

from __future__ import annotations

import argparse
import itertools
import math
import statistics
import tempfile
from pathlib import Path

import pandas as pd

import sugarbush as sb
from benchmarks.aim import DELTA, SIZES, Table, make_table, mean_variation, shares_of


def error(table: Table, *, engine: str, epsilon: float, seed: int) -> float:
    """Return the mean total variation over all two-way marginals, for one table of `engine`."""
    columns = [
        {"name": f"column{i:02d}", "column": f"column{i:02d}", "values": list(range(size))}
        for i, size in enumerate(table.sizes)
    ]
    schema = {"subject": "a table of codes", "attributes": columns}
    frame = pd.DataFrame(table.codes, columns=[str(column["name"]) for column in columns])
    with tempfile.TemporaryDirectory() as state:
        made = sb.dp_table(
            frame,
            schema=schema,
            epsilon=epsilon,
            delta=DELTA,
            dataset="adult-like",
            cap=math.inf,
            engine=engine,
            seed=seed,
            state=Path(state),
        )
    # Rows with the value `other`, which no record has, are noise.
    codes = made.value.apply(pd.to_numeric, errors="coerce").dropna().to_numpy(dtype=int)
    return mean_variation(table.shares, shares_of(codes, table.sizes))[1]


def compare(rows: int, columns: int, epsilon: float, *, seeds: range) -> str:
    """Compute one row of the printed table."""
    found: dict[str, list[float]] = {"sugarbush": [], "independent": []}
    for seed in seeds:
        table = make_table(rows, SIZES[:columns], seed=seed)
        for engine, errors in found.items():
            errors.append(error(table, engine=engine, epsilon=epsilon, seed=seed))
    apart = [a - b for a, b in zip(*found.values(), strict=True)]
    ours, theirs = (statistics.fmean(errors) for errors in found.values())
    return (
        f"| {rows:,} | {columns} | {epsilon:g} | {ours:.4f} | {theirs:.4f} "
        f"| {statistics.fmean(apart):+.4f} "
        f"± {statistics.stdev(apart) / math.sqrt(len(seeds)):.4f} |"
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
    print("| rows | columns | epsilon | AIM TVD2 | independent TVD2 | worse by |")
    print("|---|---|---|---|---|---|")
    for case in itertools.product(asked.rows, asked.columns, asked.epsilons):
        print(compare(*case, seeds=seeds), flush=True)


if __name__ == "__main__":
    main()
