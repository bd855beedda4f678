"""Measures releases of 100 to 5,000 texts from a pool, in the path of `sugarbush.synthesize`.

    python -m benchmarks.large_releases airline_tweets yelp --data FOLDER --work FOLDER \\
        --out rows.jsonl --texts 100 500 1000 5000 --epsilons 1 4 --seeds 0 1 2

FOLDER of --data contains <set>/<set>.parquet. The generator is a pool of other texts of the set and
of four other sets, so the true values of every released text are known. A division of the texts
(seed) has 50 donated, private, held-out and pool texts. `--work` keeps the embeddings. Every line
of the output is one attribute of one release, and `table` prints means with 95% intervals over the
seeds. `real` has as many private texts with their true values.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import resource
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import t as student

import sugarbush as sb
from sugarbush.embedding.cache import EmbeddingCache, EmbeddingsInMemory
from sugarbush.evaluation import mauve_score
from sugarbush.evaluation.downstream import predictions
from sugarbush.json_lines import read_json_lines
from sugarbush.pipeline.in_memory import Corpus

DONATED = 50
TOKENS = 64  # the encoder reads the first tokens of a text
NEAR = 0.95  # cosine of near-duplicates
_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None

Codes = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class TextSet:
    """A data set: its attributes, the sizes of the parts of a division, and sets of other texts."""

    subject: str
    columns: tuple[str, ...]
    private: int
    heldout: int
    pool: int
    words: int
    others: tuple[str, ...]
    other_texts: int = 1000  # of each other set


SETS: Final = {
    "airline_tweets": TextSet(
        subject="short messages of passengers to airlines",
        columns=("airline", "sentiment", "negative_reason"),
        private=5000, heldout=1200, pool=8000, words=20,
        others=("ner_real_names", "yelp", "it_tickets", "cfpb_complaints"),
    ),
    "yelp": TextSet(
        subject="reviews of local businesses", columns=("category", "stars"),
        private=3000, heldout=1000, pool=5900, words=90,
        others=("neurips_reviews_2023_24", "cfpb_complaints", "it_tickets", "airline_tweets"),
    ),
    "neurips_reviews_2023_24": TextSet(
        subject="reviews of papers about machine learning", columns=("area_derived", "rating"),
        private=5000, heldout=1200, pool=8700, words=300,
        others=("neurips_abstracts", "yelp", "medical_abstracts", "cfpb_complaints"),
    ),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Division:
    """A division of a data set, prepared for `synthesize`."""

    name: str
    seed: int
    corpus: Corpus
    codes: Mapping[str, tuple[int, ...]]  # true codes of the texts of the set

    @classmethod
    def of(cls, name: str, *, data: Path, work: Path, seed: int, state: Path) -> Division:
        chosen = SETS[name]
        frame = _frame(data, name, chosen.columns)
        values = {c: tuple(frame[c].value_counts().index) for c in chosen.columns}
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(frame))
        sizes = np.cumsum([DONATED, chosen.private + chosen.heldout, chosen.pool])
        donated, private, pool = (frame.iloc[i] for i in np.split(order, sizes)[:3])
        others = [
            _frame(data, other, ())["text"].sample(chosen.other_texts, random_state=0)
            for other in chosen.others
        ]
        schema = {
            "subject": chosen.subject,
            "attributes": [
                {"name": c, "column": c, "values": list(values[c])} for c in chosen.columns
            ],
        }
        corpus = sb.prepare(
            private,
            schema=schema,
            donated=donated,
            privacy=sb.Privacy(dataset=name, purpose="benchmark", delta=1e-6, cap=1000),
            generator=sb.Pool(texts=tuple(pd.concat([pool["text"], *others]))),
            settings={
                "prepare": {"heldout_share": chosen.heldout / len(private)},
                "embedding": {"max_tokens": TOKENS},
                "initialise": {"length": {"words": chosen.words}},
            },
            state=state,
        )
        stored = EmbeddingsInMemory(EmbeddingCache(work / "embeddings"))
        corpus = dataclasses.replace(corpus, embeddings={True: stored, False: stored})
        code_of = {c: {v: i for i, v in enumerate(values[c])} for c in chosen.columns}
        codes = zip(*(frame[c].map(code_of[c]) for c in chosen.columns), strict=True)
        return cls(
            name=name, seed=seed, corpus=corpus,
            codes=dict(zip(frame["text"], codes, strict=True)),
        )  # fmt: skip

    @cached_property
    def heldout(self) -> tuple[NDArray[np.float32], Codes]:
        heldout = self.corpus.real_texts("heldout")
        return self.corpus.encode(heldout.texts, private=True), np.asarray(heldout.codes)

    def real(self, count: int) -> Iterator[dict[str, Any]]:
        """Yield the figures of `count` private texts with their true values."""
        train = self.corpus.real_texts("train")
        chosen = np.random.default_rng(self.seed).permutation(len(train.texts))[:count]
        texts, codes = [train.texts[i] for i in chosen], np.asarray(train.codes)[chosen]
        common = {**self.common(texts, count), "epsilon": np.inf}
        for column, name in enumerate(self.corpus.schema.names):
            f1 = self.macro_f1(texts, codes[:, column], column)
            yield {**common, "arm": "real", "column": name, "macro_f1": f1}

    def released(self, count: int, *, epsilon: float, arm: str) -> Iterator[dict[str, Any]]:
        """Yield the figures of a release of `count` texts."""
        wall, cpu = time.perf_counter(), time.process_time()
        said: list[str] = []
        release = sb.synthesize(
            self.corpus,
            method=sb.Mosaic(),
            settings={"privacy": {"epsilon": epsilon}},
            texts=count,
            seed=self.seed,
            new_draw=True,
            accept_poor=True,
            report=said.append,
        )
        spent = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
        texts, names = list(release.texts), self.corpus.schema.names
        truth = np.array([self.codes.get(text, (-1,) * len(names)) for text in texts])
        scored = release.lineage.scored
        common = {
            **self.common(texts, count),
            "arm": arm, "epsilon": epsilon, **spent, "said": said,
            "of_the_set": float(np.mean(truth[:, 0] >= 0)),
            "scored": 0 if scored is None else len(scored.population),
            "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }  # fmt: skip
        for column, name in enumerate(names):
            read, true = release.labels.codes[:, column], truth[:, column]
            labelled = true >= 0
            yield {
                **common,
                "column": name,
                "macro_f1": self.macro_f1(texts, read, column),
                "macro_f1_of_true_labels": None
                if epsilon != 1
                else self.macro_f1(
                    [t for t, k in zip(texts, labelled, strict=True) if k], true[labelled], column
                ),
                "right": float(np.mean(read[labelled] == true[labelled])),
                "fewest": int(np.bincount(true[labelled], minlength=int(true.max()) + 1).min()),
            }

    def common(self, texts: Sequence[str], count: int) -> dict[str, Any]:
        vectors = self.corpus.encode(texts, private=False)
        tested = self.heldout[0]
        near = [
            (vectors[i : i + 500] @ vectors[: i + 500].T).astype(np.float32)
            for i in range(0, len(vectors), 500)
        ]
        nearest = [np.tril(rows, len(rows[0]) - len(rows) - 1).max(axis=1) for rows in near]
        pairs = [pair for text in texts for pair in pairwise(text.split())]
        return {
            "set": self.name,
            "seed": self.seed,
            "texts": count,
            "released": len(texts),
            "mauve": mauve_score(tested, vectors, clusters=min(count, len(tested)) // 10, seed=1),
            "near_duplicates": float(np.mean(np.concatenate(nearest) >= NEAR)),
            "distinct_2": len(set(pairs)) / max(len(pairs), 1),
        }

    def macro_f1(self, texts: Sequence[str], codes: Codes, column: int) -> float:
        vectors, truth = self.heldout
        return predictions(
            self.corpus.encode(texts, private=False),
            codes,
            heldout=vectors,
            heldout_codes=truth[:, column],
            seed=1,
        ).macro_f1()


def _frame(data: Path, name: str, columns: Sequence[str]) -> pd.DataFrame:
    frame = pd.read_parquet(data / name / f"{name}.parquet").dropna(subset=list(columns))
    frame = frame.assign(text=frame["text"].str[:800].str.strip()).drop_duplicates("text")
    return frame[["text", *columns]].astype(str).reset_index(drop=True)


def table(file: Path, figure: str) -> pd.DataFrame:
    """Return the mean of a figure over the seeds, and the half-width of its 95% interval."""
    frame = pd.DataFrame(read_json_lines(file.read_text("utf-8")))
    frame = frame[frame[figure].notna()]
    groups = frame.groupby(["set", "column", "epsilon", "arm", "texts"])[figure]
    counts = groups.count()
    half = groups.std() / np.sqrt(counts) * student.ppf(0.975, np.maximum(counts - 1, 1))
    text = groups.mean().map("{:.3f}".format) + half.map(" ± {:.3f}".format).where(counts > 1, "")
    return text.unstack("texts").fillna("")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sets", nargs="*", choices=[[], *SETS], metavar="SET")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--texts", type=int, nargs="+", default=[100, 500, 1000, 5000])
    parser.add_argument("--epsilons", type=float, nargs="*", default=[1.0, 4.0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--arm", default="mosaic", help="the name of these runs in the output")
    given = parser.parse_args()
    for name in given.sets:
        for seed in given.seeds:
            with tempfile.TemporaryDirectory(dir=_MEMORY) as state:
                division = Division.of(
                    name, data=given.data, work=given.work, seed=seed, state=Path(state)
                )
                for texts in given.texts:
                    rows = [] if given.arm != "mosaic" else list(division.real(texts))
                    for epsilon in given.epsilons:
                        rows += division.released(texts, epsilon=epsilon, arm=given.arm)
                    with given.out.open("a") as out:
                        out.writelines(json.dumps(row) + "\n" for row in rows)
                    print(name, seed, texts, flush=True)
    if given.out.exists():
        for figure in ("mauve", "macro_f1"):
            print(figure, table(given.out, figure).to_string(), sep="\n")


if __name__ == "__main__":
    main()
