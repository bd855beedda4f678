"""Values told from a text by the similarity of embeddings to the values' descriptions.

A value's place is the mean of its descriptions' embeddings, at length 1. How near a text lies to a
place in general differs from value to value; a calibration on labelled examples evens that out.
Places and calibration are made from the schema and donated examples, both public.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax

from sugarbush.data.schema import Attribute, Schema

Embed = Callable[[Sequence[str]], NDArray[np.float32]]


# In cosines: how far apart two values must be for the nearer one to be e times as likely, and how
# far an offset may well be from 0.
_TEMPERATURE = 0.05
_SPREAD = 0.05
# Of cross-validation, and the parts of the offsets that it may choose, the smaller first.
_FOLDS = 5
_STRENGTHS = (0.0, 0.5, 1.0)


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
    say nothing of the values and are left out. A few dozen examples may mislead where values are
    hard to tell apart, so offsets are shrunk to the part of them (none, half or all) that names
    most labels in cross-validation, the smaller of equals.
    """
    known = (codes >= 0) & (codes < similarities.shape[1])
    if not known.any():
        return NO_CALIBRATION
    cosines, labels = np.asarray(similarities[known], dtype=np.float64), codes[known]
    hits = dict.fromkeys(_STRENGTHS, 0)
    fold = np.arange(len(labels)) % _FOLDS
    for own in (fold == number for number in range(_FOLDS)):
        offsets = _offsets(cosines[~own], labels[~own])
        for strength in _STRENGTHS:
            told = (cosines[own] - strength * offsets).argmax(axis=1)
            hits[strength] += int((told == labels[own]).sum())
    best = max(_STRENGTHS, key=lambda strength: hits[strength])
    if best == 0:
        return NO_CALIBRATION
    return Calibration(offsets=tuple(map(float, best * _offsets(cosines, labels))))


def _offsets(cosines: NDArray[np.float64], labels: NDArray[np.integer]) -> NDArray[np.float64]:
    """The offsets (k,) with the least cross-entropy of softmax((cosine - offset) / temperature).

    Plus a normal prior, so that a value that no example shows keeps an offset near 0.
    Source: Platt 1999, with one offset a value.
    """

    def loss(offsets: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        logs = log_softmax((cosines - offsets) / _TEMPERATURE, axis=1)
        excess = np.exp(logs)
        excess[np.arange(len(labels)), labels] -= 1
        value = -logs[np.arange(len(labels)), labels].sum() + (offsets**2).sum() / 2 / _SPREAD**2
        return float(value), -excess.sum(axis=0) / _TEMPERATURE + offsets / _SPREAD**2

    found = minimize(loss, np.zeros(cosines.shape[1]), jac=True, method="L-BFGS-B")
    return np.asarray(found.x)


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


@dataclass(frozen=True, kw_only=True)
class ZeroShotReader:
    """How one attribute is read off an embedding: the values' `places` (k, dim), calibrated."""

    places: NDArray[np.float64]
    calibration: Calibration

    def read(self, embedded: NDArray[np.floating], *, abstain: float) -> NDArray[np.int64]:
        """A code a row of `embedded` (n, dim), `(n,)`; each depends on its own row alone."""
        return nearest_values(
            embedded @ self.places.T, calibration=self.calibration, abstain=abstain
        )


def zero_shot_readers(
    schema: Schema, *, embed: Embed, calibrations: Mapping[str, Calibration] | None = None
) -> dict[str, ZeroShotReader]:
    """A reader for each zero_shot attribute. `embed` is given descriptions alone: public text."""
    return {
        attribute.name: ZeroShotReader(
            places=describe(attribute, embed),
            calibration=(calibrations or {}).get(attribute.name, NO_CALIBRATION),
        )
        for attribute in schema.attributes
        if attribute.zero_shot is not None
    }


def calibrate_readers(
    readers: Mapping[str, ZeroShotReader],
    schema: Schema,
    *,
    embedded: NDArray[np.floating],
    labels: Mapping[str, Sequence[object]],
) -> dict[str, ZeroShotReader]:
    """The readers, each calibrated on the examples that carry a label of its attribute.

    `embedded` (n, dim) are donated examples and `labels` their given values by attribute, None
    where an example has none; a label outside the schema's values says nothing and is left out.
    """
    calibrated = dict(readers)
    for name in readers.keys() & labels.keys():
        attribute, reader = schema.attribute(name), readers[name]
        codes = np.array([attribute.code(label) for label in labels[name]], dtype=np.int64)
        found = calibrate(embedded @ reader.places.T, codes)
        calibrated[name] = ZeroShotReader(places=reader.places, calibration=found)
    return calibrated


def read_by_others(
    reader: ZeroShotReader,
    attribute: Attribute,
    embedded: NDArray[np.floating],
    labels: Sequence[object],
    *,
    abstain: float,
) -> NDArray[np.int64]:
    """Codes `(n,)` of labelled examples, each read with a calibration on others' labels alone.

    What calibrated on an example agrees with its label too often to tell how often it does on
    texts without one. In five folds.
    """
    codes = np.array([attribute.code(label) for label in labels], dtype=np.int64)
    fold = np.arange(len(codes)) % _FOLDS
    told = np.empty_like(codes)
    for number in range(_FOLDS):
        own = fold == number
        found = calibrate(embedded[~own] @ reader.places.T, codes[~own])
        held_out = ZeroShotReader(places=reader.places, calibration=found)
        told[own] = held_out.read(embedded[own], abstain=abstain)
    return told
