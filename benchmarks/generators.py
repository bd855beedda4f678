"""Measures the speed of the offline generators, and how close the simulator is to the example.

    python -m benchmarks.generators [--near]

The pool computes its similarities by one float32 matrix product. The times of the pool are divided
by the time of this product. `--near` embeds 200 texts for each kind of request with the bundled
model. The embedding takes minutes on two cores. `--near` prints the mean cosine of corpus texts to
their nearest generated text. `--near` also prints the AUC of a logistic regression that separates
corpus texts from generated texts by their embeddings (0.5 is chance). The row "(corpus)" shows both
values for other corpus texts in place of generated texts.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score

from sugarbush.embedding.encoder import Encoder
from sugarbush.embedding.settings import EmbeddingSettings
from sugarbush.examples.corpus import ExampleRecord, example_records, example_schema
from sugarbush.examples.simulator.writer import SimulatorWriter
from sugarbush.generators.interface import RandomRequest, Request, VariationRequest
from sugarbush.generators.pool import Pool, PoolGenerator
from sugarbush.privacy.data_types import Released
from sugarbush.randomness import public_rng

SUBJECT = example_schema()["subject"]
TEXTS = 200
POOL, DIMENSION, PARENTS, VARIATIONS = 15_000, 384, 500, 4
ATTRIBUTES = ("product", "issue", "channel", "sentiment", "resolution", "region", "priority")


def seconds(work: Callable[[], object], repeats: int = 3) -> float:
    """Return the time of the fastest of `repeats` runs, in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def requests_by_arm(
    corpus: Sequence[ExampleRecord], donated: Sequence[ExampleRecord]
) -> dict[str, list[Request]]:
    """Return requests of three kinds, by name, as in MAPLE.

    Requests of the first kind have no metadata. Requests of the second kind have the metadata of
    corpus records. Requests of the third kind also have the donated texts that are nearest to the
    metadata.
    """
    arms: dict[str, list[Request]] = {"nothing": [], "metadata": [], "metadata and examples": []}
    for i, record in enumerate(corpus[:TEXTS]):
        row = tuple((name, str(record[name])) for name in ATTRIBUTES)
        near = sorted(donated, key=lambda d: sum(d[n] != record[n] for n in ATTRIBUTES))
        shown = tuple(d["text"] for d in near[:10])
        ask = {"subject": SUBJECT, "words": 80, "sample": i}
        arms["nothing"].append(RandomRequest(**ask))
        arms["metadata"].append(RandomRequest(**ask, attributes=row))
        arms["metadata and examples"].append(RandomRequest(**ask, attributes=row, examples=shown))
    return arms


def written(requests: Sequence[Request]) -> list[str]:
    """Return the simulator's answers to the requests."""
    return [str(a.text) for a in SimulatorWriter(seed=1).generate(Released(tuple(requests))).value]


def simulator_table(arms: dict[str, list[Request]]) -> Table:
    table = Table("asked with", "ms a text", "words", "distinct", title="Simulator")
    arms = dict(arms)
    parents = written(arms["metadata and examples"])
    arms["a parent"] = [
        VariationRequest(subject=SUBJECT, parent=p, mask_share=0.5, words=len(p.split()))
        for p in parents
    ]
    for name, requests in arms.items():
        texts = written(requests)
        spent = seconds(lambda requests=requests: written(requests)) / len(requests)
        words = np.mean([len(text.split()) for text in texts])
        table.add_row(name, f"{1000 * spent:.2f}", f"{words:.0f}", f"{len(set(texts))}/{TEXTS}")
    return table


def pool_table() -> Table:
    rng = public_rng(1, "benchmark")
    vectors = rng.normal(size=(POOL, DIMENSION)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    texts = [f"text {i}" for i in range(POOL)]
    pool = PoolGenerator(
        texts,
        vectors,
        params=Pool(sources=(), temperature=0.05, neighbours=200),
        seed=1,
        embed=lambda _: np.empty((0, DIMENSION), dtype=np.float32),
    )
    vary = tuple(
        VariationRequest(subject=SUBJECT, parent=texts[i], mask_share=0.5, sample=j)
        for i in range(PARENTS)
        for j in range(VARIATIONS)
    )
    ask = tuple(
        RandomRequest(subject=SUBJECT, examples=tuple(texts[i : i + 10]), sample=i)
        for i in range(PARENTS * VARIATIONS)
    )
    table = Table("pool of 15,000", "requests", "s", "s of its matrix product", "ratio")
    for name, requests, rows in (("variations", vary, PARENTS), ("by examples", ask, len(ask))):
        product = seconds(lambda rows=rows: vectors[:rows] @ vectors.T)
        spent = seconds(lambda requests=requests: pool.generate(Released(requests)))
        table.add_row(
            name, str(len(requests)), f"{spent:.2f}", f"{product:.2f}", f"{spent / product:.1f}"
        )
    return table


def told_apart(a: NDArray[np.float32], b: NDArray[np.float32]) -> float:
    """Return the cross-validated AUC of a logistic regression that separates two sets of
    embeddings.
    """
    labels = np.r_[np.zeros(len(a)), np.ones(len(b))]
    model = LogisticRegression(max_iter=500)
    return float(cross_val_score(model, np.vstack([a, b]), labels, cv=5, scoring="roc_auc").mean())


def nearness_table(arms: dict[str, list[Request]], corpus: Sequence[ExampleRecord]) -> Table:
    encode = Encoder(EmbeddingSettings(model="bundled", max_tokens=128), cache=None).encode
    private = encode([r["text"] for r in corpus[TEXTS : 2 * TEXTS]])
    others = {name: written(requests) for name, requests in arms.items()}
    others["(corpus)"] = [r["text"] for r in corpus[2 * TEXTS : 3 * TEXTS]]
    table = Table("asked with", "nearest", "told apart", title=f"Nearness to {TEXTS} corpus texts")
    for name, texts in others.items():
        vectors = encode(texts)
        nearest = (private @ vectors.T).max(axis=1).mean()
        table.add_row(name, f"{nearest:.3f}", f"{told_apart(private, vectors):.3f}")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--near", action="store_true", help="embed and compare with the corpus")
    wanted = parser.parse_args()
    records = example_records(seed=1)
    donated, corpus = list(islice(records, 50)), list(islice(records, 3 * TEXTS))
    arms = requests_by_arm(corpus, donated)
    console = Console()
    console.print(simulator_table(arms))
    console.print(pool_table())
    if wanted.near:
        console.print(nearness_table(arms, corpus))


if __name__ == "__main__":
    main()
