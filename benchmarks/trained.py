"""What models learn from the final sets of a sweep: the metrics that train one, arm by arm.

    python -m flows.sweep settings/sweep.yaml
    python -m benchmarks.trained settings/sweep.yaml yelp --attribute category --seeds 3

For every finished point of the set (its first seed), and for as many real train texts: accuracy and
perplexity in predicting held-out real texts of a small decoder trained from nothing, and accuracy
and macro-F1 of the bundled MiniLM fine-tuned to tell one attribute. Beside it the accuracy of
always saying the commonest value of the arm's texts. Intervals are 95% bootstrap intervals over
held-out texts and trained models together.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from sugarbush.evolution.population import load_population
from sugarbush.metrics.downstream import majority
from sugarbush.metrics.evaluate import FINAL, Figure, Sample, Settings
from sugarbush.metrics.fine_tuned import PUBLISHED as FINE_TUNING
from sugarbush.metrics.next_token import PUBLISHED as DECODING
from sugarbush.metrics.next_token import Decoder
from sugarbush.metrics.trained import fine_tuned_figures, next_token_figures
from sugarbush.paths import Roots
from sugarbush.randomness import public_rng
from sugarbush.schema import load_schema
from tasks.private_files import load_real_texts
from tasks.sweep import GROUND, points_of, sweep_folder
from tasks.texts import final_folder

REAL = "real train texts"


@dataclass(frozen=True, kw_only=True)
class Arms:
    """Final sets by name, all of as many texts, the held-out part, and the attribute's domain."""

    samples: dict[str, Sample]
    heldout: Sample
    domain: dict[str, int]


def sample_of(texts: Sequence[str], codes: np.ndarray) -> Sample:
    return Sample(texts=tuple(texts), features={}, codes=np.asarray(codes, dtype=np.int64))


def arms_of(sweep: Path, set_name: str, *, attribute: str, texts: int, heldout: int) -> Arms:
    """At most `texts` texts of every arm and `heldout` held-out ones, with the attribute's codes.

    A text of an arm counts as what it was asked to be: -1 where nothing was asked.
    """
    _, found = points_of(Path(), sweep)
    points = [point for point in found if point.set_name == set_name]
    folder = sweep_folder(Path(), sweep) / set_name
    params, roots = points[0].params, Roots(folder / GROUND)
    schema = load_schema(Path(params.prepare.schema_))
    column = schema.names.index(attribute)
    train, held = (
        load_real_texts(roots.private, part, schema.names, most, params.evaluate.seed)
        for part, most in (("train", texts), ("heldout", heldout))
    )
    samples = {REAL: sample_of(train.texts, train.codes[:, [column]])}
    for point in points:
        own = Roots(folder / point.name)
        finished = (own.stamps / "evaluate.json").exists()
        if finished and point.arm not in samples:
            final = final_folder(own, point.params.methods[0]) / "final.parquet"
            population = load_population(final, schema.names)
            everything = sample_of(population.texts, population.codes[:, [column]])
            samples[point.arm] = everything.limited(texts, rng=public_rng(1, point.arm))
    return Arms(
        samples=samples,
        heldout=sample_of(held.texts, held.codes[:, [column]]),
        domain={attribute: schema.domain[attribute]},
    )


def figures(arms: Arms, name: str, *, asked: argparse.Namespace) -> Iterator[Figure]:
    """What one arm's texts teach."""
    sample = arms.samples[name]
    settings = Settings(clusters=2, resamples=200, seed=1)
    own = {"seeds": asked.seeds, "settings": settings, "method": name, "round_": FINAL}
    yield from next_token_figures(
        sample.texts, arms.heldout.texts,
        decoder=Decoder(layers=asked.layers, width=asked.width),
        training=replace(DECODING, epochs=asked.epochs, max_tokens=asked.max_tokens), **own,
    )  # fmt: skip
    training = replace(FINE_TUNING, epochs=asked.classifier_epochs, max_tokens=asked.max_tokens)
    yield from fine_tuned_figures(
        arms.heldout, sample, domain=arms.domain, training=training, **own
    )
    known = sample.codes[sample.codes[:, 0] >= 0, 0]
    if len(known):
        answers = majority(known, heldout_codes=arms.heldout.codes[:, 0])
        yield Figure(metric="majority", space="", value=answers.accuracy())


COLUMNS = ("next_token_accuracy", "perplexity", "fine_tuned_accuracy", "fine_tuned_macro_f1",
           "majority")  # fmt: skip


def cell(found: dict[str, Figure], metric: str) -> str:
    figure = found.get(metric)
    if figure is None:
        return "–"
    digits = 1 if metric == "perplexity" else 3
    if figure.low is None:
        return f"{figure.value:.{digits}f}"
    return f"{figure.value:.{digits}f} ({figure.low:.{digits}f}–{figure.high:.{digits}f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sweep", type=Path)
    parser.add_argument("set")
    parser.add_argument("--attribute", required=True)
    parser.add_argument("--arms", nargs="*", help="all that are finished unless given")
    parser.add_argument("--seeds", type=int, default=3, help="trained models a figure")
    parser.add_argument("--texts", type=int, default=200)
    parser.add_argument("--heldout", type=int, default=400)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=10, help="of the decoder")
    parser.add_argument("--classifier-epochs", type=int, default=3)
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--threads", type=int, default=1)
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    arms = arms_of(
        asked.sweep, asked.set, attribute=asked.attribute, texts=asked.texts,
        heldout=asked.heldout,
    )  # fmt: skip
    print(f"| {asked.set} | texts | " + " | ".join(c.replace("_", " ") for c in COLUMNS) + " | s |")
    print("|---|---:|" + "---|" * len(COLUMNS) + "---:|")
    for name, sample in arms.samples.items():
        if asked.arms and name not in {REAL, *asked.arms}:
            continue
        begun = time.process_time()
        found = {figure.metric: figure for figure in figures(arms, name, asked=asked)}
        cells = " | ".join(cell(found, metric) for metric in COLUMNS)
        spent = time.process_time() - begun
        print(f"| {name} | {len(sample)} | {cells} | {spent:.0f} |", flush=True)


if __name__ == "__main__":
    main()
