"""Measures what a release of histories keeps of a person, and what single records lose.

    python -m benchmarks.histories turns --data FOLDER --out rows.jsonl
    python -m benchmarks.histories reviews --data FOLDER --out rows.jsonl

`turns` are the turns of one side of conversations (multiwoz21: an order and no dates). `reviews`
are the reviews of one paper (neurips_reviews_2023_24, with their month), of 8% of the papers and
cut to 30 words. The generator is a pool of the histories of other conversations or papers, and no
language model. Three releases are compared at equal epsilon per person: `histories`; `one`, with
one record of each person; and `many`, with up to `most` records of each person as single records,
and so with `most` times the noise. The records of `one` and `many` are grouped to persons at
random, with the numbers of records that `histories` released. Every line of the output is one
release, or the real persons (`real`).
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import sugarbush as sb
from sugarbush.embedding.cache import EmbeddingsInMemory
from sugarbush.embedding.encoder import Encoder
from sugarbush.embedding.settings import EmbeddingSettings
from sugarbush.randomness import hash_share, public_rng

WORDS, SHARE, POOL_SHARE, TEXTS = 30, 0.08, 0.4, 300  # of reviews; of people in the pool
GAPS = (1, 35)  # days: the same month, the next month, later
_CLOSING = re.compile(r"\b(thank|thanks|bye|that is all|that will be all)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Corpus:
    """Rows with the columns person, at, text and topic. `dated`: whether `at` is a date."""

    rows: pd.DataFrame
    subject: str
    topics: tuple[str, ...]
    most: int
    dated: bool


def turns(folder: Path) -> Corpus:
    frame = pd.read_parquet(folder / "multiwoz21/multiwoz21.parquet")
    rows = [
        {"person": row.id, "at": number, "text": line[5:], "topic": row.main_domain}
        for row in frame.itertuples()
        for number, line in enumerate(str(row.text).split("\n"))
        if line.startswith("USR: ")
    ]
    topics = tuple(frame.main_domain.unique())
    return Corpus(pd.DataFrame(rows), "what guests ask a travel desk", topics, 6, dated=False)


def reviews(folder: Path) -> Corpus:
    name = "neurips_reviews_2023_24"
    frame = pd.read_parquet(folder / name / f"{name}.parquet")
    frame = frame[frame.paper_id.map(lambda paper: hash_share(paper) < SHARE)]
    text = frame.text.map(lambda review: " ".join(review.split()[:WORDS]))
    rows = pd.DataFrame(
        {
            "person": frame.paper_id,
            "at": frame.month + "-01",
            "text": text,
            "topic": frame.area_derived,
        }
    )
    return Corpus(
        rows,
        "reviews of papers",
        tuple(topic for topic in rows.topic.unique() if topic != "other"),
        4,
        dated=True,
    )


SETS = {"turns": turns, "reviews": reviews}


def schema(corpus: Corpus, *, joined: bool) -> dict[str, Any]:
    topic = {"name": "topic", "column": "topic", "values": list(corpus.topics)}
    if not joined:
        return {"subject": corpus.subject, "attributes": [topic]}
    count = {
        "name": "records",
        "column": "records",
        "values": [str(n) for n in range(1, corpus.most + 1)],
    }
    span = {"bins": list(GAPS), "type": "integer", "span": [0, 90]}
    gap = [{"name": "gap", "column": "gap_days", **span}] if corpus.dated else []
    history = {
        "person": "person",
        "by": "at",
        "most": corpus.most,
        "type": "date" if corpus.dated else "integer",
    }
    attributes = [topic, count, *gap]
    return {"subject": corpus.subject, "text": {"history": history}, "attributes": attributes}


def released(
    corpus: Corpus, *, joined: bool, most: int, epsilon: float, seed: int, state: Path
) -> pd.DataFrame:
    """Return the released records, with a column `person` if they are joined."""
    is_public = corpus.rows.person.map(lambda person: hash_share(f"pool{person}") < POOL_SHARE)
    pool = state / "pool.csv"
    corpus.rows[is_public].to_csv(pool, index=False)
    source = {"file": str(pool)} if joined else {"file": str(pool), "text_column": "text"}
    prepared = sb.prepare(
        corpus.rows[~is_public],
        schema=schema(corpus, joined=joined),
        user="person",
        generator=sb.Pool(sources=[source]),
        state=state / f"state-{joined}-{most}-{seed}",
        privacy=sb.Privacy(
            epsilon=epsilon,
            delta=1e-6,
            dataset="histories",
            unit="user",
            records_per_user=most,
            cap=epsilon,
            purpose="benchmark",
        ),
        settings={"seed": seed},
    )
    method = sb.Mosaic(prompt="metadata")
    release = sb.synthesize(prepared, method=method, texts=TEXTS, accept_poor=True)
    if not joined:
        return release.frame
    return release.records


def persons_at_random(texts: Sequence[str], sizes: Sequence[int], *, seed: int) -> pd.DataFrame:
    """Group single texts to persons with the given numbers of records."""
    drawn = public_rng(seed, "persons").choice(len(texts), sum(sizes))
    person = np.repeat(np.arange(len(sizes)), sizes)
    number = np.concatenate([np.arange(1, size + 1) for size in sizes])
    return pd.DataFrame(
        {"person": person, "record": number, "text": [texts[index] for index in drawn]}
    )


def figures(
    records: pd.DataFrame, real: pd.DataFrame, encoder: Encoder, *, topics: dict[str, str]
) -> dict[str, float]:
    """Return the figures of persons (columns person, record, text, and days or not)."""
    vectors = encoder.encode(records.text.tolist())
    within, between = _cosines(vectors, records.person.to_numpy())
    topic = np.array([topics[text] for text in records.text])
    same_within, same_between = _equal(topic, records.person.to_numpy())
    sizes, real_sizes = (frame.groupby("person").size() for frame in (records, real))
    last = records.groupby("person").text.last()[sizes > 1]
    first = records.groupby("person").text.first()[sizes > 1]
    found = {
        "persons": len(sizes),
        "cosine_within": within,
        "cosine_between": between,
        "same_topic_within": same_within,
        "same_topic_between": same_between,
        "records_tv": _tv(sizes, real_sizes),
        "last_closes": float(last.map(lambda text: bool(_CLOSING.search(text))).mean()),
        "first_closes": float(first.map(lambda text: bool(_CLOSING.search(text))).mean()),
    }
    if "gap" in records and "gap" in real:
        gaps, real_gaps = (
            frame.groupby("person").gap.first().dropna() for frame in (records, real)
        )
        bins = [np.digitize(own.astype(float), GAPS) for own in (gaps, real_gaps)]
        found["gap_tv"] = _tv(*map(pd.Series, bins))
        found |= {f"gap_{bin_}": float(np.mean(bins[0] == bin_)) for bin_ in range(3)}
    return found


def _tv(one: pd.Series[Any], other: pd.Series[Any]) -> float:
    """Return the total variation distance of two sets of values."""
    shares = [own.value_counts(normalize=True) for own in (one, other)]
    a, b = shares[0].align(shares[1], fill_value=0.0)
    return float(np.abs(a.to_numpy() - b.to_numpy()).sum() / 2)


def _cosines(vectors: NDArray[np.float32], person: NDArray[Any]) -> tuple[float, float]:
    cosines, same = vectors @ vectors.T, person[:, None] == person[None]
    np.fill_diagonal(same, val=False)
    other = person[:, None] != person[None]
    return float(cosines[same].mean()), float(cosines[other].mean())


def _equal(topic: NDArray[Any], person: NDArray[Any]) -> tuple[float, float]:
    equal, same = topic[:, None] == topic[None], person[:, None] == person[None]
    np.fill_diagonal(same, val=False)
    return float(equal[same].mean()), float(equal[person[:, None] != person[None]].mean())


def real_persons(corpus: Corpus) -> pd.DataFrame:
    rows = corpus.rows.sort_values("at", kind="stable")
    rows = rows.groupby("person", sort=False).head(corpus.most).copy()
    rows["record"] = rows.groupby("person").cumcount() + 1
    if corpus.dated:
        at = pd.to_datetime(rows["at"])
        days = at.groupby(rows.person).transform("max") - at.groupby(rows.person).transform("min")
        size = rows.groupby("person").text.transform("size")
        rows["gap"] = (days.dt.days / (size - 1)).where(size > 1)
    return rows.sort_values(["person", "record"])


def measured(corpus: Corpus, *, epsilon: float, seeds: Sequence[int]) -> Iterator[dict[str, Any]]:
    encoder = Encoder(EmbeddingSettings(), cache=EmbeddingsInMemory(), private=False)
    topics = dict(zip(corpus.rows.text, corpus.rows.topic, strict=True))
    every = real_persons(corpus)
    sample = every[every.person.map(lambda person: hash_share(f"r{person}") < 0.25)]
    yield {"release": "real", **figures(sample, every, encoder, topics=topics)}
    for seed in seeds:
        sizes: list[int] = []
        for name, joined, most in (
            ("histories", True, 1), ("one", False, 1), ("many", False, corpus.most),
        ):  # fmt: skip
            with tempfile.TemporaryDirectory() as folder:
                state = Path(folder)
                records = released(
                    corpus, joined=joined, most=most, epsilon=epsilon, seed=seed, state=state
                )
            if joined:
                sizes = records.groupby("person", sort=False).size().tolist()
            else:
                records = persons_at_random(records.text.tolist(), sizes, seed=seed)
            found = figures(records, every, encoder, topics=topics)
            yield {"release": name, "epsilon": epsilon, "seed": seed, **found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("set", choices=SETS)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--epsilon", type=float, default=4.0)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    corpus = SETS[options.set](options.data)
    with options.out.open("a", encoding="utf-8") as out:
        for row in measured(corpus, epsilon=options.epsilon, seeds=options.seeds):
            out.write(json.dumps({"set": options.set, **row}) + "\n")
            out.flush()


if __name__ == "__main__":
    main()
