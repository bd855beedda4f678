"""Computes metrics that train models on the final texts of methods, for several runs.

    python -m research.sweep research/settings/sweep.yaml    # prepares and embeds the data
    python -m research.trained research/settings/sweep.yaml yelp --attribute category

A run of a method (an arm of the sweep) is one call of `sugarbush.synthesize`. Two models are
trained on the final set of a run. For comparison, two models are trained on the same number of real
training texts. The first model is a small decoder, which predicts held-out real texts. The second
model is the bundled MiniLM, fine-tuned to predict one attribute. The baseline of the second model
always predicts the most common attribute value of the training texts. The label of a synthetic text
is its requested value. Intervals are 95% by Student's t over runs. The same texts are held out in
all runs.

The command writes the files of `research.leaderboard` to
reports/internal/sweeps/<sweep>-trained-<set>/.
Runs in runs.csv are not trained again, so a stopped grid can be resumed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from research.benchmark_dataset import BenchmarkDataset, Variant, datasets, snapshots
from research.fine_tuned import PUBLISHED as CLASSIFIER_TRAINING
from research.fine_tuned import fine_tuned_predictions
from research.leaderboard import FIXED, WHERE, Scale, averaged, variants_of
from research.next_token import PUBLISHED as DECODER_TRAINING
from research.next_token import Decoder, next_token_scores
from research.page import write_page
from research.small_models import Hyperparameters
from sugarbush.evaluation import FINAL, REAL, majority
from sugarbush.paths import Roots, atomic_file
from sugarbush.randomness import public_rng

COLUMNS = ("next_token_accuracy", "perplexity", "fine_tuned_accuracy", "fine_tuned_macro_f1",
           "majority", "mauve")  # fmt: skip


@dataclass(frozen=True)
class Labelled:
    """Texts and their codes (n,) for one attribute. A code is -1 if no value was requested."""

    texts: tuple[str, ...]
    codes: NDArray[np.int64]

    def limited(self, count: int, *, seed: int) -> Labelled:
        """Return at most `count` of the texts, drawn without replacement."""
        most = min(count, len(self.texts))
        places = public_rng(seed, "limited").choice(len(self.texts), size=most, replace=False)
        return Labelled(tuple(self.texts[i] for i in places), self.codes[places])


@dataclass(frozen=True, kw_only=True)
class Models:
    """The models to train: a decoder, and a classifier with `values` classes.

    A model without hyperparameters (None) is not trained.
    """

    decoder: Decoder
    decoding: Hyperparameters | None
    values: int
    fine_tuning: Hyperparameters | None


def learnt(own: Labelled, heldout: Labelled, *, models: Models, seed: int) -> dict[str, float]:
    """Train the models on `own`, and return their metrics.

    Without requested values of the attribute in `own`, there is no classifier.
    """
    found: dict[str, float] = {}
    if models.decoding is not None:
        scores = next_token_scores(
            own.texts, heldout.texts, decoder=models.decoder, training=models.decoding, seed=seed
        )
        found |= {"next_token_accuracy": scores.accuracy(), "perplexity": scores.perplexity()}
    known = np.flatnonzero(own.codes >= 0)
    if models.fine_tuning is not None and len(known):
        answers = fine_tuned_predictions(
            [own.texts[i] for i in known], own.codes[known], heldout_texts=heldout.texts,
            heldout_codes=heldout.codes, values=models.values, training=models.fine_tuning,
            seed=seed,
        )  # fmt: skip
        commonest = majority(own.codes[known], heldout_codes=heldout.codes)
        found |= {
            "fine_tuned_accuracy": answers.accuracy(), "fine_tuned_macro_f1": answers.macro_f1(),
            "majority": commonest.accuracy(),
        }  # fmt: skip
    return found


def final_set(dataset: BenchmarkDataset, variant: Variant, *, column: int, **run: Any) -> Labelled:
    """Return the final set of one run, with the codes of the schema's attribute `column`."""
    *_, last = snapshots(dataset.run(variant, **run))
    return Labelled(last.texts, last.codes[:, column])


def rows_of(own: Labelled, figures: Mapping[str, float], **point: Any) -> Iterator[dict[str, Any]]:
    """Return one row per figure, with the columns that the page of a sweep needs."""
    counts = {"texts": len(own.texts), "distinct_texts": len(set(own.texts))}
    for name, value in {**counts, **figures}.items():
        told = name.startswith("fine_tuned") or name == "majority"
        metric, space = WHERE.get(name, (name, "attribute" if told else "text"))
        yield {**point, "method": point["arm"], "round": FINAL, "metric": metric, "space": space,
               "value": value}  # fmt: skip


