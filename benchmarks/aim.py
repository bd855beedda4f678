"""How fast and how accurate each engine of DP metadata is.

    python -m benchmarks.aim                              # own engines, the grid
    python -m benchmarks.aim --engines sugarbush smartnoise --rows 5000 --columns 9 --epsilons 1

Each run is a process of its own. Wall and CPU seconds hold all of `synthesize` but the ledger (and,
for smartnoise, importing mbi and compiling); peak memory (Linux) is what the process holds at most
beyond what it held with the table made. TVD1 to TVD3
are the mean total variation over all 1-, 2- and 3-way marginals between the private and the
synthetic table. Delta is 1e-9. The tables are drawn by `adult_like`: sizes as in adult.csv, each
column depending on up to two earlier ones.
"""

from __future__ import annotations

import argparse
import itertools
import math
import multiprocessing
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sugarbush.metadata.curator import Curator
from sugarbush.metadata.engines import run_engine
from sugarbush.metadata.synthesis import draw_rows
from sugarbush.params import Engine, SynthesizeMetadataParams
from sugarbush.privacy.kinds import Private
from sugarbush.privacy.plan import mu_of
from sugarbush.randomness import public_rng

DELTA = 1e-9
# age, workclass, education, marital status, occupation, relationship, race, sex, income, then six
# more: hours, capital gain, country, citizen, years of education, region.
SIZES = (10, 9, 16, 7, 15, 6, 5, 2, 2, 5, 10, 42, 3, 20, 8)


@dataclass(frozen=True, kw_only=True)
class Job:
    engine: Engine
    rows: int
    columns: int
    epsilon: float
    seed: int
    max_model_mb: float


@dataclass(frozen=True, kw_only=True)
class Result:
    wall_s: float
    cpu_s: float
    peak_mb: float
    tvd: tuple[float, float, float]
    count_error: float


def adult_like(rows: int, sizes: tuple[int, ...], *, seed: int) -> NDArray[np.int64]:
    """`(rows, d)` codes: each column a mixture of what two earlier ones suggest."""
    rng = public_rng(seed, "adult-like")
    columns: list[NDArray[np.int64]] = []
    for place, size in enumerate(sizes):
        base = rng.dirichlet(np.full(size, 0.8))
        parents = rng.choice(place, size=min(place, 2), replace=False) if place else []
        suggested = [
            rng.dirichlet(0.3 * size * base + 1e-3, size=sizes[parent])[columns[parent]]
            for parent in parents
        ] or [np.broadcast_to(base, (rows, size))]
        shares = np.mean(suggested, axis=0).cumsum(axis=1)
        drawn = (rng.random(rows)[:, None] > shares).sum(axis=1)
        columns.append(np.minimum(drawn, size - 1))
    return np.stack(columns, axis=1)


def mean_variation(
    one: NDArray[np.int64], other: NDArray[np.int64], sizes: tuple[int, ...], ways: int
) -> float:
    distances = []
    for places in itertools.combinations(range(len(sizes)), ways):
        shape = [sizes[i] for i in places]
        shares = [
            np.bincount(
                np.ravel_multi_index([table[:, i] for i in places], shape),
                minlength=math.prod(shape),
            )
            / len(table)
            for table in (one, other)
        ]
        distances.append(float(np.abs(shares[0] - shares[1]).sum() / 2))
    return statistics.fmean(distances)


def _one(job: Job) -> Result:
    sizes = SIZES[: job.columns]
    table = adult_like(job.rows, sizes, seed=job.seed)
    settings = SynthesizeMetadataParams(
        engine=job.engine,
        degree=2,
        max_cells=10_000,
        max_model_mb=job.max_model_mb,
        label=None,
        seed=job.seed,
    )
    domain = {f"column{i:02d}": size for i, size in enumerate(sizes)}
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before_mb, wall, cpu = _memory_mb("VmRSS"), time.perf_counter(), time.process_time()
    curator = Curator(Private(table), domain, mu=mu_of(epsilon=job.epsilon, delta=DELTA))
    synthesis = run_engine(curator, settings)
    rows = draw_rows(synthesis, public_rng(job.seed, "rows"))
    return Result(
        wall_s=time.perf_counter() - wall,
        cpu_s=time.process_time() - cpu,
        peak_mb=_memory_mb("VmHWM") - before_mb,
        tvd=tuple(mean_variation(table, rows, sizes, ways) for ways in (1, 2, 3)),
        count_error=abs(synthesis.record_count - job.rows) / job.rows,
    )


def _memory_mb(name: str) -> float:
    status = Path("/proc/self/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith(f"{name}:")]
    return int(line.split()[1]) / 1024


def _isolated(job: Job) -> Result:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_one, (job,))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    own = [Engine.SUGARBUSH.value, Engine.MST.value, Engine.INDEPENDENT.value]
    parser.add_argument("--engines", nargs="+", choices=[e.value for e in Engine], default=own)
    parser.add_argument("--rows", nargs="+", type=int, default=[5_000, 50_000, 1_000_000])
    parser.add_argument("--columns", nargs="+", type=int, default=[5, 9, 15])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.1, 1, 10])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--max-model-mb", type=float, default=4)
    return parser.parse_args()


def main() -> None:
    asked = _arguments()
    print(
        "| rows | columns | epsilon | engine | seeds | wall s | CPU s | peak MB | TVD1 | TVD2 "
        "| TVD3 | TVD2 / first | CPU / first |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|---|---|")
    for rows, columns, epsilon in itertools.product(asked.rows, asked.columns, asked.epsilons):
        first: tuple[float, float] | None = None
        for name in asked.engines:
            results = [
                _isolated(
                    Job(
                        engine=Engine(name),
                        rows=rows,
                        columns=columns,
                        epsilon=epsilon,
                        seed=seed,
                        max_model_mb=asked.max_model_mb,
                    )
                )
                for seed in range(asked.seeds)
            ]
            wall, cpu, peak = (
                statistics.fmean(getattr(r, key) for r in results)
                for key in ("wall_s", "cpu_s", "peak_mb")
            )
            tvd = [statistics.fmean(r.tvd[way] for r in results) for way in range(3)]
            first = first or (tvd[1], cpu)
            print(
                f"| {rows:,} | {columns} | {epsilon:g} | {name} | {asked.seeds} | {wall:.2f} "
                f"| {cpu:.2f} | {peak:.0f} | {tvd[0]:.4f} | {tvd[1]:.4f} | {tvd[2]:.4f} "
                f"| {tvd[1] / first[0]:.2f} | {cpu / first[1]:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
