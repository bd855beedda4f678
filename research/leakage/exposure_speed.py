"""Measures how long it takes to rank canaries among all 10^6 candidate secrets (exposure).

python -m research.leakage.exposure_speed
"""

from __future__ import annotations

import os
import time

import torch

from research.leakage.canaries import draw_canaries
from research.leakage.exposure import candidate_losses, candidate_tokens, ranked
from sugarbush.training import ModelShape, new_model, train_tokenizer

SHAPE = ModelShape(layers=4, width=256, heads=4, context=256)
TEXTS = [f"Case {n}: call 555-{n % 100:04d} about order {n * 77}, it is late" for n in range(3000)]


def clocks() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def main() -> None:
    tokenizer = train_tokenizer(TEXTS, vocabulary=4096)
    model = new_model(tokenizer, SHAPE, seed=1)
    start = clocks()
    prefix, candidates = candidate_tokens(tokenizer)
    tokenized = clocks()
    losses = candidate_losses(model, prefix, candidates)
    done = clocks()
    ranked(losses, draw_canaries(count=10, seed=1))
    print(f"{SHAPE}, vocabulary {len(tokenizer)}, {torch.get_num_threads()} threads")
    print(f"load {os.getloadavg()[0]:.1f}; at most {candidates.shape[1]} tokens a candidate")
    for name, began, ended in (("tokens", start, tokenized), ("losses", tokenized, done)):
        print(f"{name}: {ended[0] - began[0]:.1f} s, {ended[1] - began[1]:.1f} CPU-s")


if __name__ == "__main__":
    main()