def table(figures: pd.DataFrame) -> str:
    """Return a Markdown table: for each method, the metrics of models trained on its texts.

    Metrics have intervals.
    """
    lines = ["| arm | epsilon | texts | distinct | " + " | ".join(COLUMNS) + " |",
             "|---" * (4 + len(COLUMNS)) + "|"]  # fmt: skip
    for key, own in figures.groupby(["arm", "epsilon"], sort=False):
        found = own[own["space"] != "tf-idf"].set_index("metric")
        counts = [f"{found.value[name]:.0f}" for name in ("texts", "distinct_texts")]
        cells = [_cell(found, name) for name in COLUMNS]
        lines.append("| " + " | ".join([str(key[0]), f"{key[1]:g}", *counts, *cells]) + " |")
    return "\n".join(lines)


def _cell(found: pd.DataFrame, metric: str) -> str:
    if metric not in found.index:
        return "–"
    digits = 1 if metric == "perplexity" else 3
    value, low, high = (f"{found[c][metric]:.{digits}f}" for c in ("value", "low", "high"))
    return f"{value} ({low}–{high})"


def main() -> None:
    asked = _asked()
    torch.set_num_threads(asked.threads)
    begun = time.process_time()
    name = f"{asked.sweep.stem}-trained-{asked.set}"
    file = Roots(Path()).internal / "sweeps" / name / "runs.csv"
    rows: list[dict[Any, Any]] = []
    if file.exists():
        rows = pd.read_csv(file).to_dict("records")
    done = {(row["arm"], row["epsilon"], row["run"]) for row in rows}
    for own in _runs(asked, done):
        rows += own
        file.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(file) as path:
            pd.DataFrame(rows).to_csv(path, index=False)
    figures = averaged(pd.DataFrame(rows))
    intervals = f"Means of {asked.runs} whole runs with 95% intervals over runs"
    write_page(name, figures, intervals=intervals, base=Path())
    print(table(figures))
    print(f"\n{time.process_time() - begun:.0f} CPU-s")


def _runs(
    asked: argparse.Namespace, done: set[tuple[str, float, int]]
) -> Iterator[list[dict[str, Any]]]:
    """Compute the unfinished runs. Yield the rows of one run at a time."""
    (dataset,) = datasets(asked.sweep, sets=[asked.set], records=asked.records)
    column, seed = (
        dataset.schema.names.index(asked.attribute),
        dataset.corpus.settings.seed,
    )
    train, heldout = (
        _labelled(dataset.corpus.real_texts(split), column) for split in ("train", "heldout")
    )
    heldout = heldout.limited(asked.heldout, seed=seed)
    scale = Scale(variations=4, texts=asked.texts)
    arms = {arm: variant for arm, variant in variants_of(scale).items() if arm in asked.arms}
    models = Models(
        decoder=Decoder(name=asked.decoder, layers=asked.layers, width=asked.width),
        decoding=None
        if asked.only == "classifier"
        else replace(DECODER_TRAINING, epochs=asked.epochs, max_tokens=asked.max_tokens),
        values=dataset.schema.domain[asked.attribute],
        fine_tuning=None
        if asked.only == "decoder"
        else replace(CLASSIFIER_TRAINING, max_tokens=asked.max_tokens),
    )
    for run in range(asked.runs):
        for arm in (REAL, *arms):
            epsilon = FIXED.get(arm, asked.epsilon)
            if (arm, epsilon, run) in done:
                continue
            if arm == REAL:
                own = train.limited(asked.texts, seed=run)
            else:
                own = final_set(
                    dataset, arms[arm], column=column, texts=asked.texts, epsilon=epsilon, seed=run
                )
            figures = learnt(own, heldout, models=models, seed=run)
            figures |= dataset.measured(own.texts, count=asked.texts, seed=run, private=arm == REAL)
            yield list(
                rows_of(own, figures, set=dataset.name, arm=arm, epsilon=epsilon, run=run,
                        calls=np.nan)
            )  # fmt: skip


def _labelled(sample: Any, column: int) -> Labelled:
    return Labelled(tuple(sample.texts), np.asarray(sample.codes, dtype=np.int64)[:, column])


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sweep", type=Path)
    parser.add_argument("set")
    parser.add_argument("--attribute", required=True)
    parser.add_argument("--arms", nargs="*", default=["public", "augpe", "maple"])
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--records", type=int, default=2000, help="most private records to use")
    parser.add_argument("--texts", type=int, default=1000, help="texts in every final set")
    parser.add_argument("--heldout", type=int, default=400)
    parser.add_argument("--only", choices=["decoder", "classifier"], help="the default is both")
    parser.add_argument("--decoder", help="a model by name or path; default: a new model")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=10, help="of the decoder")
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    main()
