"""Measures released numbers and dates: JSD of columns and pairs, and the error of quantiles.

    python -m benchmarks.quantities --data FOLDER --epsilon 1 --seeds 5

    python -m benchmarks.quantities --data FOLDER --pool cfpb_complaints

FOLDER contains <set>/<set>.parquet. Each line is a DP table of one set at the whole epsilon:

    uniform    a value is uniform inside its bin of the table (the method of the library)
    histogram  a tenth of mu^2 is spent on one histogram of 64 cells for each number or date; a
               value is drawn in its bin in proportion to the cells

The error of a quantile is the mean distance between the quantiles 0.05, 0.1, ..., 0.95 of the table
and of the records, in parts of the span. JSD is the distance of `sugarbush evaluate`, in the bins
of the first line of a set. Bins have equal widths, because a user knows no quartiles. The state
folder is temporary, so no ledger counts.

With `--pool`, mosaic releases 400 texts of a pool: the rows of the set that are not private. 50 of
them are donated with their columns. The figures compare the released columns with the records.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sugarbush import Mosaic, Pool, Privacy, prepare, synthesize
from sugarbush.api.ledgers import open_session
from sugarbush.data.drawn_values import draw_values
from sugarbush.data.records import as_text
from sugarbush.data.schema import Attribute, Schema, schema_of
from sugarbush.evaluation.jensen_shannon import jensen_shannon_distance
from sugarbush.evolution.starts import METADATA
from sugarbush.privacy.budget import BudgetRequest, make_plan
from sugarbush.privacy.data_types import Private
from sugarbush.privacy.mechanisms import noisy_histogram
from sugarbush.randomness import public_rng
from sugarbush.release.folders import values_of_texts
from sugarbush.tables.engines import synthesize_table
from sugarbush.tables.settings import SynthesizeMetadataSettings

DELTA, SHARE, CELLS = 1e-6, 0.1, 64
QUANTILES = np.arange(0.05, 0.96, 0.05)
Column = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--bins", type=int, nargs="+", default=[8, 16, 32])
    parser.add_argument("--pool", metavar="SET")
    given = parser.parse_args()
    if given.pool is not None:
        print(pooled(given.pool, given.data, epsilon=given.epsilon, bins=given.bins[0]))
        return
    rows = []
    for name in ("cfpb_complaints", "it_tickets", "yelp"):
        frame = frame_of(name, given.data)
        reference = schema(name, frame, bins=given.bins[0])
        for bins, draw in itertools.product(given.bins, ("uniform", "histogram")):
            binned = schema(name, frame, bins=bins)
            errors = [
                measured(frame, binned, reference, draw, epsilon=given.epsilon, seed=seed)
                for seed in range(given.seeds)
            ]
            mean = pd.DataFrame(errors).mean().to_dict()
            rows.append({"set": name, "rows": len(frame), "bins": bins, "draw": draw, **mean})
            print(pd.DataFrame(rows[-1:]).round(4).to_string(header=len(rows) == 1, index=False))


def frame_of(name: str, folder: Path) -> pd.DataFrame:
    """Return the rows with all columns. `words` is the number of words of the text."""
    frame = pd.read_parquet(folder / name / f"{name}.parquet")
    frame["words"] = frame["text"].str.split().str.len()
    if name == "cfpb_complaints":
        frame = frame[frame["full_metadata"]].dropna(subset=["date", "state"])
    return frame.reset_index(drop=True)


def schema(name: str, frame: pd.DataFrame, *, bins: int) -> Schema:
    """Return the schema of a set. Its spans and values are public knowledge about the benchmark."""
    words = integers("words", low=1, high=1000 if name != "it_tickets" else 400, bins=bins)
    if name == "cfpb_complaints":
        columns = [
            days("date", low="2015-01-01", high="2023-12-31", bins=bins),
            words,
            *(listed(column, frame) for column in ("product", "state", "company_response")),
        ]
    elif name == "it_tickets":
        columns = [
            integers("business_service", low=0, high=103, bins=bins),
            integers("sub_category2", low=0, high=111, bins=bins),
            words,
            *(listed(column, frame) for column in ("category", "urgency")),
        ]
    else:
        columns = [words, listed("stars", frame), listed("category", frame)]
    return schema_of({"subject": "records", "attributes": columns}, source=name)


def integers(name: str, *, low: int, high: int, bins: int) -> Column:
    edges = sorted({round(edge) for edge in np.linspace(low, high + 1, bins + 1)[1:-1]})
    return {"name": name, "column": name, "type": "integer", "bins": edges, "span": [low, high]}


def days(name: str, *, low: str, high: str, bins: int) -> Column:
    edges = pd.date_range(low, high, periods=bins + 1)[1:-1]
    texts = [str(edge.date()) for edge in edges]
    return {"name": name, "column": name, "type": "date", "bins": texts, "span": [low, high]}


def listed(name: str, frame: pd.DataFrame) -> Column:
    return {"name": name, "column": name, "values": [str(v) for v in frame[name].dropna().unique()]}


def codes_of(frame: pd.DataFrame, binned: Schema) -> NDArray[np.int64]:
    columns = [[a.code(as_text(v)) for v in frame[a.name]] for a in binned.attributes]
    return np.array(columns, dtype=np.int64).T


def values_of(frame: pd.DataFrame, attribute: Attribute) -> NDArray[np.float64]:
    quantity = attribute.quantity
    assert quantity is not None
    read = (quantity.number_of(as_text(v)) for v in frame[attribute.name])
    return np.array([np.nan if number is None else number for number in read])


def measured(
    frame: pd.DataFrame,
    binned: Schema,
    reference: Schema,
    draw: str,
    *,
    epsilon: float,
    seed: int,
) -> dict[str, float]:
    """Return the errors of one DP table."""
    numbers = [p for p, a in enumerate(binned.attributes) if a.quantity is not None]
    plan = make_plan(
        [BudgetRequest(name=METADATA, share=1.0, count=0)], epsilon=epsilon, delta=DELTA
    )
    mu = plan.of(METADATA).mu
    share = SHARE if draw == "histogram" else 0.0
    rng = public_rng(seed, "values")
    with tempfile.TemporaryDirectory() as state:
        session = open_session(
            f"numbers-{seed}", stage="dp_table", cap=None, delta=DELTA, state=Path(state)
        )
        rows = synthesize_table(
            Private(codes_of(frame, binned)),
            binned.domain,
            mu=mu * (1 - share) ** 0.5,
            params=SynthesizeMetadataSettings(),
            session=session,
            rng=public_rng(seed, "table"),
        ).rows.value
        values, _ = draw_values(
            binned, rows, shares=lambda _, again: rng.random((len(again), rows.shape[1]))
        )
        for place in numbers if share else ():
            attribute = binned.attributes[place]
            counts = noisy_histogram(
                Private(cells(values_of(frame, attribute), attribute)),
                size=CELLS,
                stddev=1 / (mu * (share / len(numbers)) ** 0.5),
                session=session,
            ).value
            values[:, place] = by_cells(values[:, place], rows[:, place], counts, attribute, rng)
    errors = [
        quantile_error(
            values[:, p],
            values_of(frame, binned.attributes[p]),
            binned.attributes[p],
        )
        for p in numbers
    ]
    return {
        "quantiles": float(np.mean(errors)),
        **jsd(frame, binned, reference, rows, values),
    }


def pooled(name: str, folder: Path, *, epsilon: float, bins: int) -> str:
    """Return the errors of the columns of a release from a pool."""
    frame = frame_of(name, folder)
    private, rest = frame[frame["split"] == "train"], frame[frame["split"] == "test"]
    donated = rest.head(50)
    texts = pd.read_parquet(folder / name / f"{name}.parquet")["text"]
    pool = texts[~texts.isin(private["text"])].sample(2000, random_state=1)
    binned = schema(name, frame, bins=bins)
    with tempfile.TemporaryDirectory() as state:
        corpus = prepare(
            private,
            text="text",
            schema=binned,
            donated=donated,
            generator=Pool(texts=pool.tolist()),
            privacy=Privacy(epsilon=epsilon, delta=DELTA, dataset="numbers", purpose="benchmark"),
            state=Path(state),
        )
        release = synthesize(corpus, method=Mosaic(), texts=400, accept_poor=True)
    final = release.lineage.final
    values, _ = values_of_texts(final, binned, release.labels)
    lines = [f"{name}, {len(private)} records, {len(final)} texts, {bins} bins, epsilon {epsilon}"]
    for place, attribute in enumerate(binned.attributes):
        if (quantity := attribute.quantity) is not None:
            for which, drawn in (("released", values), ("requested", final.values)):
                error = quantile_error(drawn[:, place], values_of(private, attribute), attribute)
                lines.append(f"{attribute.name}: error of quantiles {error:.4f} ({which})")
            said = [
                value in quantity.numbers_in(text)
                for text, value in zip(final.texts, values[:, place], strict=True)
            ]
            lines.append(f"{attribute.name}: {np.mean(said):.3f} of the texts say the value")
    for which, codes, drawn in (
        ("released", release.labels.codes, values),
        ("requested", final.codes, final.values),
    ):
        found = jsd(private, binned, binned, codes, drawn)
        lines.append(f"{which}: " + ", ".join(f"{n} {v:.4f}" for n, v in found.items()))
    return "\n".join(lines)


def quantile_error(
    drawn: NDArray[np.float64], real: NDArray[np.float64], attribute: Attribute
) -> float:
    """Return the mean distance of quantiles, in parts of the span."""
    quantity = attribute.quantity
    assert quantity is not None
    distance = np.nanquantile(drawn, QUANTILES) - np.nanquantile(real, QUANTILES)
    return float(np.abs(distance).mean() / (quantity.high - quantity.low))


def cells(numbers: NDArray[np.float64], attribute: Attribute) -> NDArray[np.int64]:
    """Return the cell of each number. Cells have equal widths. A missing value is in cell 0."""
    quantity = attribute.quantity
    assert quantity is not None
    part = (np.nan_to_num(numbers, nan=quantity.low) - quantity.low) / (
        quantity.high - quantity.low + 1
    )
    return np.clip((part * CELLS).astype(np.int64), 0, CELLS - 1)


def by_cells(
    values: NDArray[np.float64],
    codes: NDArray[np.int64],
    counts: NDArray[np.int64],
    attribute: Attribute,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """Draw the values of each bin again, in proportion to the noisy counts of its cells."""
    quantity = attribute.quantity
    assert quantity is not None
    drawn = values.copy()
    for code in range(len(quantity.ranges)):
        rows = np.flatnonzero(codes == code)
        first, last = quantity.ranges[code]
        points = np.arange(first, last + 1).astype(float)
        weights = np.maximum(counts, 0)[cells(points, attribute)].astype(float)
        if len(rows) and weights.sum() > 0:
            drawn[rows] = rng.choice(points, size=len(rows), p=weights / weights.sum())
    return drawn


def jsd(
    frame: pd.DataFrame,
    binned: Schema,
    reference: Schema,
    rows: NDArray[np.int64],
    values: NDArray[np.float64],
) -> dict[str, float]:
    """Return the mean JSD of columns and of pairs, in the bins of `reference`."""
    buckets = np.array(list(reference.domain.values())) - 1
    real, released = codes_of(frame, reference), np.where(rows < 0, buckets, rows)
    for place, attribute in enumerate(reference.attributes):
        if (quantity := attribute.quantity) is not None:
            bins = np.searchsorted(np.asarray(quantity.edges), values[:, place], side="right")
            released[:, place] = np.where(
                np.isnan(values[:, place]), len(attribute.domain) - 1, bins
            )
    sizes = list(reference.domain.values())
    single = [divergence_of(real, released, (p,), sizes) for p in range(len(sizes))]
    pairs = [
        divergence_of(real, released, p, sizes)
        for p in itertools.combinations(range(len(sizes)), 2)
    ]
    return {"jsd_columns": float(np.mean(single)), "jsd_pairs": float(np.mean(pairs))}


def divergence_of(
    a: NDArray[np.int64], b: NDArray[np.int64], places: tuple[int, ...], sizes: list[int]
) -> float:
    shape = tuple(sizes[p] for p in places)
    first, second = (
        np.bincount(
            np.ravel_multi_index(tuple(codes[:, p] for p in places), shape),
            minlength=int(np.prod(shape)),
        )
        for codes in (a, b)
    )
    return jensen_shannon_distance(first, second)


if __name__ == "__main__":
    main()
