"""Measures how true the labels of a release are, and what a model learns from them.

    python -m benchmarks.labels airline_tweets:airline it_tickets:category --data FOLDER

FOLDER contains <set>/<set>.parquet with a column `text`. No generator runs: for each text of the
"release", a value is requested from the distribution of the records, and a real text that has this
value with probability `obeyed` (otherwise a random text) is the answer. So the true value of every
text is known. 50 other texts are donated with their labels. The models are logistic regressions on
embeddings, tested on 400 other texts.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sugarbush.attributes import reader as labels_reader
from sugarbush.attributes.reader import LabelReader
from sugarbush.data.schema import Attribute, Schema
from sugarbush.embedding.cache import EmbeddingsInMemory
from sugarbush.embedding.encoder import Encoder
from sugarbush.embedding.settings import EmbeddingSettings
from sugarbush.evaluation.downstream import majority, predictions

DONATED, POOL, TESTED, RELEASED, SEEDS = 50, 450, 400, 300, 5
OBEYED = (0.2, 0.8)  # the share of requests that the generator obeys
NOISE = 8.0  # standard deviation of a DP count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sets", nargs="+", metavar="SET:COLUMN")
    parser.add_argument("--data", type=Path, required=True)
    given = parser.parse_args()
    rows = []
    for name, _, column in (own.partition(":") for own in given.sets):
        frame = pd.read_parquet(given.data / name / f"{name}.parquet").dropna(subset=[column])
        frame = frame.sample(min(len(frame), 1300), random_state=0)
        texts = tuple(text[:800] for text in frame["text"])
        values = frame[column].astype(str)
        common = tuple(values.value_counts().index[:20])
        codes = np.array([common.index(v) if v in common else -1 for v in values])
        encode = Encoder(EmbeddingSettings(), cache=EmbeddingsInMemory()).encode
        encode(texts)  # now in the cache
        for obeyed in OBEYED:
            found = measured(texts, codes, encode, name=column, values=common, obeyed=obeyed)
            rows.append({"set": name, "column": column, "obeyed": obeyed, **found})
    print(pd.DataFrame(rows).round(3).T.to_string(header=False))


def measured(
    texts: tuple[str, ...],
    codes: NDArray[np.int64],
    embed: Callable[[Sequence[str]], NDArray[np.float32]],
    *,
    name: str,
    values: tuple[str, ...],
    obeyed: float,
) -> dict[str, float]:
    """Return the mean of every figure over SEEDS draws."""
    schema = Schema(subject="texts", attributes=(Attribute(name=name, column=name, values=values),))

    found: dict[str, list[float]] = {}
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        order = rng.permutation(np.flatnonzero(codes >= 0))
        donated, pool, tested = np.split(
            order[: DONATED + POOL + TESTED], [DONATED, DONATED + POOL]
        )
        counts = np.bincount(codes[order], minlength=len(values)) + rng.normal(
            0, NOISE, len(values)
        )
        shares = np.maximum(counts, 1) / np.maximum(counts, 1).sum()
        asked = rng.choice(len(values), RELEASED, p=shares)
        chosen = []
        for value in asked:
            fitting = pool[codes[pool] == value]
            obeys = len(fitting) and rng.random() < obeyed
            chosen.append(rng.choice(fitting if obeys else pool))
        true = codes[chosen]
        reader = LabelReader(
            schema=schema,
            embed=embed,
            examples=[texts[i] for i in donated],
            codes=codes[donated][:, None],
            counts={name: np.append(counts, 0)},
        )
        labels = reader.read([texts[i] for i in chosen], asked[:, None])
        read = labels.codes[:, 0]
        with mock.patch.object(labels_reader, "in_proportion", lambda likely, _: likely.argmax(1)):
            likeliest = reader.read([texts[i] for i in chosen], asked[:, None]).codes[:, 0]
        release, examples = embed([texts[i] for i in chosen]), embed([texts[i] for i in donated])
        arms = {
            "requested": (release, asked),
            "read": (release, read),
            "likeliest": (release, likeliest),
            "read and donated": (
                np.concatenate([release, examples]),
                np.concatenate([read, codes[donated]]),
            ),
            "donated": (examples, codes[donated]),
            "true": (release, true),
        }
        own = {
            "requested is true": np.mean(asked == true),
            "read is true": np.mean(read == true),
            "likeliest is true": np.mean(likeliest == true),
        }
        truth, heldout = codes[tested], embed([texts[i] for i in tested])
        own["accuracy, majority"] = majority(codes[donated], heldout_codes=truth).accuracy()
        for arm, (rows, taught) in arms.items():
            model = predictions(rows, taught, heldout=heldout, heldout_codes=truth, seed=1)
            own[f"accuracy, {arm}"], own[f"macro-F1, {arm}"] = model.accuracy(), model.macro_f1()
        for figure, value in own.items():
            found.setdefault(figure, []).append(float(value))
    return {figure: float(np.mean(values)) for figure, values in found.items()}


if __name__ == "__main__":
    main()
