"""Compares the usefulness of releases of several sizes with the usefulness of real texts.

    python -m research.usefulness research/settings/language_model.yaml yelp FOLDER \\
        --texts 64 500 1000 2000 --second ../models/all-mpnet-base-v2

FOLDER has one parquet or CSV file per release, with the column `text` and a column of requested
values for each attribute, like `Release.frame`. The file `maple-1000.0.parquet` is run 0 of the
release `maple-1000`. Values are means over runs with 95% intervals by Student's t over runs.

Every release is measured at its own size and at each smaller size in --texts. At each size, the
same number of texts is chosen at random from every release. The same number of held-out texts is
used, if there are enough. The release `real` consists of real training texts with their real
values. The distances of `real` are between two parts of the held-out texts, because the TF-IDF
space is fitted to the training texts.

mauve, mean, distinct_n   as in `sugarbush.evaluate`; --second is a feature space that no vote used;
                          mean: the square root of the JSD, averaged over attributes
near_duplicates           share of texts that have a cosine of 0.95 or more with an earlier text
accuracy, macro_f1, f1    of a logistic regression that is trained on the texts to predict the
                          requested value, and tested on all held-out texts. The baseline
                          `majority` predicts the most common value
adherence                 share of texts that have the requested value, by a logistic regression
                          that is trained on real training texts; for `real`: of held-out texts
perplexity                of held-out real texts by the model in --decoder, after it was trained on
                          the texts (`research.next_token`)

The output is reports/internal/usefulness/<folder>-<set>.csv and two tables.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import t as student
from sklearn.metrics import f1_score

from research.benchmark_dataset import BenchmarkDataset, datasets
from research.next_token import Decoder, next_token_scores
from sugarbush.embedding import Encoder
from sugarbush.evaluation import (
    REAL,
    MetricSettings,
    Sample,
    evaluate_texts,
    majority,
    predictions,
)
from sugarbush.paths import Roots, atomic_file
from sugarbush.randomness import public_rng

SECOND = "second"
NEAR = 0.95
_PREDICTED = 500  # held-out texts that a decoder predicts
SHOWN = ("mauve/encoder", "mauve/tf-idf", f"mauve/{SECOND}", "mean/attribute", "distinct_2/text",
         "near_duplicates/text", "perplexity/text")  # fmt: skip


@dataclass(frozen=True)
class Requested:
    """Texts and their requested codes (n, a). A code is -1 if no value was requested."""

    texts: tuple[str, ...]
    codes: NDArray[np.int64]

    def limited(self, count: int, *, seed: int) -> Requested:
        """Return `count` of the texts, drawn without replacement."""
        places = public_rng(seed, "usefulness").choice(len(self.texts), size=count, replace=False)
        return Requested(tuple(self.texts[i] for i in places), self.codes[places])


def read_release(file: Path, schema: Any) -> Requested:
    """Return the texts and codes of a file. A value outside the schema counts as not requested."""
    frame = pd.read_csv(file, dtype=str) if file.suffix == ".csv" else pd.read_parquet(file)
    codes = np.full((len(frame), len(schema.names)), -1, dtype=np.int64)
    for column, attribute in enumerate(schema.attributes):
        if attribute.name in frame:
            places = {value: code for code, value in enumerate(attribute.domain)}
            codes[:, column] = [places.get(str(v), -1) for v in frame[attribute.name]]
    return Requested(tuple(frame["text"].astype(str)), codes)


@dataclass(frozen=True, kw_only=True)
class Measure:
    """Measures samples against the held-out texts of a data set.

    `second` is None or a further encoder, for at most `second_texts` texts of a release. `decoder`
    is None or the folder of a language model.
    """

    dataset: BenchmarkDataset
    second: Any
    second_texts: int
    decoder: str | None = None

    def rows(self, own: Requested, *, real: bool, seed: int) -> Iterator[dict[str, Any]]:
        """Compute all values of a release or of real training texts."""
        count, heldout = len(own.texts), self._heldout.texts
        order = [heldout[i] for i in public_rng(0, "heldout").permutation(len(heldout))]
        sample = compared = self._sample(own.texts, private=real)
        if real:
            compared = self._sample(order[count : 2 * count], private=True)
        if len(compared) == count:
            yield from self._texts(compared, self._sample(order[:count], private=True), seed=seed)
        yield from self._labels(own, sample, real=real, seed=seed)
        if self.decoder is not None:
            scores = next_token_scores(
                own.texts, order[:_PREDICTED], decoder=Decoder(name=self.decoder), seed=seed
            )
            yield {"metric": "perplexity", "space": "text", "value": scores.perplexity()}

    def _sample(self, texts: Sequence[str], *, private: bool) -> Sample:
        found = self.dataset.features(texts, private=private)
        features = {"encoder": found.vectors, "tf-idf": found.latent}
        if self.second is not None and len(texts) <= self.second_texts:
            features[SECOND] = self.second(texts)
        return Sample(texts=tuple(texts), features=features, codes=found.codes)

    def _texts(self, sample: Sample, reference: Sample, *, seed: int) -> Iterator[dict[str, Any]]:
        spaces = reference.features.keys() & sample.features.keys()
        sample, reference = (_only(each, spaces) for each in (sample, reference))
        settings = MetricSettings(
            domain=self.dataset.schema.domain,
            clusters=max(2, len(sample) // 10),
            resamples=0,
            seed=seed,
        )
        for value in evaluate_texts(reference, sample, settings):
            yield {"metric": value.metric, "space": value.space, "value": value.value}
        vectors = sample.features["encoder"]
        near = np.tril(vectors @ vectors.T, -1).max(axis=1) >= NEAR
        yield {"metric": "near_duplicates", "space": "text", "value": float(near.mean())}

    def _labels(
        self, own: Requested, sample: Sample, *, real: bool, seed: int
    ) -> Iterator[dict[str, Any]]:
        heldout, features = self._heldout, self.dataset.heldout
        for column, attribute in enumerate(self.dataset.schema.attributes):
            known = np.flatnonzero(own.codes[:, column] >= 0)
            truth, asked = heldout.codes[:, column], own.codes[known, column]
            if not len(known):
                continue
            base = {"space": attribute.name, "class": ""}
            read = sample.codes[known, column]
            pair = (truth, features.codes[:, column]) if real else (asked, read)
            yield {"metric": "adherence", **base, "value": float(np.mean(pair[0] == pair[1]))}
            vectors = {"": features.vectors, "_tfidf": features.latent}
            trained = {"": sample.features["encoder"], "_tfidf": sample.features["tf-idf"]}
            models = {
                name: predictions(
                    trained[name][known],
                    asked,
                    heldout=vectors[name],
                    heldout_codes=truth,
                    seed=seed,
                )
                for name in vectors
            }
            models["_majority"] = majority(asked, heldout_codes=truth)
            for name, found in models.items():
                yield {"metric": f"accuracy{name}", **base, "value": found.accuracy()}
                yield {"metric": f"macro_f1{name}", **base, "value": found.macro_f1()}
            codes = range(len(attribute.domain))
            scores = f1_score(
                truth, models[""].predicted, labels=codes, average=None, zero_division=0
            )
            for code in codes:
                if not (truth == code).any():
                    continue
                of_class = {"space": attribute.name, "class": attribute.domain[code]}
                yield {"metric": "f1", **of_class, "value": float(scores[code])}
                yield {"metric": "heldout", **of_class, "value": float(np.mean(truth == code))}
                yield {"metric": "requested", **of_class, "value": float(np.mean(asked == code))}
                yield {"metric": "read", **of_class, "value": float(np.mean(read == code))}
                if (pair[0] == code).any():
                    right = float(np.mean(pair[1][pair[0] == code] == code))
                    yield {"metric": "adherence", **of_class, "value": right}

    @property
    def _heldout(self) -> Requested:
        return _real(self.dataset, "heldout")


def _only(sample: Sample, spaces: Any) -> Sample:
    kept = {name: rows for name, rows in sample.features.items() if name in spaces}
    return Sample(texts=sample.texts, features=kept, codes=sample.codes)


def _real(dataset: BenchmarkDataset, split: str) -> Requested:
    found = dataset.corpus.real_texts(split)
    return Requested(tuple(found.texts), np.asarray(found.codes, dtype=np.int64))


def measured(measure: Measure, files: Sequence[Path], sizes: Sequence[int]) -> pd.DataFrame:
    """Return one row per value of each release and of `real`, at each size."""
    rows: list[dict[str, Any]] = []
    wanted: set[tuple[int, int]] = set()

    def add(name: str, own: Requested, count: int, run: int) -> None:
        point = {"release": name, "run": run, "texts": count}
        chosen = own.limited(count, seed=run)
        rows.extend(
            {"class": ""} | row | point for row in measure.rows(chosen, real=name == REAL, seed=run)
        )

    for file in files:
        name, _, run = file.stem.rpartition(".")
        name, number = (name, int(run)) if run.isdigit() and name else (file.stem, 0)
        own = read_release(file, measure.dataset.schema)
        for count in sorted({*(k for k in sizes if k < len(own.texts)), len(own.texts)}):
            add(name, own, count, number)
            wanted.add((count, number))
    train = _real(measure.dataset, "train")
    for count, number in sorted({(min(count, len(train.texts)), run) for count, run in wanted}):
        add(REAL, train, count, number)
    return pd.DataFrame(rows)


def averaged(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the means over runs and the half-widths of their 95% intervals (NaN for one run)."""
    keys = ["release", "texts", "metric", "space", "class"]
    found = rows.groupby(keys, sort=False)["value"].agg(["mean", "std", "size"])
    found["half"] = student.ppf(0.975, found["size"] - 1) * found["std"] / found["size"] ** 0.5
    return found.reset_index()


