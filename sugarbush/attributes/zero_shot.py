"""Chooses the attribute value that is nearest to a text in embedding space.

The centre of a value is the mean embedding of its descriptions, scaled to length 1. Some centres
are near to all texts, so their values would be chosen too often. A calibration on labelled examples
corrects this bias. Centres and calibration depend only on the schema and the donated examples,
which are public.

A code depends only on the embedding of its own text, bit for bit. The module avoids matrix
products, because the last bits of a product depend on the number of rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sugarbush.data.schema import Attribute, Schema
from sugarbush.generators.interface import Embed

_TEMPERATURE = 0.05  # divides the cosines before the softmax
_SPREAD = 0.05  # standard deviation of the prior of an offset, in cosine
_FOLDS = 5  # folds of cross-validation
_STRENGTHS = (0.0, 0.5, 1.0)  # factors of the offsets, for cross-validation
_BLOCK_ROWS = 1024

# An offset is subtracted from the cosine to a value. Without calibration, the tuple is empty.
Offsets = tuple[float, ...]


def description_vectors(attribute: Attribute, embed: Embed) -> NDArray[np.float64]:
    """Compute the centres of the values: `(k, dim)`, rows of length 1, in schema order."""
    described = attribute.zero_shot or {}
    centres = [
        np.asarray(embed(described[value]), dtype=np.float64).mean(axis=0)
        for value in attribute.values
    ]
    stacked = np.stack(centres)
    return np.asarray(stacked / np.linalg.norm(stacked, axis=1, keepdims=True))


def similarities_of(
    embedded: NDArray[np.floating], centres: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Compute the cosine between every text and every centre, `(n, k)` float64.

    Guarantee: row i depends on `embedded[i]` alone, bit for bit. Each cosine is a separate float64
    sum, with an order of terms that depends only on `dim`. Shapes: `embedded` (n, dim), `centres`
    (k, dim).
    """
    similarities = np.empty((len(embedded), len(centres)))
    for start in range(0, len(embedded), _BLOCK_ROWS):
        block = np.ascontiguousarray(embedded[start : start + _BLOCK_ROWS], dtype=np.float64)
        for value, centre in enumerate(centres):
            similarities[start : start + len(block), value] = (block * centre).sum(axis=1)
    return similarities


def calibrate(similarities: NDArray[np.floating], codes: NDArray[np.integer]) -> Offsets:
    """Fit offsets that make the labels of public examples likely.

    `similarities` (n, k) contains the examples' cosines, and `codes` (n,) their labels. Examples
    with the label `other` are ignored. Few examples give inaccurate offsets, so all offsets are
    multiplied by 0, 0.5 or 1. Cross-validation chooses the factor with the most correct labels. A
    tie goes to the smallest factor.
    """
    is_listed = (codes >= 0) & (codes < similarities.shape[1])
    if not is_listed.any():
        return ()
    cosines, labels = np.asarray(similarities[is_listed], dtype=np.float64), codes[is_listed]
    hits = dict.fromkeys(_STRENGTHS, 0)
    fold = np.arange(len(labels)) % _FOLDS
    for in_fold in (fold == number for number in range(_FOLDS)):
        offsets = _offsets(cosines[~in_fold], labels[~in_fold])
        for strength in _STRENGTHS:
            predictions = (cosines[in_fold] - strength * offsets).argmax(axis=1)
            hits[strength] += int((predictions == labels[in_fold]).sum())
    best = max(_STRENGTHS, key=lambda strength: hits[strength])
    if best == 0:
        return ()
    return tuple(map(float, best * _offsets(cosines, labels)))


def _offsets(cosines: NDArray[np.float64], labels: NDArray[np.integer]) -> NDArray[np.float64]:
    """Fit offsets (k,) by the cross-entropy of softmax((cosines - offsets) / temperature).

    A normal prior keeps the offset of a value without examples near 0. Source: Platt 1999, with one
    offset per value.
    """
    from scipy.optimize import minimize  # slow to import
    from scipy.special import log_softmax

    def loss(offsets: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        logs = log_softmax((cosines - offsets) / _TEMPERATURE, axis=1)
        excess = np.exp(logs)
        excess[np.arange(len(labels)), labels] -= 1
        value = -logs[np.arange(len(labels)), labels].sum() + (offsets**2).sum() / 2 / _SPREAD**2
        return float(value), -excess.sum(axis=0) / _TEMPERATURE + offsets / _SPREAD**2

    optimum = minimize(loss, np.zeros(cosines.shape[1]), jac=True, method="L-BFGS-B")
    return np.asarray(optimum.x)


def nearest_values(
    similarities: NDArray[np.floating], *, offsets: Offsets, abstain: float
) -> NDArray[np.int64]:
    """Return the code of the most similar value for each text, after calibration: `(n,)`.

    `similarities` (n, k) contains cosines before calibration. If the cosine to the chosen value is
    below `abstain`, the code is k, which means `other`. A tie goes to the first value in the
    schema.
    """
    chosen = (similarities - np.asarray(offsets or 0.0)).argmax(axis=1)
    near = similarities[np.arange(len(similarities)), chosen] >= abstain
    return np.asarray(np.where(near, chosen, similarities.shape[1]), dtype=np.int64)


@dataclass(frozen=True, kw_only=True)
class ZeroShotReader:
    """Reads one attribute from embeddings. `centres` (k, dim) are the centres of the values."""

    centres: NDArray[np.float64]
    offsets: Offsets

    def read(self, embedded: NDArray[np.floating], *, abstain: float) -> NDArray[np.int64]:
        """Return a code for each row of `embedded` (n, dim): `(n,)`.

        Guarantee: code i depends on row i alone, bit for bit.
        """
        similarities = similarities_of(embedded, self.centres)
        return nearest_values(similarities, offsets=self.offsets, abstain=abstain)


def zero_shot_readers(
    schema: Schema, *, embed: Embed, offsets: Mapping[str, Offsets] | None = None
) -> dict[str, ZeroShotReader]:
    """Make a reader for each zero_shot attribute. `embed` receives public descriptions only."""
    return {
        attribute.name: ZeroShotReader(
            centres=description_vectors(attribute, embed),
            offsets=(offsets or {}).get(attribute.name, ()),
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
    """Calibrate each reader on the donated examples with a label of the reader's attribute.

    `embedded` (n, dim) contains the embeddings of the examples. `labels` maps an attribute to n
    labels; None means no label. Labels outside the schema are ignored.
    """
    calibrated = dict(readers)
    for name in readers.keys() & labels.keys():
        attribute, reader = schema.attribute(name), readers[name]
        codes = np.array([attribute.code(label) for label in labels[name]], dtype=np.int64)
        offsets = calibrate(embedded @ reader.centres.T, codes)
        calibrated[name] = replace(reader, offsets=offsets)
    return calibrated


def read_by_others(
    reader: ZeroShotReader,
    attribute: Attribute,
    embedded: NDArray[np.floating],
    labels: Sequence[object],
    *,
    abstain: float,
) -> NDArray[np.int64]:
    """Read the codes `(n,)` of labelled examples by cross-validation with five folds.

    A calibration with the example's own label would overstate the accuracy.
    """
    codes = np.array([attribute.code(label) for label in labels], dtype=np.int64)
    fold = np.arange(len(codes)) % _FOLDS
    read = np.empty_like(codes)
    for number in range(_FOLDS):
        in_fold = fold == number
        offsets = calibrate(embedded[~in_fold] @ reader.centres.T, codes[~in_fold])
        read[in_fold] = replace(reader, offsets=offsets).read(embedded[in_fold], abstain=abstain)
    return read
