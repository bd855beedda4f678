"""How often an attribute was read off a text as a labelled example says.

For examples that are public: the figures are exact and carry no noise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sugarbush.data.schema import Attribute, Schema


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Share of `texts` labelled examples on which an attribute was read as its label says.

    `low` and `high` bound the share at 95% (Wilson 1927), were the examples drawn at random;
    `commonest` is the share of the most frequent label, which reading has to beat.
    """

    attribute: str
    texts: int
    share: float
    low: float
    high: float
    commonest: float


def agreements(
    schema: Schema, codes: NDArray[np.int64], labels: Mapping[str, Sequence[str | None]]
) -> tuple[Agreement, ...]:
    """One an attribute that has a label on at least one text, in the order of the schema.

    Shapes: `codes` (n, d); each of `labels` n raw values, None where a text has none. A label
    outside the domain says that no value fits, as the bucket does.
    """
    found = []
    for place, attribute in enumerate(schema.attributes):
        given = labels.get(attribute.name, ())
        labelled = np.array([i for i, value in enumerate(given) if value is not None], dtype=int)
        if len(labelled):
            true = np.array([attribute.code(given[i]) for i in labelled])
            found.append(_agreement(attribute, codes[labelled, place], true))
    return tuple(found)


def _agreement(attribute: Attribute, read: NDArray[np.int64], true: NDArray[np.int64]) -> Agreement:
    from scipy.stats import binomtest  # slow to load, and only asked where labels were donated

    hits = int((read == true).sum())
    interval = binomtest(hits, len(true)).proportion_ci(0.95, method="wilson")
    return Agreement(
        attribute=attribute.name,
        texts=len(true),
        share=hits / len(true),
        low=float(interval.low),
        high=float(interval.high),
        commonest=float(np.bincount(true).max() / len(true)),
    )
