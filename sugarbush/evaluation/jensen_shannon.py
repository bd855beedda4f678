"""Jensen–Shannon distance of categorical attributes.

What is given is what the field reports: scipy's `jensenshannon`, the *square root* of the
Jensen–Shannon divergence, in nats. It lies between 0 and sqrt(ln 2) = 0.833.
Source: Lin 1991; Endres & Schindelin 2003 (the root is a metric).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import jensenshannon

from sugarbush.errors import InvariantError

MAXIMUM = float(np.sqrt(np.log(2)))


def jensen_shannon_distance(reference: NDArray[Any], synthetic: NDArray[Any]) -> float:
    """The distance of two histograms (k,) over the same values, which need not be normalised.

    A histogram with one value only is as good as any other.
    Raises InvariantError when one is empty, negative or the lengths differ.
    """
    reference, synthetic = np.asarray(reference, float), np.asarray(synthetic, float)
    if reference.shape != synthetic.shape or min(reference.sum(), synthetic.sum()) <= 0:
        raise InvariantError("two histograms over the same values, neither of them empty")
    if min(reference.min(), synthetic.min()) < 0:
        raise InvariantError("a histogram holds no negative count; clip noisy ones first")
    # Rounding can leave a divergence of -1e-17, whose root scipy gives as nan.
    return float(np.nan_to_num(jensenshannon(reference, synthetic), nan=0.0))


def distance_by_attribute(
    reference: NDArray[np.integer[Any]],
    synthetic: NDArray[np.integer[Any]],
    *,
    domain: Mapping[str, int],
) -> dict[str, float]:
    """Attribute name to the distance of its two marginals.

    `reference` (n, a) and `synthetic` (m, a) hold codes, in the order of `domain`, which gives
    each attribute's number of values. The mean over attributes is the field's "mean JSD".
    """
    return {
        name: jensen_shannon_distance(
            np.bincount(reference[:, column], minlength=size),
            np.bincount(synthetic[:, column], minlength=size),
        )
        for column, (name, size) in enumerate(domain.items())
    }
