"""Measures the time and memory of a vote, and of a matrix product of the same shape.

    python -m benchmarks.voting                       # 50k x 5k
    python -m benchmarks.voting --sizes 500000x20000 --repeats 3

Each row of a table is one variant. The variants run in turn in this process, `--repeats` times, and
the table shows medians. A ratio is the time of the faster matrix product of the same turn, divided
by the time of the variant. A vote with ratio 1.00 is as fast as the product alone. Extra memory is
the highest resident size during the call (sampled) minus the resident size before the call.

The vectors are unit vectors around 500 centres. The cosine to the nearest candidate is about 0.8,
as for embeddings of real texts.
"""

from __future__ import annotations

import argparse
import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import faiss
import numpy as np
import psutil
import torch
from numpy.typing import NDArray

from sugarbush.embedding.nearest import nearest
from sugarbush.randomness import public_rng

DIM = 384
BLOCK = 4096
SAMPLE_EVERY_S = 0.005

Vectors = NDArray[np.float32]


@dataclass
class VotingRun:
    seconds: float
    cpu_seconds: float
    extra_bytes: int


def main() -> None:
    options = _options()
    for size in options.sizes.split(","):
        n, m = (int(part) for part in size.split("x"))
        _table(n, m, repeats=options.repeats, peers=options.peers)


def _table(n: int, m: int, *, repeats: int, peers: bool) -> None:
    queries, candidates = unit_vectors(n, m)
    rows: dict[str, Callable[[], object]] = {
        "matrix product, numpy": lambda: product_numpy(queries, candidates),
        "matrix product, torch": lambda: _product_torch(queries, candidates),
        "sugarbush nearest": lambda: nearest(queries, candidates),
    }
    if peers:
        rows["faiss flat L2"] = lambda: _faiss(queries, candidates)
    runs: dict[str, list[VotingRun]] = {name: [] for name in rows}
    for _ in range(repeats):
        for name, call in rows.items():
            runs[name].append(_measured(call))
    bare = [
        min((runs[name][i] for name in rows if name.startswith("matrix")), key=lambda r: r.seconds)
        for i in range(repeats)
    ]
    print(f"\n{n:,} x {m:,}, d={DIM}, float32, median of {repeats}")
    print(f"{'':24}{'s':>9}{'GFLOP/s':>9}{'ratio':>7}{'CPU s':>9}{'CPU ratio':>10}{'extra MB':>10}")
    for name, row in runs.items():
        seconds = statistics.median(r.seconds for r in row)
        cpu = statistics.median(r.cpu_seconds for r in row)
        ratio = statistics.median(b.seconds / r.seconds for b, r in zip(bare, row, strict=True))
        cpu_ratio = statistics.median(
            b.cpu_seconds / r.cpu_seconds for b, r in zip(bare, row, strict=True)
        )
        extra = max(r.extra_bytes for r in row) / 2**20
        speed = 2 * n * m * DIM / seconds / 1e9
        print(
            f"{name:24}{seconds:9.2f}{speed:9.0f}{ratio:7.2f}{cpu:9.2f}{cpu_ratio:10.2f}{extra:10.0f}",
            flush=True,
        )


def unit_vectors(n: int, m: int) -> tuple[Vectors, Vectors]:
    rng = public_rng(0, "voting", n, m)
    centres = rng.standard_normal((500, DIM), dtype=np.float32)

    def around(count: int) -> Vectors:
        vectors = rng.standard_normal((count, DIM), dtype=np.float32)
        vectors *= 0.5
        vectors += centres[rng.integers(0, len(centres), count)]
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors

    return around(n), around(m)


def product_numpy(queries: Vectors, candidates: Vectors) -> None:
    out = np.empty((min(BLOCK, len(queries)), len(candidates)), dtype=np.float32)
    for start in range(0, len(queries), BLOCK):
        block = queries[start : start + BLOCK]
        np.matmul(block, candidates.T, out=out[: len(block)])


def _product_torch(queries: Vectors, candidates: Vectors) -> None:
    x, c = torch.from_numpy(queries), torch.from_numpy(candidates).T
    out = torch.empty((min(BLOCK, len(queries)), len(candidates)))
    for start in range(0, len(queries), BLOCK):
        block = x[start : start + BLOCK]
        torch.mm(block, c, out=out[: len(block)])


def _faiss(queries: Vectors, candidates: Vectors) -> object:
    index = faiss.IndexFlatL2(DIM)
    index.add(candidates)
    return index.search(queries, 1)


def _measured(call: Callable[[], object]) -> VotingRun:
    process, peak, stop = psutil.Process(), 0, threading.Event()
    before = process.memory_info().rss

    def watch() -> None:
        nonlocal peak
        while not stop.wait(SAMPLE_EVERY_S):
            peak = max(peak, process.memory_info().rss)

    watcher = threading.Thread(target=watch)
    watcher.start()
    start, cpu = time.perf_counter(), time.process_time()
    call()
    run = VotingRun(time.perf_counter() - start, time.process_time() - cpu, 0)
    stop.set()
    watcher.join()
    run.extra_bytes = max(0, peak - before)
    return run


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sizes", default="50000x5000", help="comma-separated NxM")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--peers", action=argparse.BooleanOptionalAction, default=True)
    return parser.parse_args()


if __name__ == "__main__":
    main()
