"""Attacks noisy sums: estimates from all sums of a run which canaries were included.

The first attack assumes the claimed noise. The second attack assumes a tenth of this noise. If a
fault leaves out the noise, only the second attack can distinguish records that are nearly equal.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

EXPECTED = (1.0, 0.1)


@dataclass(frozen=True)
class View:
    """The linear estimates of both attacks for one kind of noisy sum. The attacks assume that all
    unknown quantities are normally distributed.

    The most likely coins x solve P x = q. P is the sum of `precision` over all noisy sums. q is the
    sum of `weights @ (noisy sum - mean)`. Shapes: `weights` (attacks, canaries, size of a noisy
    sum), `precision` (attacks, canaries, canaries).
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
    """Compute the view of sums with noise `stddev`. Canary i adds `rows[i]` to a sum. The rows
    after the canaries belong to other unknown quantities. With Poisson samples of `rate`, the
    coefficient of row i in a sum has variance `spread[i] * rate * (1 - rate)`."""
    products = rows @ rows.T
    sampled, noise = rate * (1 - rate) * products * spread, np.eye(len(rows))
    mixed = np.stack([sampled + (share * stddev) ** 2 * noise for share in EXPECTED])
    inverse = rate * np.linalg.inv(mixed)[:, :canaries]
    return View(weights=inverse @ rows, precision=rate * (inverse @ products)[..., :canaries])


@dataclass(frozen=True)
class Seen:
    """A view, with parts of the mean of its sums. `without` is the mean without canaries. `half` is
    half of the sum over all canaries, because a coin includes each canary with probability 1/2."""

    view: View
    without: NDArray[np.float64]
    half: NDArray[np.float64]


class Attacker:
    """Estimates from all noisy sums of a run which canaries were included."""

    def __init__(self, canaries: int) -> None:
        self._precision = np.stack(
            [4.0 * np.eye(canaries)] * len(EXPECTED)
        )  # the variance of a coin is 1/4
        self._shift = np.zeros((len(EXPECTED), canaries))

    def add(self, view: View, deviation: NDArray[np.float64]) -> None:
        """Add one noisy sum. `deviation` (k,) is the sum minus its mean over coins and samples."""
        self._precision += view.precision
        self._shift += view.weights @ deviation

    @property
    def scores(self) -> NDArray[np.float64]:
        """Scores (attacks, canaries). With a higher score, a canary was more likely included."""
        return np.asarray(np.linalg.solve(self._precision, self._shift[..., None])[..., 0])
