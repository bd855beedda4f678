"""Jensen–Shannon distance of categorical attributes.

The distance is the *square root* of the Jensen–Shannon divergence in nats, as scipy's
`jensenshannon` computes it. The distance is between 0 and sqrt(ln 2) = 0.833. Source: Lin 1991;
Endres & Schindelin 2003 (the root is a metric).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import jensenshannon

from sugarbush.errors import InvariantError
from sugarbush.evaluation.bootstrap import ResampledRows
from sugarbush.evaluation.interface import (
    ATTRIBUTE,
    MEAN,
    Metric,
    MetricSettings,
    MetricValue,
    Sample,
    distance_value,
)

MAXIMUM = float(np.sqrt(np.log(2)))


def jensen_shannon_distance(reference: NDArray[Any], synthetic: NDArray[Any]) -> float:
    """Compute the distance between two histograms (k,) of the same values, normalised or not.

    Raises InvariantError if a sum is 0, a count is negative, or the lengths differ.
    """
    reference, synthetic = np.asarray(reference, float), np.asarray(synthetic, float)
    if reference.shape != synthetic.shape or min(reference.sum(), synthetic.sum()) <= 0:
        raise InvariantError("the distance needs two non-empty histograms of the same values")
    if min(reference.min(), synthetic.min()) < 0:
        raise InvariantError("a histogram has a negative count. Clip noisy counts to 0 first")
    # Rounding can give a divergence of -1e-17, and scipy then returns nan.
    return float(np.nan_to_num(jensenshannon(reference, synthetic), nan=0.0))


def distance_by_attribute(
    reference: NDArray[np.integer[Any]],
    synthetic: NDArray[np.integer[Any]],
    *,
    domain: Mapping[str, int],
) -> dict[str, float]:
    """Return the distance between the marginals of two tables, for each attribute.

    `reference` (n, a) and `synthetic` (m, a) are codes. `domain` gives the number of values of each
    attribute, in the order of the columns. Papers call the mean over attributes "mean JSD".
    """
    return {
        name: jensen_shannon_distance(
            np.bincount(reference[:, column], minlength=size),
            np.bincount(synthetic[:, column], minlength=size),
        )
        for column, (name, size) in enumerate(domain.items())
    }


def _measure(heldout: Sample, synthetic: Sample, settings: MetricSettings) -> Iterator[MetricValue]:
    if not settings.domain:
        return
    domain = settings.domain
    for metric, names in ((MEAN, list(domain)), *((name, [name]) for name in domain)):

        def distance(p: ResampledRows, q: ResampledRows, names: list[str] = names) -> float:
            distances = distance_by_attribute(heldout.codes[p], synthetic.codes[q], domain=domain)
            return float(np.mean([distances[name] for name in names]))

        yield distance_value(
            metric, ATTRIBUTE, distance, (heldout, synthetic), settings, most=MAXIMUM
        )


METRIC = Metric(name="jensen_shannon", measure=_measure)
