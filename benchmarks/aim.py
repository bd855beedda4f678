"""Measures the speed and the accuracy of the engines for the DP table.

    python -m benchmarks.aim                              # our engines, all sizes
    python -m benchmarks.aim --engines sugarbush smartnoise --rows 5000 --columns 9 --epsilons 1

    python -m benchmarks.aim --engines sugarbush peer --rows 5000 --columns 9 --epsilons 1 --seeds 1

    python -m benchmarks.aim --table adult.csv --domain adult-domain.json --dpsynth PYTHON \\
        --engines sugarbush aim-gdp swift --epsilons 0.3 1 4 --seeds 1

    python -m benchmarks.aim --table airline_tweets.parquet --attributes airline sentiment hour \\
        --epsilons 0.3 1 4 --seeds 3

With `--table`, the table is a csv or parquet file. It has codes, and a JSON file `--domain` has the
size of each column; or `--attributes` names columns, and the values in each are its domain (so the
benchmark treats the values as public). `--degree 3` asks for three-way workloads where an engine
has a workload. The engines `aim-gdp` and `swift` are those of google/dpsynth, in the environment of
the interpreter `--dpsynth`; `swift-merged` merges rare values (`compress_columns`). `private-pgm`
is mechanisms/aim.py of ryan112358/mbi: `--pgm` names its checkout, and it runs in the environment
of dpsynth. The engine `smartnoise` is the AIM loop of smartnoise-synth with our measurer. The
engine `peer` is unchanged smartnoise-synth, with its own domains, noise, sampler and model size.
Both engines need `.venv-smartnoise`, which `make test-smartnoise` makes. Each run is a separate
process, which is forked after the table is made. Wall and CPU seconds include all of `synthesize`
except the ledger and the conversion of epsilon to mu. The seconds of smartnoise, dpsynth and
private-pgm include importing mbi and compiling, and the memory of programs of other interpreters is
not measured. Peak memory (on Linux) is the highest memory use of the process minus its memory use
at the fork. TVD1 to TVD3 are the mean total variation over all 1-, 2- and 3-way marginals between
the private and the synthetic table. Delta is 1e-9. `adult_like` draws the tables. The columns have
the domain sizes of adult.csv, and each column depends on up to two earlier columns. Each seed gives
one table. The noise of each run is independent.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import json
import math
import multiprocessing
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.mst import mst
from sugarbush.privacy.budget import mu_of
from sugarbush.privacy.data_types import Private
from sugarbush.randomness import public_rng
from sugarbush.tables.engines import run_engine
from sugarbush.tables.marginal_measurer import MarginalMeasurer
from sugarbush.tables.settings import Engine, SynthesizeMetadataSettings
from sugarbush.tables.synthesis import draw_rows

DELTA = 1e-9
MST, PEER = "mst", "peer"
DPSYNTH = ("aim-gdp", "swift", "swift-merged")
PRIVATE_PGM = "private-pgm"
WAYS = (1, 2, 3)
# The sizes of the nine domains of adult.csv (age to income), and of six further domains.
SIZES = (10, 9, 16, 7, 15, 6, 5, 2, 2, 5, 10, 42, 3, 20, 8)

EngineRun = tuple[float, str]  # epsilon and engine
_FORK = multiprocessing.get_context("fork")


@dataclass(frozen=True, kw_only=True)
class AimJob:
    engine: str
    epsilon: float
    mu: float
    seed: int
    degree: int
    max_model_mb: float
    dpsynth: str | None
    pgm: str


@dataclass(frozen=True, kw_only=True)
class Result:
    wall_s: float
    cpu_s: float
    peak_mb: float
    tvd: tuple[float, ...]


def adult_like(rows: int, sizes: tuple[int, ...], *, seed: int) -> NDArray[np.int64]:
    """Draw codes, `(rows, d)`. Each column is a mixture of two functions of earlier columns."""
    rng = public_rng(seed, "adult-like")
    columns: list[NDArray[np.int64]] = []
    for place, size in enumerate(sizes):
        base = rng.dirichlet(np.full(size, 0.8))
        parents = rng.choice(place, size=min(place, 2), replace=False).tolist() if place else []
        suggested = [
            rng.dirichlet(0.3 * size * base + 1e-3, size=sizes[parent])[columns[parent]]
            for parent in parents
        ] or [np.broadcast_to(base, (rows, size))]
        shares = np.mean(suggested, axis=0).cumsum(axis=1)
        drawn = (rng.random(rows)[:, None] > shares).sum(axis=1)
        columns.append(np.minimum(drawn, size - 1))
    return np.stack(columns, axis=1)


def shares_of(table: NDArray[np.int64], sizes: tuple[int, ...]) -> list[list[NDArray[np.float64]]]:
    """Return the cell shares of each 1-, 2- and 3-way marginal, as `[ways - 1][marginal]`."""
    columns = [np.ascontiguousarray(column, dtype=np.int32) for column in table.T]
    found: list[list[NDArray[np.float64]]] = []
    for ways in WAYS:
        found.append([])
        for places in itertools.combinations(range(len(sizes)), ways):
            cell = columns[places[0]]
            for place in places[1:]:
                cell = cell * np.int32(sizes[place]) + columns[place]
            cells = math.prod(sizes[place] for place in places)
            found[-1].append(np.bincount(cell, minlength=cells) / len(table))
    return found


def mean_variation(
    one: list[list[NDArray[np.float64]]], other: list[list[NDArray[np.float64]]]
) -> tuple[float, ...]:
    """Return the mean total variation over all 1-way, 2-way and 3-way marginals."""
    return tuple(
        statistics.fmean(float(np.abs(a - b).sum() / 2) for a, b in zip(mine, theirs, strict=True))
        for mine, theirs in zip(one, other, strict=True)
    )


@dataclass(frozen=True, kw_only=True)
class Table:
    """A private table and its marginals, for comparison with synthetic tables."""

    codes: NDArray[np.int64]
    sizes: tuple[int, ...]
    shares: list[list[NDArray[np.float64]]]


def make_table(rows: int, sizes: tuple[int, ...], seed: int) -> Table:
    codes = adult_like(rows, sizes, seed=seed)
    return Table(codes=codes, sizes=sizes, shares=shares_of(codes, sizes))


def read_table(file: Path, domain: Path | None, attributes: Sequence[str]) -> Table:
    """Read a table. With a JSON object of sizes, its columns are codes.

    Without it, the values of each column of `attributes` in ascending order are the codes 0, 1, ...
    """
    frame = pd.read_parquet(file) if file.suffix == ".parquet" else pd.read_csv(file)
    if domain is not None:
        size_of: dict[str, int] = json.loads(domain.read_text())
        rows = frame[list(size_of)].to_numpy(dtype=np.int64)
    else:
        coded = {
            name: pd.factorize(frame[name], sort=True, use_na_sentinel=False) for name in attributes
        }
        size_of = {name: len(values) for name, (_, values) in coded.items()}
        rows = np.stack([codes for codes, _ in coded.values()], axis=1).astype(np.int64)
    sizes = tuple(size_of.values())
    return Table(codes=rows, sizes=sizes, shares=shares_of(rows, sizes))


def _synthesize(job: AimJob, table: Table) -> NDArray[np.int64]:
    """Return synthetic rows from the engine of the job."""
    domain = {f"column{i:02d}": size for i, size in enumerate(table.sizes)}
    if job.engine == PEER:
        return _by_smartnoise_itself(pd.DataFrame(table.codes, columns=list(domain)), job.epsilon)
    if job.engine in (*DPSYNTH, PRIVATE_PGM):
        return _by_program(job, table)
    measurer = MarginalMeasurer(Private(table.codes), domain, mu=job.mu)
    if job.engine == MST:
        made = mst(measurer, max_cells=10_000)
    else:
        settings = SynthesizeMetadataSettings(engine=Engine(job.engine), degree=job.degree)
        made = run_engine(measurer, settings, max_model_mb=job.max_model_mb)
    return draw_rows(made, public_rng(job.seed, "rows"))


def _by_smartnoise_itself(frame: pd.DataFrame, epsilon: float) -> NDArray[np.int64]:
    from snsynth.aim import AIMSynthesizer

    synthesizer = AIMSynthesizer(epsilon=epsilon, delta=DELTA, degree=2)
    with contextlib.redirect_stdout(io.StringIO()):
        synthesizer.fit(frame, categorical_columns=list(frame.columns))
        rows = synthesizer.sample()
    return np.asarray(rows.to_numpy(), dtype=np.int64)


def _by_program(job: AimJob, table: Table) -> NDArray[np.int64]:
    """Run another project in the interpreter of its environment."""
    assert job.dpsynth is not None, "name the interpreter of dpsynth: --dpsynth"
    program = [job.dpsynth, str(Path(__file__).parent / "dpsynth_engine.py"), job.engine]
    numbers = {"rho": job.mu**2 / 2, "mb": job.max_model_mb, "degree": job.degree}
    if job.engine == PRIVATE_PGM:  # converts epsilon and delta to rho by itself
        program += ["--pgm", job.pgm, "--epsilon", str(job.epsilon), "--delta", str(DELTA)]
    options = [word for name, value in numbers.items() for word in (f"--{name}", str(value))]
    with tempfile.TemporaryDirectory() as folder:
        codes, rows = Path(folder) / "table.npz", Path(folder) / "rows.npy"
        np.savez(codes, codes=table.codes, sizes=table.sizes)
        command = [*program, str(codes), str(rows), *options]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return np.asarray(np.load(rows), dtype=np.int64)


def _cpu_s() -> float:
    """Return the CPU seconds of this process and its ended children."""
    return sum(os.times()[:4])


def _one(job: AimJob, table: Table) -> Result:
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak memory
    before_mb, wall, cpu = _memory_mb("VmRSS"), time.perf_counter(), _cpu_s()
    rows = _synthesize(job, table)
    wall_s, cpu_s = time.perf_counter() - wall, _cpu_s() - cpu
    return Result(
        wall_s=wall_s,
        cpu_s=cpu_s,
        peak_mb=_memory_mb("VmHWM") - before_mb,
        tvd=mean_variation(table.shares, shares_of(rows, table.sizes)),
    )


def _memory_mb(name: str) -> float:
    status = Path("/proc/self/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith(f"{name}:")]
    return int(line.split()[1]) / 1024


def _isolated(job: AimJob, table: Table) -> Result:
    """Run a job in a new process. The process gets the table and has used no random numbers
    before."""
    receiver, sender = _FORK.Pipe(duplex=False)
    process = _FORK.Process(target=lambda: sender.send(_one(job, table)))
    process.start()
    sender.close()
    result: Result = receiver.recv()
    process.join()
    return result


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    own = [Engine.SUGARBUSH.value, MST, Engine.INDEPENDENT.value]
    choices = [*Engine, MST, PEER, *DPSYNTH, PRIVATE_PGM]
    parser.add_argument("--engines", nargs="+", choices=choices, default=own)
    parser.add_argument("--table", type=Path, help="csv or parquet; default: drawn tables")
    parser.add_argument("--domain", type=Path, help="the sizes of the columns of --table, as JSON")
    parser.add_argument("--attributes", nargs="+", default=[], help="columns, without --domain")
    parser.add_argument("--dpsynth", help="a Python interpreter that has dpsynth")
    parser.add_argument("--pgm", default="", help="a checkout of ryan112358/mbi")
    parser.add_argument("--rows", nargs="+", type=int, default=[5_000, 50_000, 1_000_000])
    parser.add_argument("--columns", nargs="+", type=int, default=[5, 9, 15])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.1, 1, 10])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--degree", type=int, default=2, help="attributes in a marginal")
    parser.add_argument("--max-model-mb", type=float, default=4)
    return parser.parse_args()


def _measure(
    make: Callable[[int], Table], asked: argparse.Namespace
) -> dict[EngineRun, list[Result]]:
    """Run every engine at every epsilon on the tables of all seeds, and return the results."""
    found: dict[EngineRun, list[Result]] = {}
    for seed in range(asked.seeds):
        table = make(seed)
        for epsilon, name in itertools.product(asked.epsilons, asked.engines):
            job = AimJob(
                engine=name, epsilon=epsilon, mu=mu_of(epsilon=epsilon, delta=DELTA), seed=seed,
                degree=asked.degree, max_model_mb=asked.max_model_mb,
                dpsynth=asked.dpsynth, pgm=asked.pgm,
            )  # fmt: skip
            found.setdefault((epsilon, name), []).append(_isolated(job, table))
    return found


def _line(results: list[Result], first: list[Result]) -> str:
    def mean(key: str, of: list[Result] = results) -> float:
        return statistics.fmean(getattr(result, key) for result in of)

    tvd = [statistics.fmean(ways) for ways in zip(*(r.tvd for r in results), strict=True)]
    of_first = statistics.fmean(result.tvd[1] for result in first)
    return (
        f"| {mean('wall_s'):.2f} | {mean('cpu_s'):.2f} | {mean('peak_mb'):.0f} "
        f"| {tvd[0]:.4f} | {tvd[1]:.4f} | {tvd[2]:.4f} "
        f"| {tvd[1] / of_first:.2f} | {mean('cpu_s') / mean('cpu_s', first):.2f} |"
    )


def main() -> None:
    asked = _arguments()
    print(
        "| rows | columns | epsilon | engine | seeds | wall s | CPU s | peak MB | TVD1 | TVD2 "
        "| TVD3 | TVD2 / first | CPU / first |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|---|---|")
    if asked.table is not None:
        table = read_table(asked.table, asked.domain, asked.attributes)
        makers = {table.codes.shape: lambda seed: table}
    else:
        makers = {
            (rows, columns): partial(make_table, rows, SIZES[:columns])
            for rows, columns in itertools.product(asked.rows, asked.columns)
        }
    for (rows, columns), make in makers.items():
        found = _measure(make, asked)
        for (epsilon, name), results in found.items():
            print(
                f"| {rows:,} | {columns} | {epsilon:g} | {name} | {asked.seeds} "
                + _line(results, found[epsilon, asked.engines[0]]),
                flush=True,
            )


if __name__ == "__main__":
    main()
