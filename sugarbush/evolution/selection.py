"""Survivors of a round: post-processing of noisy votes, so it costs no privacy.

Every function here reads noisy votes and public values only. Random choices use the given public
generator: equal votes and an equal generator give equal survivors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sugarbush.errors import InvariantError
from sugarbush.randomness import Rng

Votes = NDArray[np.int64] | NDArray[np.float64]


def threshold(votes: Votes, *, stddev: float, multiple: float) -> NDArray[np.float64]:
    """max(votes - H, 0) with H = multiple * stddev: `(m,)` float64.

    `stddev` is the standard deviation of the noise, in votes. H = 0 removes only negative votes,
    which are noise. Source: Lin et al. 2024, "Differentially Private Synthetic Data via Foundation
    Model APIs 1: Images", Algorithm 2; Xie et al. 2024, Algorithm 2.
    """
    return np.maximum(np.asarray(votes, dtype=np.float64) - multiple * stddev, 0.0)


def select_by_rank(votes: Votes, *, count: int, rng: Rng) -> NDArray[np.int64]:
    """Indices of the `count` candidates with the most votes, `(count,)` int64, most votes first.

    Candidates with equal votes are ordered by `rng`. An order by index would favour earlier
    candidates, and after a threshold many votes are equal. Guarantee: post-processing. Raises
    InvariantError when there are fewer than `count` candidates, or a vote is NaN. Source: Xie et
    al. 2024, Section 3 ("rank-based selection").

    >>> from sugarbush.randomness import public_rng
    >>> select_by_rank(np.array([3, 9, -1, 5]), count=2, rng=public_rng(1)).tolist()
    [1, 3]
    """
    _check(votes, count)
    return np.lexsort((rng.permutation(len(votes)), -np.asarray(votes)))[:count]


def select_within_label(
    votes: Votes,
    labels: NDArray[np.int64],
    *,
    counts: Mapping[int, int],
    rng: Rng,
) -> NDArray[np.int64]:
    """Indices of the `counts[label]` best of every label, label by label in increasing order.

    A label with fewer candidates than its count keeps all of them; one without a count keeps none.
    `labels` is (m,). Raises InvariantError as `select_by_rank` does.
    """
    if labels.shape != np.shape(votes):
        raise InvariantError("every candidate needs one label")
    chosen = [np.empty(0, dtype=np.int64)]
    for label, count in sorted(counts.items()):
        places = np.flatnonzero(labels == label)
        kept = select_by_rank(votes[places], count=min(count, len(places)), rng=rng)
        chosen.append(places[kept])
    return np.concatenate(chosen)


def apportion(weights: Sequence[float] | NDArray[Any], total: int) -> NDArray[np.int64]:
    """`total` seats divided in proportion to `weights`: `(len(weights),)` int64 with the sum
    `total`.

    The largest-remainder method in exact arithmetic; among equal remainders the lowest index wins.
    Negative weights (noisy counts) get no seat. If no weight is positive, all are equal. Raises
    InvariantError when there is no weight, one is not finite, or `total` is negative.

    >>> apportion([6, 3, 1], total=5).tolist()
    [3, 2, 0]
    """
    if not len(weights) or total < 0 or not np.isfinite(np.asarray(weights, dtype=float)).all():
        raise InvariantError("weights must be finite, and the number of seats not negative")
    shares = [max(Fraction(float(weight)), Fraction(0)) for weight in weights]
    if not any(shares):
        shares = [Fraction(1)] * len(shares)
    quotas = [total * share / sum(shares) for share in shares]
    seats = np.array([int(quota) for quota in quotas], dtype=np.int64)
    by_remainder = sorted(range(len(quotas)), key=lambda i: (int(quotas[i]) - quotas[i], i))
    seats[by_remainder[: total - int(seats.sum())]] += 1
    return seats


def _check(votes: Votes, count: int) -> None:
    if votes.ndim != 1 or np.isnan(votes).any():
        raise InvariantError("votes need one number per candidate")
    if not 0 <= count <= len(votes):
        raise InvariantError(f"{count} survivors of {len(votes)} candidates cannot be chosen")
