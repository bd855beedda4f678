"""Compares attribute values that were read from texts with the labels of the texts.

Use this module only for public examples, because the results have no noise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sugarbush.data.schema import Attribute, Schema


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """The accuracy of one attribute on `texts` labelled examples.

    `share` is the fraction of examples with the right value. `low` and `high` bound the 95%
    confidence interval of `share` (Wilson 1927), for a random sample. `commonest` is the baseline:
    the fraction of examples with the most frequent label.
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
    """Return one `Agreement` per attribute that has a label, in the order of the schema.

    Shapes: `codes` is (n, d). Each sequence in `labels` has n raw values; None means no label. A
    label outside the domain counts as the value `other`.
    """
    results = []
    for column, attribute in enumerate(schema.attributes):
        given = labels.get(attribute.name, ())
        labelled = np.array([i for i, value in enumerate(given) if value is not None], dtype=int)
        if len(labelled):
            true = np.array([attribute.code(given[i]) for i in labelled])
            results.append(_agreement(attribute, codes[labelled, column], true))
    return tuple(results)


def _agreement(attribute: Attribute, read: NDArray[np.int64], true: NDArray[np.int64]) -> Agreement:
    from scipy.stats import binomtest  # slow to import

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
