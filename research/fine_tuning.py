"""Measures how DP-SGD fine-tuning at several epsilons changes perplexity and generated texts.

    python -m research.fine_tuning customersim --start /tmp/start
    python -m research.fine_tuning yelp --start /tmp/start --epsilons 4 inf --texts 2000
    python -m research.fine_tuning yelp --start /tmp/start --epsilons 4 --rate 4e-3 --tune

First, the command trains a small GPT-2 on pieces of nine *other* data sets and on texts of the
simulator. The simulator writes for codes that are drawn uniformly from the three schemas. The
command stores the model in the folder `--start` for later runs. `--start` may also be the folder of
another model of the GPT-2 or Llama family. Then the command fine-tunes the model on the named data
set by DP-SGD. The perplexity is measured on 400 texts of the test split, given their control codes.
To choose settings, use `--tune`. With `--tune`, the perplexity is measured on unused texts of the
training split.

`--texts N` adds a small version of Table 1 of Yue et al. A classifier of TF-IDF features is trained
on N real texts, and on N texts of each model (also of the first model). The test split tests the
classifier. As in the paper, the models write texts for the codes of training records. This use of
codes is not private, so the data sets must be public.
"""

from __future__ import annotations

import argparse
import copy
import math
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.feature_extraction.text import TfidfVectorizer

import sugarbush as sb
from sugarbush.evaluation import majority, predictions
from sugarbush.pipeline import simulated
from sugarbush.privacy import (
    BudgetRequest,
    PoissonGaussian,
    Subsampling,
    make_plan,
    with_subsampling,
)
from sugarbush.randomness import public_rng
from sugarbush.training import (
    Checkpoints,
    Decay,
    Example,
    Learning,
    Mechanism,
    ModelShape,
    OrdinaryTraining,
    Performance,
    SamplingSettings,
    Training,
    control_codes,
    examples_of,
    generate_texts,
    load_model,
    make_schedule,
    merged,
    new_model,
    perplexity,
    plain_examples,
    probe_examples,
    run_dpsgd,
    save_model,
    train_on_public,
    train_tokenizer,
    train_without_privacy,
    with_lora,
)

SHARED = Path("../shared/data")
SETS = ("customersim", "cfpb_complaints", "yelp")
OTHERS = (
    "airline_tweets", "it_tickets", "medical_abstracts", "mts_dialog", "multiwoz21",
    "ner_real_names", "neurips_abstracts", "neurips_reviews_2023_24", "pii_presidio_synth",
)  # fmt: skip
PIECE = 90  # words per piece; a longer text is cut into several pieces
HELD_OUT = 400
MICRO_BATCH_TOKENS = 4096


@dataclass(frozen=True, kw_only=True)
class Texts:
    """Texts (n,) of a data set and their codes (n, d)."""

    texts: tuple[str, ...]
    codes: np.ndarray


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("set", choices=SETS)
    parser.add_argument("--start", type=Path, help="folder of the first model; made if missing")
    parser.add_argument("--tune", action="store_true", help="measure on unused training texts")
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0, 4.0, math.inf])
    parser.add_argument("--records", type=int, default=3000)
    parser.add_argument("--public", type=int, default=24000, help="pieces of the other sets")
    parser.add_argument("--simulated", type=int, default=4000, help="number of simulated texts")
    parser.add_argument("--lora", type=int, help="train LoRA factors of this rank only")
    parser.add_argument("--texts", type=int, default=0, help="texts to write and to train on")
    parser.add_argument("--vocabulary", type=int, default=4096)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--epochs", type=float, default=4)
    parser.add_argument("--batch", type=float, default=256)
    parser.add_argument("--delta", type=float, help="default: 1 / (n log n)")
    parser.add_argument("--rate", type=float, default=2e-3, help="learning rate of DP-SGD")
    parser.add_argument(
        "--bfloat16",
        action="store_true",
        help="use autocast outside DP-SGD, if the CPU is then faster",
    )
    options = parser.parse_args()
    schema = schema_of(options.set)
    drawn = load(options.set, "train", schema, options.records + HELD_OUT)
    train_part = Texts(texts=drawn.texts[HELD_OUT:], codes=drawn.codes[HELD_OUT:])
    test_part = load(options.set, "test", schema, max(HELD_OUT, options.texts))
    if options.tune:
        test_part = head(drawn, HELD_OUT)
    start, tokenizer = first_model(options)
    examples = encoded(train_part, schema, tokenizer, options.length)
    held_out = [e for (e,) in encoded(test_part, schema, tokenizer, options.length)][:HELD_OUT]
    shape = f"{start.config.num_hidden_layers} x {start.config.hidden_size}"
    print(
        f"{options.set}: {options.records} records, {shape}, {options.epochs:g} epochs of ", end=""
    )
    print(f"batch {options.batch:g}, length {options.length}")
    found = held_out_perplexity(start, held_out, options)
    print(f"{'before':>10}  perplexity {found:8.2f}", flush=True)
    original = head(train_part, options.texts)
    if options.texts:
        tell_majority(original, test_part, schema)
        tell_taught("original", original, test_part, schema)
        before = written(start, tokenizer, train_part, schema, options)
        tell_taught("before", before, test_part, schema)
    for epsilon in options.epsilons:
        began = time.process_time()
        model, told = fine_tuned(start, tokenizer, examples, epsilon, options)
        found = held_out_perplexity(model, held_out, options)
        spent = time.process_time() - began
        name = f"epsilon {epsilon:g}"
        print(f"{name:>10}  perplexity {found:8.2f}  {told}, {spent:.0f} CPU-s", flush=True)
        if options.texts:
            own = written(model, tokenizer, train_part, schema, options)
            tell_taught(name, own, test_part, schema)


