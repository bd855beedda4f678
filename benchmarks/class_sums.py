"""Measures whether noisy sums of embeddings by class pay for themselves.

    python -m benchmarks.class_sums airline_tweets:airline,sentiment --data FOLDER --work FOLDER \\
        --out rows.jsonl

FOLDER contains <set>/<set>.parquet with a column `text`. The generator is a pool of other real
texts, without a language model, so the true value of every released text is known. 50 other texts
are donated with their labels, and 1,200 are held out. The shares are those of mu^2 that the kernel
scores give to the sums. The DP table is simulated: true rows for the requests, and counts with the
noise of the share `metadata_share`. `--work` keeps the embeddings. Every line of the output is one
attribute of one release; `table` prints their means with 95% intervals over the seeds.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import softmax
from scipy.stats import t as student

from sugarbush.attributes import reader as labels_reader
from sugarbush.attributes.reader import LabelReader
from sugarbush.data.schema import Attribute, Schema
from sugarbush.embedding.cache import EmbeddingsInMemory
from sugarbush.embedding.class_sums import ClassSums, directions
from sugarbush.embedding.encoder import Encoder
from sugarbush.embedding.settings import EmbeddingSettings
from sugarbush.evaluation import mauve_score
from sugarbush.evaluation.downstream import predictions
from sugarbush.evolution.enlarge import choose_by_scores, predicted_scores, without_repeated_texts
from sugarbush.evolution.initialisation import first_requests
from sugarbush.evolution.kernel_scores import RESOLUTION, KernelScores
from sugarbush.evolution.prompts import Prompts
from sugarbush.evolution.settings import FirstLength, PromptContent
from sugarbush.evolution.targets import Donated, Targets
from sugarbush.generators.pool import Pool, PoolGenerator
from sugarbush.json_lines import read_json_lines
from sugarbush.privacy.budget import mu_of
from sugarbush.privacy.data_types import Released
from sugarbush.privacy.noise import discrete_gaussian

DONATED, TESTED, POOL = 50, 1200, 3000
SHARES, EPSILONS, METADATA_SHARE = (0.0, 0.05, 0.1, 0.2), (1.0, 4.0), 0.1
STEPS, RATE = 5, 8.0  # of DP gradient descent
TOKENS = 64  # the encoder reads the first tokens of a text
BLOCK = 1000  # texts that are embedded and stored together
FINE = 1000  # steps of a number of a direction

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sets", nargs="+", metavar="SET:COLUMN,COLUMN")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--records", type=int, nargs="+", default=[2000, 5000])
    parser.add_argument("--texts", type=int, nargs="+", default=[100, 300, 1000])
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2, 3, 4])
    given = parser.parse_args()
    for name, _, columns in (each.partition(":") for each in given.sets):
        corpus = Corpus.read(name, columns.split(","), data=given.data, work=given.work)
        for records in given.records:
            for seed in given.seeds:
                for texts in given.texts:
                    with given.out.open("a") as out:
                        for row in corpus.rows(records=records, texts=texts, seed=seed):
                            out.write(json.dumps(row) + "\n")
                    print(name, records, texts, seed, flush=True)
    if given.out.exists():
        print(table(given.out).to_string())


def table(file: Path, figure: str = "macro_f1") -> pd.DataFrame:
    """Return the mean of a figure over the seeds, and the half-width of its 95% interval."""
    frame = pd.DataFrame(read_json_lines(file.read_text("utf-8")))
    frame = frame[frame[figure].notna()]
    groups = frame.groupby(["set", "records", "texts", "epsilon", "share", "arm", "column"])[figure]
    counts = groups.count()
    half = groups.std() / np.sqrt(counts) * student.ppf(0.975, counts - 1)
    text = groups.mean().map("{:.3f}".format) + " ± " + half.map("{:.3f}".format)
    return text.unstack("column")


@dataclass(frozen=True, kw_only=True)
class Corpus:
    name: str
    schema: Schema
    texts: list[str]
    vectors: NDArray[np.float32]
    codes: Codes
    of_names: dict[str, NDArray[np.float32]]

    @classmethod
    def read(cls, name: str, columns: Sequence[str], *, data: Path, work: Path) -> Corpus:
        frame = pd.read_parquet(data / name / f"{name}.parquet").dropna(subset=list(columns))
        frame = frame.assign(text=frame["text"].str[:800]).drop_duplicates("text")
        frame = frame.sample(frac=1, random_state=0)[: DONATED + TESTED + POOL + 5000]
        values = [tuple(frame[c].astype(str).value_counts().index) for c in columns]
        codes = np.stack(
            [
                frame[c].astype(str).map({v: i for i, v in enumerate(names)})
                for c, names in zip(columns, values, strict=True)
            ],
            axis=1,
        ).astype(np.int64)
        names = sorted({value for each in values for value in each})
        texts = frame["text"].tolist()
        vectors = [
            _embedded(texts[start : start + BLOCK], work / f"{name}_{start:05d}.npy")
            for start in range(0, len(frame), BLOCK)
        ]
        schema = Schema(
            subject="texts",
            attributes=tuple(
                Attribute(name=c, column=c, values=v) for c, v in zip(columns, values, strict=True)
            ),
        )
        return cls(
            name=name,
            schema=schema,
            texts=texts,
            vectors=np.concatenate(vectors)[: len(frame)],
            codes=codes,
            of_names=dict(zip(names, _embedded(names, work / f"{name}_names.npy"), strict=True)),
        )

    def rows(self, *, records: int, texts: int, seed: int) -> Iterator[dict[str, Any]]:
        """Yield the figures of all releases of one division of the texts."""
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(self.texts))
        donated, tested, private, pool = np.split(
            order[: DONATED + TESTED + records + POOL],
            np.cumsum([DONATED, TESTED, records]),
        )
        run = _Run(self, donated, tested, private, pool, texts, seed, rng)
        for row in run.releases():
            yield {"set": self.name, "records": records, "texts": texts, "seed": seed, **row}


def _embedded(texts: Sequence[str], stored: Path) -> NDArray[np.float32]:
    """Return embeddings from a file, which the first run writes."""
    if not stored.exists():
        np.save(stored, _encoder().encode(tuple(texts)))
    return np.asarray(np.load(stored))


@cache
def _encoder() -> Encoder:
    return Encoder(EmbeddingSettings(max_tokens=TOKENS), cache=EmbeddingsInMemory())


@dataclass
class _Run:
    corpus: Corpus
    donated: Codes
    tested: Codes
    private: Codes
    pool: Codes
    count: int
    seed: int
    rng: np.random.Generator

    def releases(self) -> Iterator[dict[str, Any]]:
        corpus, codes, vectors = self.corpus, self.corpus.codes, self.corpus.vectors
        sizes = [len(a.values) for a in corpus.schema.attributes]
        real = self.rng.choice(self.private, self.count, replace=False)
        yield from self.judged("real texts", real, codes[real], self.mauve(real))
        yield from self.judged("donated texts alone", self.donated, codes[self.donated])
        candidates, requested = self.candidates()
        scorer = KernelScores(vectors[candidates], width=0.2)
        scores = np.zeros(len(candidates), dtype=np.int64)
        for start in range(0, len(self.private), 500):
            rows = vectors[self.private[start : start + 500]]
            scores += scorer(rows).sum(axis=0, dtype=np.int64)
        centre = vectors[candidates].mean(axis=0, dtype=np.float64)
        of_records = directions(vectors[self.private], centre)
        exact = np.zeros((sum(sizes), vectors.shape[1]))
        first = np.cumsum([0, *sizes])
        for column in range(len(sizes)):
            np.add.at(exact, first[column] + codes[self.private, column], of_records)
        classes = tuple(enumerate(sizes))
        for epsilon in EPSILONS:
            mu = mu_of(epsilon=epsilon, delta=1e-6)
            counts = self.counts(sizes, mu * np.sqrt(METADATA_SHARE))
            for share in SHARES:
                of_scores = mu * np.sqrt((1 - METADATA_SHARE) * (1 - share))
                stddev = RESOLUTION / of_scores
                noisy = discrete_gaussian(scores, stddev=stddev, sensitivity=RESOLUTION)
                of_texts = vectors[candidates]
                chosen = choose_by_scores(
                    predicted_scores(
                        of_texts,
                        of_texts,
                        noisy,
                        stddev=stddev,
                        scored=np.ones(len(of_texts), dtype=bool),
                    ),
                    of_texts,
                    width=0.2,
                    count=min(self.count, len(candidates)),
                )
                release = candidates[chosen]
                facts = {"epsilon": epsilon, "share": share}
                mauve = self.mauve(release)
                reader = LabelReader(
                    schema=corpus.schema,
                    embed=self.embed,
                    examples=[corpus.texts[i] for i in self.donated],
                    codes=codes[self.donated],
                    counts={
                        a.name: c for a, c in zip(corpus.schema.attributes, counts, strict=True)
                    },
                    requests_tell=False,
                )
                if not share:
                    arms = {"true labels": codes[release], "requested": requested[chosen]}
                    for arm, labels in arms.items():
                        yield from self.judged(arm, release, labels, **facts)
                    yield from self.read("donated", reader, release, mauve, facts)
                    continue
                of_sums = mu * np.sqrt((1 - METADATA_SHARE) * share)
                noise = np.sqrt(len(sizes)) / of_sums
                steps = np.trunc(exact * FINE).astype(np.int64).ravel()
                sums = discrete_gaussian(
                    steps, stddev=noise * FINE, sensitivity=FINE * np.sqrt(len(sizes))
                )
                released = ClassSums(
                    sums=sums.reshape(exact.shape) / FINE, stddev=float(noise), centre=centre,
                    classes=classes,
                )  # fmt: skip
                both = replace(reader, class_sums=released)
                yield from self.read("sums and donated", both, release, mauve, facts)
                alone = replace(both, examples=(), codes=None)
                yield from self.read("sums alone", alone, release, None, facts)
                to_read = directions(vectors[release], centre)
                labels = np.stack(
                    [
                        to_label(
                            to_read, of_records, codes[self.private, c], counts[c][:-1],
                            mu=of_sums / np.sqrt(len(sizes)), rng=self.rng,
                        )
                        for c in range(len(sizes))
                    ],
                    axis=1,
                )  # fmt: skip
                yield from self.judged("DP logistic regression", release, labels, **facts)

    def candidates(self) -> tuple[Codes, Codes]:
        """Return the different texts that a pool answers, and the values that were requested."""
        corpus, pool = self.corpus, self.pool
        scored = min(max(4 * self.count, 400), 2000)  # as mosaic does
        rows = corpus.codes[self.rng.choice(self.private, scored)]
        donated = Donated(
            texts=tuple(corpus.texts[i] for i in self.donated), codes=corpus.codes[self.donated]
        )
        requests = first_requests(
            Targets(codes=rows, labels=np.zeros(len(rows), dtype=np.int64)),
            schema=corpus.schema,
            prompts=Prompts(content=PromptContent.BOTH, examples=10, candidates=None),
            length=FirstLength(),
            donated=donated,
            seed=self.seed,
            run_seed=self.seed,
        )
        texts = [corpus.texts[i] for i in pool]
        generator = PoolGenerator(
            texts, corpus.vectors[pool], params=Pool(), seed=self.seed, embed=self.embed
        )
        answers = generator.generate(Released(tuple(requests), ())).value
        usable = [i for i, answer in enumerate(answers) if answer.text is not None]
        different = without_repeated_texts([str(answers[i].text) for i in usable])
        kept = [usable[i] for i in different]
        number = dict(zip(texts, pool, strict=True))
        return np.array([number[str(answers[i].text)] for i in kept]), rows[kept]

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.stack([self._vectors[text] for text in texts])

    def __post_init__(self) -> None:
        corpus = self.corpus
        self._vectors = {**corpus.of_names, **dict(zip(corpus.texts, corpus.vectors, strict=True))}
        self._vectors.setdefault("other", np.zeros(corpus.vectors.shape[1], dtype=np.float32))

    def counts(self, sizes: Sequence[int], mu: float) -> list[Floats]:
        """Return noisy counts of each attribute, with 0 for other values."""
        stddev = float(np.sqrt(len(sizes)) / mu)
        return [
            np.append(
                discrete_gaussian(
                    np.bincount(self.corpus.codes[self.private, column], minlength=size),
                    stddev=stddev,
                    sensitivity=1.0,
                ),
                0.0,
            )
            for column, size in enumerate(sizes)
        ]

    def mauve(self, release: Codes) -> float:
        vectors = self.corpus.vectors
        clusters = self.count // 10
        return mauve_score(vectors[self.tested], vectors[release], clusters=clusters, seed=1)

    def read(
        self,
        arm: str,
        reader: LabelReader,
        release: Codes,
        mauve: float | None,
        facts: dict[str, float],
    ) -> Iterator[dict[str, Any]]:
        texts = [self.corpus.texts[i] for i in release]
        labels = reader.read(texts, np.full((len(texts), len(reader.schema.names)), -1))
        yield from self.judged(arm, release, labels.codes, mauve, **facts)

    def judged(
        self,
        arm: str,
        release: Codes,
        labels: Codes,
        mauve: float | None = None,
        *,
        epsilon: float = 0.0,
        share: float = 0.0,
    ) -> Iterator[dict[str, Any]]:
        codes, vectors = self.corpus.codes, self.corpus.vectors
        for column, name in enumerate(self.corpus.schema.names):
            model = predictions(
                vectors[release],
                labels[:, column],
                heldout=vectors[self.tested],
                heldout_codes=codes[self.tested, column],
                seed=1,
            )
            yield {
                "arm": arm,
                "epsilon": epsilon,
                "share": share,
                "column": name,
                "right": float(np.mean(labels[:, column] == codes[release, column])),
                "accuracy": model.accuracy(),
                "macro_f1": model.macro_f1(),
                "mauve": mauve,
            }


def to_label(
    texts: Floats,
    records: Floats,
    codes: Codes,
    counts: Floats,
    *,
    mu: float,
    rng: np.random.Generator,
) -> Codes:
    """Label texts by a logistic regression that DP gradient descent taught, with clip norm 1.

    The noise is numpy's, because nothing is released.
    """
    prior = np.log(np.maximum(counts, 1.0) / np.maximum(counts, 1.0).sum())
    weights, truth = np.zeros((len(counts), records.shape[1])), np.eye(len(counts))[codes]
    for _ in range(STEPS):
        errors = truth - softmax(records @ weights.T + prior, axis=1)
        errors /= np.maximum(np.linalg.norm(errors, axis=1, keepdims=True), 1.0)
        noise = rng.normal(0, np.sqrt(STEPS) / mu, weights.shape)
        weights += RATE * ((errors.T @ records + noise) / len(records))
    return labels_reader.in_proportion(softmax(texts @ weights.T + prior, axis=1), np.exp(prior))


if __name__ == "__main__":
    main()
