"""Estimates a proportion from independent cases, with exact confidence bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import betaincinv


@dataclass(frozen=True, kw_only=True)
class BoundedShare:
    """`count` cases of `total`, with one-sided confidence bounds on the proportion."""

    count: int
    total: int
    lower: float
    upper: float

    @property
    def value(self) -> float:
        """`count` / `total`. Raises ZeroDivisionError if there are no cases."""
        return self.count / self.total


def share(cases: Sequence[bool], *, confidence: float) -> BoundedShare:
    """Return the proportion of true `cases` with exact bounds (Clopper and Pearson 1934).

    Without cases, the bounds are 0 and 1.
    """
    count, total = sum(cases), len(cases)
    lower = float(betaincinv(count, total - count + 1, 1 - confidence)) if count else 0.0
    upper = float(betaincinv(count + 1, total - count, confidence)) if count < total else 1.0
    return BoundedShare(count=count, total=total, lower=lower, upper=upper)
