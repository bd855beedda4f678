"""Measures how much faster two workers embed than one worker.

    OMP_NUM_THREADS=1 python -m benchmarks.workers --texts 3000

The bundled encoder embeds invented texts of 100 words, cut at 128 tokens, in shards of 64 texts,
without a cache. Each engine has one line: wall seconds, CPU seconds of the busiest worker, and the
ratios of both to one worker. CPU seconds include loading the model. If other processes use the
machine, use the ratio of CPU seconds, because it does not count waiting for a core.
"""

from __future__ import annotations

import argparse
import os
import time
from functools import cache

from distributed import LocalCluster

from benchmarks.scale import invented_records, vocabulary
from sugarbush.embedding.encoder import Encoder
from sugarbush.embedding.settings import EmbeddingSettings
from sugarbush.privacy.shards import MapShards
from sugarbush.randomness import public_rng
from sugarbush.run.cluster import Dask, ProcessPool

SHARD = 64
CpuByWorker = dict[int, float]


@cache
def encoder() -> Encoder:
    return Encoder(EmbeddingSettings(max_tokens=128), cache=None)


def embed(texts: list[str]) -> CpuByWorker:
    encoder().encode(texts)
    return {os.getpid(): time.process_time()}


def latest(a: CpuByWorker, b: CpuByWorker) -> CpuByWorker:
    return {worker: max(a.get(worker, 0.0), b.get(worker, 0.0)) for worker in a | b}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--texts", type=int, default=3000)
    count = parser.parse_args().texts
    rng = public_rng(0, "workers")
    texts = invented_records(0, count, vocabulary(rng), rng)["text"].tolist()
    shards = [texts[start : start + SHARD] for start in range(0, count, SHARD)]
    for name in ("processes", "dask"):
        alone = None
        for workers in (1, 2):
            wall, cpu = (
                _processes(workers, shards) if name == "processes" else _dask(workers, shards)
            )
            alone = alone or (wall, cpu)
            print(
                f"{name:10} {workers} workers {wall:8.1f} s {cpu:8.1f} CPU-s   by the clock "
                f"{alone[0] / wall:.2f}, by CPU seconds {alone[1] / cpu:.2f}",
                flush=True,
            )


def _processes(workers: int, shards: list[list[str]]) -> tuple[float, float]:
    return _timed(ProcessPool(workers), shards)


def _dask(workers: int, shards: list[list[str]]) -> tuple[float, float]:
    with LocalCluster(
        n_workers=workers, threads_per_worker=1, dashboard_address=":0", host="127.0.0.1"
    ) as cluster:
        return _timed(Dask(cluster.scheduler_address), shards)


def _timed(engine: MapShards, shards: list[list[str]]) -> tuple[float, float]:
    start = time.perf_counter()
    used = engine(embed, shards, latest)
    return time.perf_counter() - start, max(used.values())


if __name__ == "__main__":
    main()