def table(rows: pd.DataFrame) -> str:
    """Return a Markdown table with one line per release and size."""
    found = averaged(rows[rows["class"] == ""])
    found["name"] = found["metric"] + "/" + found["space"]
    labels = [f"{metric}/{space}"
              for space in found.loc[found["metric"] == "adherence", "space"].unique()
              for metric in ("accuracy", "macro_f1", "macro_f1_majority", "adherence")]  # fmt: skip
    columns = [name for name in (*SHOWN, *labels) if name in set(found["name"])]
    lines = [f"| release | texts | {' | '.join(columns)} |", "|---" * (2 + len(columns)) + "|"]
    for (release, texts), own in found.groupby(["release", "texts"], sort=False):
        cells = own.set_index("name")
        shown = [_cell(cells.loc[name]) if name in cells.index else "–" for name in columns]
        lines.append(f"| {release} | {texts} | {' | '.join(shown)} |")
    return "\n".join(lines)


def classes(rows: pd.DataFrame) -> str:
    """Return a Markdown table with one line per value of an attribute, for the largest sizes."""
    found = averaged(rows[rows["class"] != ""])
    largest = found.groupby("release")["texts"].transform("max")
    found = found[found["texts"] == largest]
    columns = ("heldout", "requested", "read", "adherence", "f1")
    lines = [f"| release | texts | attribute | value | {' | '.join(columns)} |", "|---" * 9 + "|"]
    for key, own in found.groupby(["release", "texts", "space", "class"], sort=False):
        cells = own.set_index("metric")
        shown = [_cell(cells.loc[name]) if name in cells.index else "–" for name in columns]
        lines.append(f"| {' | '.join(map(str, key))} | {' | '.join(shown)} |")
    return "\n".join(lines)


