"""Compares public figures with exact ones, and measures what they cost the release.

    python -m benchmarks.public_figures --sets airline_tweets yelp --runs 5 --out figures.json

Each run draws a release of Mosaic with a pool of public texts, at shares 0 (no public figures),
0.05, 0.1 and 0.2 of mu^2. The exact figures come from the same instruments without noise. The data
is public (purpose benchmark). A quarter of an hour of two cores for four sets.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import stdtrit

import sugarbush as sb
from sugarbush.data.private_store import HELDOUT, TRAIN
from sugarbush.evaluation import mauve_score
from sugarbush.evaluation.public_figures import NoisyNumbers, PublicFigure, estimate
from sugarbush.privacy.distances import _distances
from sugarbush.quality.instruments import Instruments
from sugarbush.randomness import hash_share, public_rng

SETS = ("airline_tweets", "it_tickets", "yelp", "cfpb_complaints")
SHARES = (0.0, 0.05, 0.1, 0.2)
_OTHERS = ("it_tickets", "airline_tweets", "mts_dialog")
_RECORDS, _TEXTS, _CANDIDATES = 3000, 500, 1000
_PUBLIC_SHARE, _DONATED = 0.1, 50  # the texts with the smallest hashes are public
_SHARED = Path("../shared/data")
_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None


def prepared(name: str, state: Path) -> sb.Corpus:
    """Prepare a sample of a set. Its public 10% and texts of other sets are the pool."""
    frame = pd.read_parquet(_SHARED / name / f"{name}.parquet")
    share = frame["text"].map(hash_share)
    pool = [*frame["text"][share < _PUBLIC_SHARE]]
    for other in _OTHERS:
        if other != name:
            pool += [*pd.read_parquet(_SHARED / other / f"{other}.parquet")["text"][:500]]
    private = frame[share >= _PUBLIC_SHARE]
    rows = public_rng(1, name, "records").permutation(len(private))[:_RECORDS]
    return sb.prepare(
        private.iloc[np.sort(rows)].reset_index(drop=True),
        text="text",
        schema=f"research/settings/{name}.schema.yaml",
        donated=frame.assign(share=share).nsmallest(_DONATED, "share").drop(columns="share"),
        privacy=sb.Privacy(
            epsilon=1, dataset=name.replace("_", "-"), cap=1000, purpose="benchmark"
        ),
        generator=sb.Pool(texts=pool),
        state=state,
    )


def exact_figures(corpus: sb.Corpus, release: sb.Release) -> dict[str, PublicFigure]:
    """Compute the figures of a release without noise, by name."""
    tools = Instruments(
        texts=release.texts,
        labels=release.labels,
        schema=corpus.schema,
        embed=lambda texts: corpus.encode(texts, private=False),
        seed=1,
    )
    train, heldout = corpus.real_texts(TRAIN), corpus.real_texts(HELDOUT)
    rows, queries = tools.cells_of_records(train.codes), tools.queries()
    distances = iter([float(d) for d in _distances(rows, [h for q in queries for h in q])])
    moved = [np.mean([next(distances) for _ in query]) for query in queries]
    vectors = corpus.encode(heldout.texts, private=True)
    cells = tools.cells_of_heldout(vectors, heldout.codes)
    topics = tools.topics
    apart = next(_distances(topics.cells(vectors), [topics.texts]))
    numbers = NoisyNumbers(
        records=np.array([len(train.codes), *np.round(moved)], dtype=np.int64),
        records_stddev=1e-6,
        heldout=np.bincount(cells[cells >= 0], minlength=tools.heldout_size),
        heldout_stddev=1e-6,
        topics=np.array([round(apart)]),
        topics_stddev=1e-6,
        number_of_topics=len(topics.texts),
        attributes=corpus.schema.names,
        measured=tools.measured,
        pairs_measured=bool(tools.pairs),
    )
    return {figure.title: figure for figure in estimate(numbers)}


def rows_of(name: str, *, runs: int, shares: Sequence[float]) -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory(dir=_MEMORY) as folder:
        corpus = prepared(name, Path(folder))
    heldout = corpus.encode(corpus.real_texts(HELDOUT).texts, private=True)
    for run in range(runs):
        for share in shares:
            with tempfile.TemporaryDirectory(dir=_MEMORY) as folder:
                release = sb.synthesize(
                    dataclasses.replace(corpus, state=Path(folder)),
                    method=sb.Mosaic(candidates=_CANDIDATES),
                    texts=_TEXTS,
                    settings={"evaluate": {"public": share or False}},
                    accept_poor=True,
                )
                card = release.card  # it needs the ledger
            vectors = corpus.encode(release.texts, private=False)
            row = {
                "set": name, "run": run, "share": share,
                "mauve": mauve_score(heldout, vectors, clusters=40, seed=1),
            }  # fmt: skip
            if share:
                assert card is not None
                exact = exact_figures(corpus, release)
                for figure in card["public_figures"]["methods"]["mosaic"]["figures"]:
                    title = figure["name"]
                    row[title] = (
                        exact[title].value,
                        *(figure[n] for n in ("value", "low", "high")),
                    )
            yield row


def summary(rows: Sequence[dict[str, Any]]) -> str:
    """Return the mean absolute error of each figure, and how often its interval has the exact one.

    Figures of single attributes are averaged under their name.
    """
    errors: dict[tuple[str, float, str], list[tuple[float, float, bool]]] = {}
    mauve: dict[tuple[str, float], list[float]] = {}
    for row in rows:
        mauve.setdefault((row["set"], row["share"]), []).append(row["mauve"])
        for title, found in row.items():
            if isinstance(found, (tuple, list)):
                exact, value, low, high = found
                name = title.partition(".")[0] + (" of an attribute" if "." in title else "")
                errors.setdefault((row["set"], row["share"], name), []).append(
                    (exact, abs(value - exact), low <= exact <= high)
                )
    lines = [
        "| set | share | figure | exact | mean error | in the interval |",
        "|---|---|---|---|---|---|",
    ]
    for (name, share, figure), found in errors.items():
        exact, error, inside = (float(np.mean([f[i] for f in found])) for i in range(3))
        lines.append(f"| {name} | {share} | {figure} | {exact:.3f} | {error:.3f} | {inside:.2f} |")
    lines += ["", "| set | share | MAUVE | difference from share 0 |", "|---|---|---|---|"]
    for (name, share), values in mauve.items():
        change = np.array(values) - np.array(mauve[name, 0.0])
        half = float(
            stdtrit(max(len(change) - 1, 1), 0.975) * change.std() / max(len(change) - 1, 1) ** 0.5
        )
        lines.append(
            f"| {name} | {share} | {np.mean(values):.3f} | {change.mean():+.3f} ± {half:.3f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--shares", nargs="+", type=float, default=list(SHARES))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name in options.sets:
        for row in rows_of(name, runs=options.runs, shares=options.shares):
            rows.append(row)
            print(json.dumps(row), flush=True)
            if options.out is not None:
                options.out.write_text(json.dumps(rows, indent=1))
    print(summary(rows))


if __name__ == "__main__":
    main()
