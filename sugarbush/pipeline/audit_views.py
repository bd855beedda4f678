"""Computes how an attacker reads noisy sums over records, and guesses the coins from all sums
together.

There are two attacks. One expects the noise that is claimed, the other a tenth of it. If records
are much alike, only the second separates them where noise is missing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

EXPECTED = (1.0, 0.1)


@dataclass(frozen=True)
class View:
    """How the attacks read one kind of noisy sum, by the normal approximation of what they do not
    know. The likeliest coins solve sum(precision) x = sum(weights @ deviation from the mean).

    `weights` is (attacks, canaries, size of the sum), `precision` (attacks, canaries, canaries).
    """

    weights: NDArray[np.float64]
    precision: NDArray[np.float64]


def view_of(
    rows: NDArray[np.float64],
    *,
    canaries: int,
    stddev: float,
    rate: float = 1.0,
    spread: NDArray[np.float64] | float = 0.0,
) -> View:
    """The view of sums with noise `stddev`, to which canary i adds `rows[i]`.

    Further rows belong to other unknown quantities. With Poisson samples of `rate`, row i varies by
    `spread[i]` times the variance of a sample.
    """
    products = rows @ rows.T
    sampled, noise = rate * (1 - rate) * products * spread, np.eye(len(rows))
    mixed = np.stack([sampled + (share * stddev) ** 2 * noise for share in EXPECTED])
    inverse = rate * np.linalg.inv(mixed)[:, :canaries]
    return View(weights=inverse @ rows, precision=rate * (inverse @ products)[..., :canaries])


@dataclass(frozen=True)
class Seen:
    """A view, the mean of its sums without canaries, and half of what all canaries would add."""

    view: View
    without: NDArray[np.float64]
    half: NDArray[np.float64]


class Attacker:
    """Guesses coins from everything that a run shows."""

    def __init__(self, canaries: int) -> None:
        self._precision = np.stack([4.0 * np.eye(canaries)] * len(EXPECTED))  # variance 1/4
        self._shift = np.zeros((len(EXPECTED), canaries))

    def add(self, view: View, deviation: NDArray[np.float64]) -> None:
        """Use one noisy sum: its `deviation` (k,) from its mean over coins and samples."""
        self._precision += view.precision
        self._shift += view.weights @ deviation

    @property
    def scores(self) -> NDArray[np.float64]:
        """Return scores (attacks, canaries). A higher score means that the canary was more likely
        included."""
        return np.asarray(np.linalg.solve(self._precision, self._shift[..., None])[..., 0])
