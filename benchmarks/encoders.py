"""Compares encoders by their speed, and by the quality of releases that use them.

    python -m benchmarks.encoders bundled --data DATA
    python -m benchmarks.encoders bundled static=/models/static mpnet=/models/all-mpnet-base-v2

DATA contains airline_tweets/ and yelp/, which are not part of the project. The private records are
1,500 tweets. The pool has 500 other tweets, and 1,000 reviews that are cut to 30 words. So the DP
table and the scores must find the tweets. `mosaic` runs at `--epsilon`, and uses the encoder for
pool, scores and regression. The release is compared with 800 held-out tweets. Every comparison uses
the same two spaces: the bundled encoder's space and TF-IDF. Each value is the mean of `--seeds`
runs with its 95% interval (Student's t). Speed is in texts per CPU second, for the tweets and for
reviews of 100 words, at `embedding.max_tokens` 128.
"""

from __future__ import annotations

import argparse
import dataclasses
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import t as student

import sugarbush as sb
from sugarbush.embedding.encoder import Encoder
from sugarbush.embedding.settings import EmbeddingSettings
from sugarbush.evaluation import latent_space, mauve_score
from sugarbush.generators.pool import Pool
from sugarbush.generators.pool_files import PoolSource

Judge = tuple[Callable[[list[str]], NDArray[np.float32]], NDArray[np.float32]]
PRIVATE, HELD_OUT, POOL, OTHERS, TEXTS = 1500, 800, 500, 1000, 300
SCHEMA = {
    "subject": "tweets to an airline",
    "attributes": [
        {"name": "sentiment", "column": "sentiment", "values": ["negative", "neutral", "positive"]},
        {
            "name": "airline",
            "column": "airline",
            "values": ["United", "US Airways", "American", "Southwest", "Delta", "Virgin America"],
        },
    ],
}


def main() -> None:
    options = _options()
    tweets = pd.read_parquet(options.data / "airline_tweets/airline_tweets.parquet")
    tweets = tweets.drop_duplicates("text").sample(frac=1, random_state=0)
    reviews = pd.read_parquet(options.data / "yelp/yelp.parquet")["text"].str.split()
    private = tweets[:PRIVATE].reset_index(drop=True)
    held_out = tweets["text"][PRIVATE : PRIVATE + HELD_OUT].tolist()
    others = tweets["text"][PRIVATE + HELD_OUT :][:POOL].tolist()
    pool = others + reviews.str[:30].str.join(" ")[:OTHERS].tolist()
    long = reviews[reviews.str.len() >= 100].str[:100].str.join(" ")[: options.timed].tolist()
    judges = _judges(private["text"].tolist(), held_out)
    for name in options.encoders:
        model = name.partition("=")[2] or name
        speeds = [_speed(model, texts) for texts in (private["text"][: 3 * options.timed], long)]
        values = np.array(list(_runs(model, private, pool, judges, options)))
        reach = student.ppf(0.975, len(values) - 1) * values.std(axis=0, ddof=1)
        reach /= len(values) ** 0.5
        figures = [f"{v:.3f} ± {r:.3f}" for v, r in zip(values.mean(axis=0), reach, strict=True)]
        print(
            f"| {name.partition('=')[0]} | {speeds[0]:,.0f} | {speeds[1]:,.0f} | "
            + " | ".join(figures)
            + " |",
            flush=True,
        )


def _judges(private: list[str], held_out: list[str]) -> list[Judge]:
    """Return each feature space with the held-out texts as features."""
    spaces = [
        Encoder(EmbeddingSettings(), cache=None).encode,
        latent_space(tuple(private), seed=0).encode,
    ]
    return [(encode, encode(held_out)) for encode in spaces]


def _speed(model: str, texts: Sequence[str]) -> float:
    encoder = Encoder(EmbeddingSettings(model=model, max_tokens=128), cache=None)
    encoder.encode(["the model is loaded"])
    start = time.process_time()
    encoder.encode(list(texts))
    return len(texts) / (time.process_time() - start)


def _runs(
    model: str, private: pd.DataFrame, pool: list[str], judges: list[Judge], options: Any
) -> Iterator[list[float]]:
    """Return the values of each run. The texts are embedded once for all runs."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pool.jsonl"
        pd.DataFrame({"text": pool}).to_json(file, orient="records", lines=True)
        corpus = sb.prepare(
            private,
            text="text",
            schema=SCHEMA,
            record_id="id",
            generator=Pool(sources=(PoolSource(file=str(file), text_column="text"),)),
            privacy=sb.Privacy(epsilon=options.epsilon, delta=1e-6, dataset="tweets"),
            settings={"embedding": {"model": model, "max_tokens": 128}},
            state=Path(folder) / "state",
        )
        for seed in range(options.seeds):
            own = dataclasses.replace(corpus, state=Path(folder) / str(seed))
            method = sb.Mosaic(prompt="metadata")
            texts = sb.synthesize(own, method=method, texts=TEXTS, seed=seed).texts
            yield [
                mauve_score(real, encode(list(texts)), clusters=len(texts) // 10, seed=seed)
                for encode, real in judges
            ]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("encoders", nargs="+", help="bundled, or a name and a folder: NAME=FOLDER")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--epsilon", type=float, default=4.0)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--timed", type=int, default=100, help="texts of 100 words")
    return parser.parse_args()


if __name__ == "__main__":
    main()
