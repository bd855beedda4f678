"""Measures the time of the metrics, and how much of it is k-means.

    python -m benchmarks.mauve [n] [dim]

The metrics compare two samples of `n` embeddings each (default: 5,000 with 384 dimensions) from
Gaussian mixtures with 200 clusters. The table has seconds, and a ratio: seconds divided by the time
of one matrix product of all points and all centroids. k-means needs one such product per iteration.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from sugarbush.evaluation.frechet import frechet_distance
from sugarbush.evaluation.mauve import mauve, mauve_interval, quantise
from sugarbush.evaluation.precision_recall import neighbour_scores
from sugarbush.randomness import public_rng


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def sample(n: int, dim: int, name: str) -> np.ndarray:
    rng = public_rng(1, name)
    centres = public_rng(1, "centres").normal(size=(200, dim))
    points = centres[rng.integers(200, size=n)] + 1.5 * rng.normal(size=(n, dim))
    return points.astype(np.float32)


def main(n: int, dim: int) -> None:
    reference, synthetic = sample(n, dim, "reference"), sample(n, dim, "synthetic")
    joint = np.concatenate([reference, synthetic])
    centroids = joint[: n // 10]
    seconds(lambda: joint @ centroids.T)
    product = min(seconds(lambda: joint @ centroids.T) for _ in range(5))
    rows: list[tuple[str, Callable[[], object]]] = [
        ("quantisation alone", lambda: quantise(reference, synthetic, seed=1)),
        ("MAUVE, one quantisation", lambda: mauve(reference, synthetic, seed=1)),
        (
            "MAUVE of five, 100 resamples",
            lambda: mauve_interval(
                reference, synthetic, seed=1, resamples=100, rng=public_rng(1, "r")
            ),
        ),
        ("Fréchet distance", lambda: frechet_distance(reference, synthetic)),
        ("precision, recall, density, coverage", lambda: neighbour_scores(reference, synthetic)),
    ]
    print(f"{n} x {n}, d={dim}, {n // 10} clusters; bare product {product:.4f} s")
    print(f"{'':38}{'seconds':>9}{'products':>10}")
    for name, work in rows:
        taken = seconds(work)
        print(f"{name:38}{taken:9.2f}{taken / product:10.0f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("n", type=int, nargs="?", default=5000, help="number of texts per sample")
    parser.add_argument("dim", type=int, nargs="?", default=384)
    asked = parser.parse_args()
    main(asked.n, asked.dim)
