"""Trains a small GPT-2 on public data sets, from random weights, so that it continues prompts.

    python -m research.little_writer yelp --out FOLDER [--documents 4000 --layers 4 --width 256]

The model is trained on lists in the format of prompts (`sugarbush.generators.continuation`). A list
has a heading with subject, metadata and length, and several texts of a data set with similar
metadata. The first argument names the data set for which the model will write. The training does
not use this data set. Use the folder as `generator.huggingface.model`. Do not commit weights to the
repository.

The model shows that the pipeline runs with a language model, and how long the run takes. The model
cannot show which method is better, because a few minutes of training are too short
(docs/log/language_model.md).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import sugarbush as sb
from research.fine_tuning import Texts, learning, load, say, schema_of
from sugarbush.generators import SEPARATOR, RandomRequest, continuation
from sugarbush.randomness import Rng, public_rng
from sugarbush.training import (
    Decay,
    ModelShape,
    new_model,
    plain_examples,
    save_model,
    train_on_public,
    train_tokenizer,
)

SETS = ("airline_tweets", "cfpb_complaints", "customersim", "it_tickets", "yelp")
LONGEST = 80  # in words; longer texts are excluded, because a prompt contains several texts
MOST_EXAMPLES = 3


@dataclass(frozen=True, kw_only=True)
class TrainedWriter:
    """A trained model and its tokenizer."""

    model: Any
    tokenizer: Any


def documents(texts: Texts, schema: sb.Schema, *, count: int, rng: Rng) -> list[str]:
    """Return `count` lists of up to MOST_EXAMPLES + 1 texts with similar metadata."""
    short = [i for i, text in enumerate(texts.texts) if len(text.split()) <= LONGEST]
    found = []
    for _ in range(count):
        place = short[rng.integers(len(short))]
        others = rng.permutation([i for i in short if i != place])[: 8 * MOST_EXAMPLES]
        alike = (texts.codes[others] == texts.codes[place]).sum(axis=1)
        nearest = others[np.argsort(-alike, kind="stable")][: rng.integers(MOST_EXAMPLES + 1)]
        text = texts.texts[place]
        request = RandomRequest(
            subject=schema.subject,
            attributes=schema.decode(tuple(texts.codes[place].tolist())),
            examples=tuple(texts.texts[i] for i in nearest),
            words=len(text.split()),
        )
        prompt = continuation(request, context_tokens=10**6, max_tokens=0)
        found.append(f"{prompt}{text}\n{SEPARATOR}\n")
    return found


def trained(
    lists: Sequence[str], *, shape: ModelShape, vocabulary: int, batch_size: int, seed: int
) -> TrainedWriter:
    """Train a tokenizer and a model on the lists. The model reads every list once."""
    tokenizer = train_tokenizer(lists, vocabulary=vocabulary)
    examples = plain_examples(lists, tokenizer=tokenizer, max_length=shape.context)
    model = new_model(tokenizer, shape, seed=seed)
    train_on_public(
        model,
        [example for (example,) in examples],
        learning=learning(2e-3, Decay.LINEAR),
        epochs=1,
        batch_size=batch_size,
        micro_batch_tokens=4096,
        bfloat16=False,
        seed=seed,
        report=say,
    )
    return TrainedWriter(model=model, tokenizer=tokenizer)


def lists_of(sets: Mapping[str, tuple[Texts, sb.Schema]], *, count: int, seed: int) -> list[str]:
    """Return `count` lists, equally many from each data set."""
    return [
        text
        for name, (texts, schema) in sets.items()
        for text in documents(
            texts, schema, count=count // len(sets), rng=public_rng(seed, "lists", name)
        )
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", choices=SETS, help="the data set to exclude from training")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--documents", type=int, default=4000)
    parser.add_argument("--vocabulary", type=int, default=4096)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--context", type=int, default=512)
    options = parser.parse_args()
    begun = time.process_time()
    sets = {
        name: (load(name, "train", schema_of(name), 10**6), schema_of(name))
        for name in SETS
        if name != options.target
    }
    writer = trained(
        lists_of(sets, count=options.documents, seed=1),
        shape=ModelShape(
            layers=options.layers, width=options.width, heads=4, context=options.context
        ),
        vocabulary=options.vocabulary,
        batch_size=16,
        seed=1,
    )
    save_model(writer.model, writer.tokenizer, options.out)
    weights = sum(p.numel() for p in writer.model.parameters())
    print(f"{options.out}: {weights:,} weights, {time.process_time() - begun:.0f} CPU-s")


if __name__ == "__main__":
    main()