def load(name: str, part: str, schema: sb.Schema, count: int) -> Texts:
    """Return at most `count` texts of the split `part`, drawn with a public seed."""
    frame = pd.read_parquet(SHARED / name / f"{name}.parquet")
    frame = frame[frame["split"] == part].drop_duplicates("text")
    places = np.sort(public_rng(1, name, part).permutation(len(frame))[:count])
    rows = frame.iloc[places]
    columns = [[a.code(value) for value in rows[a.column]] for a in schema.attributes]
    return Texts(texts=tuple(rows["text"]), codes=np.array(columns, dtype=np.int64).T)


def head(part: Texts, count: int) -> Texts:
    return Texts(texts=part.texts[:count], codes=part.codes[:count])


def encoded(part: Texts, schema: sb.Schema, tokenizer: Any, length: int) -> list[tuple[Example]]:
    return examples_of(
        part.texts, part.codes, schema=schema, tokenizer=tokenizer, max_length=length
    )


def schema_of(name: str) -> sb.Schema:
    return sb.open_schema(Path("research/settings") / f"{name}.schema.yaml")


def first_model(options: argparse.Namespace) -> tuple[Any, Any]:
    """Load the model in `--start`. If there is none, train a model and store it in `--start`."""
    device = torch.device("cpu")
    if options.start is not None and options.start.is_dir():
        return load_model(str(options.start), device=device)
    model, tokenizer = pretrained(options)
    if options.start is not None:
        save_model(model, tokenizer, options.start)
    return model, tokenizer


def pretrained(options: argparse.Namespace) -> tuple[Any, Any]:
    """Train a model and a tokenizer on the other data sets and on the simulator's texts."""
    began = time.process_time()
    texts = other_texts(options.public)
    count = options.simulated // len(SETS)
    written = [(schema, *simulated(schema, count)) for schema in map(schema_of, SETS)]
    tokenizer = train_tokenizer(
        [*texts, *(text for _, own, _ in written for text in own)],
        vocabulary=options.vocabulary,
    )
    examples = plain_examples(texts, tokenizer=tokenizer, max_length=options.length)
    for schema, own, codes in written:
        examples += encoded(Texts(texts=own, codes=codes), schema, tokenizer, options.length)
    shape = ModelShape(layers=options.layers, width=options.width, heads=4, context=options.length)
    model = new_model(tokenizer, shape, seed=1)
    train_on_public(
        model,
        [example for (example,) in examples],
        training=OrdinaryTraining(
            learning=learning(2e-3, Decay.LINEAR),
            epochs=1,
            batch_size=16,
            micro_batch_tokens=MICRO_BATCH_TOKENS,
            bfloat16=False,
        ),
        seed=1,
        report=say,
    )
    print(f"read {len(examples)} public texts in {time.process_time() - began:.0f} CPU-s")
    return model, tokenizer


