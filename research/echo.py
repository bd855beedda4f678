"""Measures whether synthetic texts alone reveal which canaries were in the training.

    python -m research.echo FILE --text text --epsilons inf 4

A canary begins like a text of the corpus and ends in unlikely words. For each canary, a random bit
decides whether the records contain the canary once. First, a tiny GPT-2 is trained on other texts
of the file. Then the model is trained on the records, without DP (`inf`) or by DP-SGD, and writes
texts. The attack fits a model of word pairs to the texts, and scores each canary by its likelihood.
The file must be public. Source: Meeus et al. 2025, "The Canary's Echo", sections 4 and 5, with word
pairs.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

import sugarbush as sb
from research.fine_tuning import fine_tuned, learning
from research.leakage.membership import attack
from sugarbush.audits import epsilon_lower_bound, guess_extremes, outcome_of
from sugarbush.privacy import rounded_down
from sugarbush.randomness import public_rng
from sugarbush.training import (
    Decay,
    GenerateSettings,
    ModelShape,
    generate_texts,
    new_model,
    plain_examples,
    train_on_public,
    train_tokenizer,
)

DELTA, CONFIDENCE, OTHERS = 1e-6, 0.95, 500
SHAPE = ModelShape(layers=2, width=128, heads=4, context=64)


def started(texts: list[str]) -> tuple[Any, Any]:
    """Return a tiny model and its tokenizer, trained on texts that are not among the records."""
    tokenizer = train_tokenizer(texts, vocabulary=1500)
    model = new_model(tokenizer, SHAPE, seed=1)
    examples = plain_examples(texts, tokenizer=tokenizer, max_length=SHAPE.context)
    train_on_public(
        model,
        [example for (example,) in examples],
        learning=learning(2e-3, Decay.LINEAR),
        epochs=5,
        batch_size=16,
        micro_batch_tokens=4096,
        bfloat16=False,
        seed=1,
    )
    return model, tokenizer


def echo_canaries(
    texts: Sequence[str], *, count: int, prefix: int = 12, suffix: int = 12, seed: int = 0
) -> list[str]:
    """Make `count` canaries from the first `prefix` words of a text and `suffix` random words of
    the corpus."""
    rng = public_rng(seed, "echo")
    vocabulary = sorted({word for text in texts for word in text.split()})
    starts = rng.choice(len(texts), size=count, replace=count > len(texts))
    return [
        " ".join([*texts[place].split()[:prefix], *rng.choice(vocabulary, size=suffix)])
        for place in starts
    ]


def echo_scores(
    synthetic: Sequence[str], canaries: Sequence[str], *, suffix: int = 12
) -> NDArray[np.float64]:
    """Score each canary, (n,). A canary with a higher score is more likely a member.

    The score is the mean log likelihood of the last `suffix` words. The word pairs of the synthetic
    texts give the likelihood.
    """
    split = [text.casefold().split() for text in synthetic]
    pairs = Counter(pair for words in split for pair in pairwise(words))
    firsts = Counter(first for words in split for first in words[:-1])
    singles = Counter(word for words in split for word in words)
    total, kinds = sum(singles.values()), len(singles) + 1

    def likelihood(first: str, second: str) -> float:
        alone = (singles[second] + 1) / (total + kinds)  # positive even for words that never occur
        return (pairs[first, second] + alone) / (firsts[first] + 1)

    return np.array(
        [
            np.mean([math.log(likelihood(*pair)) for pair in pairwise(words[-suffix - 1 :])])
            for words in (canary.casefold().split() for canary in canaries)
        ]
    )


def report(texts: list[str], canaries: list[str], members: np.ndarray) -> str:
    """Return the AUC and a lower bound on epsilon as text.

    The bound uses a third of the canaries, with the highest and the lowest scores.
    """
    scores = echo_scores(texts, canaries)
    auc = attack(scores[members], scores[~members]).auc
    outcome = outcome_of(guess_extremes(scores, guesses=len(scores) // 3), members)
    lower = epsilon_lower_bound(outcome, delta=DELTA, confidence=CONFIDENCE)
    return (
        f"AUC {auc.value:.3f} ({auc.lower:.3f} to {auc.upper:.3f}), {outcome.correct} of "
        f"{outcome.guesses} guesses right, epsilon at least {rounded_down(lower, 3)} "
        f"({CONFIDENCE:.0%})"
    )


def main() -> None:
    """Print one line for each epsilon."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--text", default="text")
    parser.add_argument("--epsilons", type=float, nargs="+", default=[math.inf, 4.0])
    parser.add_argument("--records", type=int, default=400)
    parser.add_argument("--canaries", type=int, default=200)
    parser.add_argument("--epochs", type=float, default=30)
    parser.add_argument("--texts", type=int, default=2000)
    asked = parser.parse_args()
    read = pd.read_parquet if asked.file.suffix == ".parquet" else pd.read_json
    frame = read(asked.file, **({} if asked.file.suffix == ".parquet" else {"lines": True}))
    texts = frame.drop_duplicates(asked.text)[asked.text].tolist()
    records, others = texts[: asked.records], texts[asked.records : asked.records + OTHERS]
    canaries = echo_canaries(records, count=asked.canaries)
    members = public_rng(1, "echo coins").random(len(canaries)) < 0.5
    seen = records + [text for text, coin in zip(canaries, members, strict=True) if coin]
    model, tokenizer = started(others)
    units = plain_examples(seen, tokenizer=tokenizer, max_length=SHAPE.context)
    options = argparse.Namespace(
        set="echo", delta=DELTA, lora=None, epochs=asked.epochs, bfloat16=False, batch=128,
        rate=2e-3, length=SHAPE.context,
    )  # fmt: skip
    for epsilon in asked.epsilons:
        trained, _ = fine_tuned(model, tokenizer, units, epsilon, options)
        written = generate_texts(
            sb.Released(trained),
            sb.Released([""] * asked.texts),
            tokenizer=tokenizer,
            settings=GenerateSettings(batch_size=128),
            max_length=SHAPE.context,
            after_end=True,
        )
        found = report(list(written.value.texts), canaries, members)
        print(f"epsilon {epsilon:g}: {found}", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