def _cell(row: Any) -> str:
    half = "" if np.isnan(row["half"]) else f" ± {row['half']:.3f}"
    return f"{row['mean']:.3f}{half}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sweep", type=Path)
    parser.add_argument("set")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--texts", type=int, nargs="*", default=[], help="sizes to compare at")
    parser.add_argument("--records", type=int, default=2000, help="most real texts of a split")
    parser.add_argument("--second", help="a second encoder by name or path")
    parser.add_argument("--second-texts", type=int, default=500, help="most texts that it encodes")
    parser.add_argument("--decoder", help="folder of a decoder, for the perplexity of real texts")
    asked = parser.parse_args()
    (dataset,) = datasets(asked.sweep, sets=[asked.set], records=asked.records)
    second = None
    if asked.second:
        corpus = dataset.corpus
        params = corpus.settings.embedding.model_copy(update={"model": asked.second})
        second = Encoder(params, cache=corpus.embeddings[True]).encode
    measure = Measure(
        dataset=dataset, second=second, second_texts=asked.second_texts, decoder=asked.decoder
    )
    files = sorted(f for f in asked.folder.iterdir() if f.suffix in {".parquet", ".csv"})
    rows = measured(measure, files, asked.texts)
    target = Roots(Path()).internal / "usefulness" / f"{asked.folder.name}-{asked.set}.csv"
    with atomic_file(target) as path:
        rows.to_csv(path, index=False)
    print(table(rows), classes(rows), target, sep="\n\n")


if __name__ == "__main__":
    main()