def other_texts(count: int) -> list[str]:
    """Return at most `count` pieces of texts.

    Each data set contributes the same number of pieces. A smaller data set contributes all its
    pieces.
    """
    texts: list[str] = []
    for name in OTHERS:
        frame = pd.read_parquet(SHARED / name / f"{name}.parquet", columns=["text"])
        order = public_rng(1, "public", name).permutation(len(frame))
        words = (frame["text"].iloc[place].split(" ") for place in order)
        pieces = (" ".join(w[i : i + PIECE]) for w in words for i in range(0, len(w), PIECE))
        texts += islice(pieces, count // len(OTHERS))
    return texts


def say(step: int, steps: int, loss: float) -> None:
    if step % 200 == 0:
        print(f"step {step} of {steps}: {loss:.2f} nats a token", flush=True)


def learning(rate: float, decay: Decay) -> Learning:
    return Learning(learning_rate=rate, decay=decay, warmup_steps=0, weight_decay=0.01)


def fine_tuned(
    start: Any,
    tokenizer: Any,
    examples: Sequence[tuple[Example]],
    epsilon: float,
    options: argparse.Namespace,
) -> tuple[Any, str]:
    """Train a copy of `start` at `epsilon`; return it with a description of the training."""
    model = copy.deepcopy(start)
    units: sb.Private[tuple[Example]] = sb.Private(list(examples))
    if options.lora is not None:
        model = with_lora(model, rank=options.lora)
    delta = options.delta or 1 / (len(examples) * math.log(len(examples)))
    with tempfile.TemporaryDirectory() as folder:
        ledger = sb.open_ledger(
            options.set, purpose="benchmark", cap=math.inf, delta=delta, state=Path(folder)
        )
        session = sb.PrivacySession(ledger=ledger, stage="benchmark", run="1")
        if math.isinf(epsilon):
            train_without_privacy(
                model,
                units,
                training=OrdinaryTraining(
                    learning=learning(1e-3, Decay.LINEAR),
                    epochs=options.epochs,
                    batch_size=32,
                    micro_batch_tokens=MICRO_BATCH_TOKENS,
                    bfloat16=options.bfloat16,
                ),
                seed=1,
                session=session,
            )
            return merged(model), "batch 32, no noise"
        mechanism = mechanism_at(epsilon, delta, len(examples), options)
        run_dpsgd(
            model,
            units,
            training=Training(
                mechanism=mechanism,
                learning=learning(options.rate, Decay.LINEAR),
                performance=Performance(
                    micro_batch_tokens=MICRO_BATCH_TOKENS,
                    checkpoint_every=mechanism.steps,
                ),
            ),
            probe=probe_examples(len(tokenizer), max_length=options.length),
            checkpoints=Checkpoints(Path(folder) / "private"),
            session=session,
        )
    return merged(model), (
        f"delta {delta:.2g}, sigma {mechanism.noise_multiplier:.3f}, rate {mechanism.rate:.4f}, "
        f"{mechanism.steps} steps"
    )


def mechanism_at(
    epsilon: float, delta: float, records: int, options: argparse.Namespace
) -> Mechanism:
    """Return the DP-SGD mechanism that spends the whole budget."""
    schedule = make_schedule(batch_size=options.batch, epochs=options.epochs, unit_count=records)
    plan = with_subsampling(
        make_plan(
            [BudgetRequest(name="training", share=1.0, count=0)], epsilon=epsilon, delta=delta
        ),
        {"training": Subsampling(rate=schedule.rate, steps=schedule.steps)},
        epsilon=epsilon,
    )
    event = plan.of("training").subsampled
    assert isinstance(event, PoissonGaussian)
    return Mechanism(
        rate=schedule.rate,
        steps=schedule.steps,
        repeatable_steps=0,
        noise_multiplier=event.noise_multiplier,
        clip_norm=1.0,
        expected_batch_size=schedule.expected_batch_size,
    )


def held_out_perplexity(
    model: Any, held_out: Sequence[Example], options: argparse.Namespace
) -> float:
    with torch.autocast("cpu", torch.bfloat16, enabled=options.bfloat16):
        return perplexity(model, held_out, batch_size=16)


def written(
    model: Any, tokenizer: Any, part: Texts, schema: sb.Schema, options: argparse.Namespace
) -> Texts:
    """Let the model write one text for the codes of each of the first `--texts` texts of `part`."""
    if options.bfloat16:
        model = copy.deepcopy(model).to(torch.bfloat16)
    asked = head(part, options.texts)
    prompts = [control_codes(schema.decode(tuple(row))) for row in asked.codes.tolist()]
    generated = generate_texts(
        sb.Released(model),
        sb.Released(prompts),
        tokenizer=tokenizer,
        settings=SamplingSettings(),
        seed=1,
        max_length=options.length,
    )
    return Texts(texts=generated.value.texts, codes=asked.codes)


def tell_taught(name: str, part: Texts, test: Texts, schema: sb.Schema) -> None:
    """Train a classifier on `part`, and print its accuracy on `test`."""
    features = TfidfVectorizer(min_df=2, sublinear_tf=True).fit(part.texts)
    read, asked = (features.transform(p.texts).toarray() for p in (part, test))
    found = [
        predictions(
            read, part.codes[:, place], heldout=asked, heldout_codes=test.codes[:, place], seed=1
        ).accuracy()
        for place in range(len(schema.names))
    ]
    tell_accuracy(name, found, schema)


def tell_majority(part: Texts, test: Texts, schema: sb.Schema) -> None:
    """Print the accuracy on `test` of the most common value in `part`."""
    found = [
        majority(part.codes[:, place], heldout_codes=test.codes[:, place]).accuracy()
        for place in range(len(schema.names))
    ]
    tell_accuracy("(majority)", found, schema)


def tell_accuracy(name: str, found: Sequence[float], schema: sb.Schema) -> None:
    told = (f"{own} {value:.3f}" for own, value in zip(schema.names, found, strict=True))
    print(f"{name:>14}  accuracy of " + ", ".join(told), flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
