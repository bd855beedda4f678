"""Ranks candidates by their noisy votes, and apportions numbers.

Selection reads only noisy votes and public values, so it is post-processing and costs no budget.
With equal votes and seeds, the survivors are equal.
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


def select_by_rank(votes: Votes, *, count: int, rng: Rng) -> NDArray[np.int64]:
    """Choose the `count` candidates with the most votes. Returns indices, most votes first.

    Candidates with equal votes are in random order, because an order by index would favour earlier
    candidates. Guarantee: post-processing. Raises InvariantError if there are fewer than `count`
    candidates, or if a vote is NaN. Source: Xie et al. 2024, Section 3 ("rank-based selection").

    >>> from sugarbush.randomness import public_rng
    >>> select_by_rank(np.array([3, 9, -1, 5]), count=2, rng=public_rng(1)).tolist()
    [1, 3]
    """
    _check(votes, count)
    return np.lexsort((rng.permutation(len(votes)), -np.asarray(votes)))[:count]


def select_within_label(
    votes: Votes, labels: NDArray[np.int64], *, counts: Mapping[int, int], rng: Rng
) -> NDArray[np.int64]:
    """Choose the `counts[label]` best candidates of every label. Returns indices, by label.

    If a label has fewer candidates, all are chosen. For a label without a count, no candidate is
    chosen. `labels` is (m,). Raises the errors of `select_by_rank`.
    """
    if labels.shape != np.shape(votes):
        raise InvariantError("every candidate needs one label")
    chosen = [np.empty(0, dtype=np.int64)]
    for label, count in sorted(counts.items()):
        indices = np.flatnonzero(labels == label)
        kept = select_by_rank(votes[indices], count=min(count, len(indices)), rng=rng)
        chosen.append(indices[kept])
    return np.concatenate(chosen)


def apportion(weights: Sequence[float] | NDArray[Any], total: int) -> NDArray[np.int64]:
    """Divide `total` in proportion to `weights`, as integers: `(len(weights),)` int64.

    The function uses the largest-remainder method in exact arithmetic. A tie goes to the lowest
    index. A negative weight (a noisy count) is replaced by 0. If no weight is positive, all weights
    are equal. Raises InvariantError if there is no weight, if a weight is not finite, or if `total`
    is negative.

    >>> apportion([6, 3, 1], total=5).tolist()
    [3, 2, 0]
    """
    if not len(weights) or total < 0 or not np.isfinite(np.asarray(weights, dtype=float)).all():
        raise InvariantError("weights must be finite, and total must not be negative")
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
        raise InvariantError("votes must have one number per candidate")
    if not 0 <= count <= len(votes):
        raise InvariantError(f"{count} survivors cannot be chosen from {len(votes)} candidates")
