"""Values told from a text by the similarity of embeddings to the values' descriptions.

A value's place is the mean of its descriptions' embeddings, at length 1. How near a text lies to a
place in general differs from value to value; a calibration evens that out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sugarbush.schema import Attribute

Embed = Callable[[Sequence[str]], NDArray[np.float32]]


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
