"""Simulates a run of 100 million records and 10 million calls, and computes its resources.

    python -m benchmarks.schedule                           # the simulation
    python -m benchmarks.schedule --measure 6104            # also empty tasks on real workers

The corpus does not exist. A shard is a number of records. The work of a shard is its number of
records times the unit costs in `UNIT`. `UNIT` names the benchmark of each cost. Like the Dask
engine, the simulation gives the next shard to the first free worker. The scheduler starts one shard
at a time. Workers have different speeds, and some shards take longer. A killed worker computes its
shard again. `--measure` runs the engine of `run.cluster` on two local workers. As in a vote, the
candidates are sent with the function, and each shard returns one integer per candidate. The command
prints the overhead of a shard, and compares the simulation with shards that sleep.
"""

from __future__ import annotations

import argparse
import heapq
import math
import resource
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sugarbush.randomness import public_rng
from sugarbush.run.cluster import Dask

SPAN_BYTES = 2**25  # of a shard of prepare
SHARD_RECORDS, DIM, ATTRIBUTES, TEXT_BYTES = 16_384, 384, 8, 600
ID_BYTES, HEAD_BYTES = 24, 8
# In the process of the stage, after the shards.
SERIAL = {
    "prepare": ("merge a record",),
    "extract": ("digest the codes of a record",),
}
# CPU seconds, on one core of an AMD EPYC.
UNIT = {
    "scan a record": 5.7e-6,  # benchmarks.prepare: rows of csv that begin in a range of bytes
    "prepare a record": 142e-6,  # benchmarks.prepare
    "merge a record": 0.5e-6,  # benchmarks.prepare: ids and digests, in the process of the stage
    "extract a record": 9e-6,  # benchmarks.scale
    "digest the codes of a record": 3.3e-6,  # benchmarks.prepare, in the process of the stage
    "count a record": 0.4e-6,  # benchmarks.prepare: the marginals of all pairs, once
    "embed a record": 1 / 57,  # benchmarks.embedding: bundled encoder, 128 tokens
    "one score": 14e-9,  # benchmarks.scores: a record's kernel score of one candidate
    "call": 1.7e-3,  # benchmarks.llm
}
FAILURES = {"none": 0.0, "one per worker and day": 1 / 86_400, "one per worker and hour": 1 / 3600}


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """A cluster of workers with one core each. Rates are per worker and second."""

    workers: int
    overhead_s: float = 0.0046  # at the scheduler, per shard (--measure)
    speed_spread: float = 0.1  # sigma of a lognormal, for workers and again for shards
    slow_share: float = 0.02  # share of workers that are `slowdown` times slower
    slowdown: float = 3.0
    failure_rate: float = 0.0
    restart_s: float = 60.0  # seconds until a killed worker works again
    notice_s: float = 5.0  # seconds until the scheduler detects a killed worker


@dataclass(frozen=True)
class SimulatedSchedule:
    """The duration of one stage, its repeated work, and its number of failures."""

    wall_s: float
    repeated_s: float
    failures: int


def simulate(shard_s: float, shards: int, cluster: Cluster) -> SimulatedSchedule:
    """Run `shards` shards of `shard_s` seconds each, and wait for the last one.

    >>> round(simulate(1.0, 100, Cluster(workers=10, speed_spread=0, slow_share=0)).wall_s)
    10
    """
    rng = public_rng(0, "schedule")
    speed = rng.lognormal(0.0, cluster.speed_spread, cluster.workers)
    speed[rng.random(cluster.workers) < cluster.slow_share] *= cluster.slowdown
    seconds = shard_s * rng.lognormal(0.0, cluster.speed_spread, shards)
    waiting, idle = deque(range(shards)), list(range(cluster.workers))
    events: list[tuple[float, int, int, str]] = []  # when, worker, shard, what
    now = scheduler = end = repeated = 0.0
    failures = 0
    while waiting or events:
        while waiting and idle:
            worker, shard = idle.pop(), waiting.popleft()
            scheduler = max(scheduler, now) + cluster.overhead_s
            lasts = seconds[shard] * speed[worker]
            dies = rng.exponential(1 / cluster.failure_rate) if cluster.failure_rate else np.inf
            if dies < lasts:
                failures, repeated = failures + 1, repeated + dies
                died = scheduler + dies
                heapq.heappush(events, (died + cluster.notice_s, worker, shard, "again"))
                heapq.heappush(events, (died + cluster.restart_s, worker, shard, "free"))
            else:
                end = max(end, scheduler + lasts)
                heapq.heappush(events, (scheduler + lasts, worker, shard, "free"))
        if events:
            now, worker, shard, what = heapq.heappop(events)
            if what == "again":
                waiting.append(shard)
            else:
                idle.append(worker)
    return SimulatedSchedule(end, repeated, failures)


