"""Values told from a text by the similarity of embeddings to the values' descriptions.

A value's place is the mean of its descriptions' embeddings, at length 1. How near a text lies to a
place in general differs from value to value; a calibration evens that out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax

from sugarbush.schema import Attribute

Embed = Callable[[Sequence[str]], NDArray[np.float32]]


# In cosines: how far apart two values must be for the nearer one to be e times as likely, and how
# far an offset may well be from 0.
_TEMPERATURE = 0.05
_SPREAD = 0.05


@dataclass(frozen=True)
class Calibration:
    """What is taken off a text's similarity to each value: `offsets` (k,); 0 where unknown."""

    offsets: tuple[float, ...] = ()


NO_CALIBRATION = Calibration()


def describe(attribute: Attribute, embed: Embed) -> NDArray[np.float64]:
    """The place of every value, `(k, dim)` rows of length 1, in the order of the schema."""
    described = attribute.zero_shot or {}
    places = [
        np.asarray(embed(described[value]), dtype=np.float64).mean(axis=0)
        for value in attribute.values
    ]
    stacked = np.stack(places)
    return np.asarray(stacked / np.linalg.norm(stacked, axis=1, keepdims=True))


def calibrate(similarities: NDArray[np.floating], codes: NDArray[np.integer]) -> Calibration:
    """Offsets that make the labels of donated examples likely; public examples only.

    `similarities` (n, k) are the examples' cosines, `codes` (n,) their labels; those in the bucket
    say nothing of the values and are left out. Minimises the cross-entropy of
    softmax((cosine - offset) / temperature) plus a normal prior on the offsets, so that a value
    that no example shows keeps an offset near 0. Source: Platt 1999, with one offset a value.
    """
    size = similarities.shape[1]
    known = (codes >= 0) & (codes < size)
    if not known.any():
        return NO_CALIBRATION
    cosines, labels = np.asarray(similarities[known], dtype=np.float64), codes[known]

    def loss(offsets: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        logs = log_softmax((cosines - offsets) / _TEMPERATURE, axis=1)
        excess = np.exp(logs)
        excess[np.arange(len(labels)), labels] -= 1
        value = -logs[np.arange(len(labels)), labels].sum() + (offsets**2).sum() / 2 / _SPREAD**2
        return float(value), -excess.sum(axis=0) / _TEMPERATURE + offsets / _SPREAD**2

    found = minimize(loss, np.zeros(size), jac=True, method="L-BFGS-B")
    return Calibration(offsets=tuple(map(float, found.x)))


def nearest_values(
    similarities: NDArray[np.floating], *, calibration: Calibration, abstain: float
) -> NDArray[np.int64]:
    """The most similar value of every text, `(n,)`; the bucket (k) under `abstain`.

    `similarities` (n, k) are cosines; `abstain` is compared with the cosine itself and not with
    what calibration makes of it. Ties go to the value that the schema names first.
    """
    offsets = np.asarray(calibration.offsets or np.zeros(similarities.shape[1]))
    chosen = (similarities - offsets).argmax(axis=1)
    told = similarities[np.arange(len(similarities)), chosen] >= abstain
    return np.asarray(np.where(told, chosen, similarities.shape[1]), dtype=np.int64)
