"""Steers a local language model by one noisy sum of activation differences.

The vector is computed in these steps:

1. The model reads each record after the prompt of a request (`ActivationReader`).
2. The mean for the model's own texts is subtracted.
3. Each layer is divided by the median distance of the model's own texts from their mean.
4. All layers together are clipped to norm 1 and written as integers in units of 1/2^20.
5. The rows of all records are added up, and the sum gets noise.

The steering uses only the direction of each layer, so it needs no number of records.

Guarantee: one discrete Gaussian mechanism of L2 sensitivity 2^20 for one record. The centre and the
scale come from texts of the model. The texts of the steered generator have the id of the charge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sugarbush as sb
from sugarbush.generators import ActivationReader, Generator
from sugarbush.privacy import noisy_sum

ONE = 2**20


@dataclass(frozen=True, kw_only=True)
class Direction:
    """The noisy sum (l * h,) of all records after `layers` (l,), and the public scale (l,)."""

    layers: tuple[int, ...]
    total: sb.Released[NDArray[np.int64]]
    scale: NDArray[np.float32]

    def vectors(self, alpha: float) -> sb.Released[dict[int, NDArray[np.float32]]]:
        """Return a vector of length `alpha` times the scale for each layer."""

        def by_layer(total: NDArray[Any]) -> dict[int, NDArray[np.float32]]:
            rows = scaled(total, self.scale, alpha=alpha)
            return dict(zip(self.layers, rows, strict=True))

        return self.total.map(by_layer)


def steered(
    generator: Generator,
    texts: sb.Private[str],
    own_texts: Sequence[str],
    reader: ActivationReader,
    *,
    layers: Sequence[int],
    alpha: float,
    mu: float,
    session: sb.PrivacySession,
) -> Generator:
    """Return `generator`, steered towards `texts`. Guarantee: mu-GDP for one unit."""
    direction = learn(texts, own_texts, reader, layers=layers, mu=mu, session=session)
    return generator.with_released(steering=direction.vectors(alpha))


def learn(
    texts: sb.Private[str],
    own_texts: Sequence[str],
    reader: ActivationReader,
    *,
    layers: Sequence[int],
    mu: float,
    session: sb.PrivacySession,
) -> Direction:
    """Return the direction from the model's `own_texts`, public or released, to `texts`.

    Guarantee: mu-GDP for one unit. The accounting is exact for discrete noise. Raises
    BudgetExceededError before the draw.
    """
    own = reader.read(own_texts)
    centre = own.mean(axis=0)
    scale = np.median(np.linalg.norm(own - centre, axis=-1), axis=0)
    rows = texts.map_batch(lambda batch: contributions(reader.read(batch), centre, scale))
    total = noisy_sum(
        rows,
        scores=lambda block: [block],
        size=centre.size,
        record_l2_sensitivity=ONE,
        stddev=ONE * session.records_per_unit / mu,
        session=session,
    )
    return Direction(layers=tuple(layers), total=total, scale=scale)


def contributions(
    private: NDArray[np.float32], centre: NDArray[np.float32], scale: NDArray[np.float32]
) -> NDArray[np.int64]:
    """Return one row per record, (n, l * h), of L2 norm at most ONE, rounded towards 0."""
    rows = ((private - centre) / scale[:, None]).astype(np.float64).reshape(len(private), -1)
    rows /= np.sqrt(private.shape[1])
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1.0)
    return np.trunc(rows * ONE).astype(np.int64)


def scaled(
    direction: NDArray[Any], scale: NDArray[np.float32], *, alpha: float
) -> NDArray[np.float32]:
    """Return vectors (l, h) of length `alpha` times `scale` (l,) in the directions (l * h,)."""
    rows = np.asarray(direction, dtype=np.float64).reshape(len(scale), -1)
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return (alpha * scale[:, None] * rows).astype(np.float32)