def main() -> None:
    options = _options()
    overhead_s = _measure(options) if options.measure else Cluster.overhead_s
    shards = -(-options.records // SHARD_RECORDS)
    _sizes(options, shards)
    heads = "stage", "hours", "ideal", "again", "killed"
    print(f"\n{'workers':>8} {'failures':24}" + "{:10}{:>8}{:>8}{:>8}{:>8}".format(*heads))
    for workers in options.workers:
        for name, rate in FAILURES.items():
            cluster = Cluster(workers=workers, overhead_s=overhead_s, failure_rate=rate)
            total = ideal = 0.0
            for stage, (shard_s, number) in _distributed(options, workers).items():
                found, least = simulate(shard_s, number, cluster), shard_s * number / workers
                alone = options.records * sum(UNIT[cost] for cost in SERIAL.get(stage, ()))
                wall = found.wall_s + alone
                total, ideal = total + wall, ideal + least
                print(
                    f"{workers:8} {name:24}{stage:10}{wall / 3600:8.2f}{least / 3600:8.2f}"
                    f"{found.repeated_s / 3600:8.1f}{found.failures:8}"
                )
            print(f"{workers:8} {name:24}{'all':10}{total / 3600:8.2f}{ideal / 3600:8.2f}")


def _distributed(options: argparse.Namespace, workers: int) -> dict[str, tuple[float, int]]:
    """Return the seconds of one shard and the number of shards, by stage. All workers share the
    bandwidth of the file system."""
    cpu_and_bytes = {
        "scan": (UNIT["scan a record"], TEXT_BYTES),
        "prepare": (UNIT["prepare a record"], 2 * TEXT_BYTES),
        "extract": (UNIT["extract a record"], TEXT_BYTES),
        "embed": (UNIT["embed a record"], TEXT_BYTES + 4 * DIM),
        "score": (options.candidates * UNIT["one score"], 4 * DIM),
    }
    sizes = dict.fromkeys(("scan", "prepare"), SPAN_BYTES // TEXT_BYTES)
    stages = {}
    for stage, (cpu_s, size) in cpu_and_bytes.items():
        records = sizes.get(stage, SHARD_RECORDS)
        seconds = records * (cpu_s + size * workers / options.bandwidth)
        stages[stage] = seconds, -(-options.records // records)
    return stages


def _sizes(options: argparse.Namespace, shards: int) -> None:
    records, candidates, calls = options.records, options.candidates, options.calls
    core_hours = sum(math.prod(shard) for shard in _distributed(options, 0).values()) / 3600
    tokens = options.prompt_tokens, options.answer_tokens
    money = sum(t * p for t, p in zip(tokens, options.prices, strict=True)) * calls / 1e6
    print(f"{records:,} records in {shards:,} parts, {candidates:,} scored texts, {calls:,} calls")
    prices = " and ".join(map(str, options.prices))
    for name, value in {
        "texts on the shared file system, GB": records * TEXT_BYTES / 1e9,
        "vectors on the shared file system, GB": records * DIM * 4 / 1e9,
        "codes in the memory of a stage, GB a copy": records * ATTRIBUTES / 1e9,
        "ids in the memory of prepare, GB": records * (ID_BYTES + 2 * HEAD_BYTES) / 1e9,
        "scored texts' vectors, to each worker, GB": candidates * DIM * 4 / 1e9,
        "partial sums, to the stage, GB": candidates * 8 * shards / 1e9,
        "answers, GB": calls * TEXT_BYTES / 1e9,
        "prepare, one process, hours": records * UNIT["prepare a record"] / 3600,
        "AIM counts the codes four times, hours": 4 * records * UNIT["count a record"] / 3600,
        "prepare, extract, embed and score, core-hours": core_hours,
        f"calls, {options.concurrency} at once of {options.latency} s, hours": (
            calls * options.latency / options.concurrency / 3600
        ),
        "calls, CPU of the client, hours": calls * UNIT["call"] / 3600,
        f"cost of cores at {options.core_hour} an hour": core_hours * options.core_hour,
        f"cost of tokens at {prices} a million": money,
    }.items():
        print(f"{name:46}{value:10,.1f}")


def _measure(options: argparse.Namespace) -> float:
    """Return the overhead of a shard in seconds, on two local workers."""
    vectors = np.zeros((options.candidates, DIM), dtype=np.float32)
    sums = np.zeros(options.candidates, dtype=np.int64)

    def nothing(shard: str) -> NDArray[np.int64]:
        return sums + len(vectors) * 0

    def sleep(shard: str) -> int:
        time.sleep(0.1)
        return 1

    names = [f"train.parquet:{place}" for place in range(options.measure)]
    with _two_workers() as address:
        timed(Dask(address), nothing, names[:2], np.add)
        wall, cpu = timed(Dask(address), nothing, names, np.add)
        own_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        count = len(names)
        print(
            f"{count:,} parts without work, 2 workers: {wall:.1f} s, {1e3 * wall / count:.2f} ms a "
            f"part ({1e3 * cpu / count:.2f} CPU-ms in stage and scheduler), peak_mb {own_mb:.0f}"
        )
        slept, _ = timed(Dask(address), sleep, names[:200], int.__add__)
    alike = Cluster(workers=2, overhead_s=wall / count, speed_spread=0, slow_share=0)
    expected = simulate(0.1, 200, alike).wall_s
    print(f"200 parts of 0.1 s: {slept:.2f} s, simulated {expected:.2f} s\n")
    return wall / count


def timed(
    engine: Dask, function: Callable[..., object], shards: list[str], combine: Callable[..., object]
) -> tuple[float, float]:
    """Return wall seconds, and CPU seconds of this process."""
    start, cpu = time.perf_counter(), time.process_time()
    engine(function, shards, combine)
    return time.perf_counter() - start, time.process_time() - cpu


@contextmanager
def _two_workers() -> Iterator[str]:
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=":0", host="127.0.0.1"
    ) as cluster:
        yield cluster.scheduler_address


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--records", type=int, default=100_000_000)
    parser.add_argument("--candidates", type=int, default=20_000, help="texts that are scored")
    parser.add_argument("--calls", type=int, default=10_000_000)
    parser.add_argument("--workers", type=int, nargs="+", default=[64, 256, 1024])
    parser.add_argument("--measure", type=int, default=0, help="parts on real workers")
    parser.add_argument("--latency", type=float, default=4.0, help="seconds of a call")
    parser.add_argument("--concurrency", type=int, default=512)
    parser.add_argument("--prompt-tokens", type=int, default=700)
    parser.add_argument("--answer-tokens", type=int, default=150)
    parser.add_argument("--prices", type=float, nargs=2, default=[0.15, 0.60])
    parser.add_argument("--core-hour", type=float, default=0.05)
    parser.add_argument("--bandwidth", type=float, default=2e9, help="of the file system, bytes/s")
    return parser.parse_args()


if __name__ == "__main__":
    main()
