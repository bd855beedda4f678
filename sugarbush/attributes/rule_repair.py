"""Changes read labels so that they obey the rules between values of the schema.

Each attribute of a text is read alone, so the labels of a text may break a rule. Of all changes of
one label that leave no broken rule, the most likely one is made. A value that the text itself
contains (a property of a record, a keyword, a zero-shot description) does not change. If no change
helps, the labels stay, and the text is dropped later as `broken_rule`.

Guarantee: post-processing of released texts, with the public schema.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sugarbush.data.drawn_values import broken_categories
from sugarbush.data.schema import Schema

Codes = NDArray[np.int64]
Floats = NDArray[np.float64]

_DOUBT = 0.05  # the probability that a text does not have a value which nothing but a request tells
_UNSEEN = 1e-3  # the probability that a text has a value in place of `other`, which nothing tells


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How sure the codes (n,) of an attribute are.

    `likely` (n, values) are the probabilities of a classifier. If `is_certain`, the texts contain
    the values, except that a reader which `misses` values says `other` where it found nothing.
    Without both, nothing but a request tells the values; `is_open` (n,) are the texts without one.
    If `is_drawn`, their values were drawn, so they change before all others.
    """

    likely: Floats | None = None
    is_certain: bool = False
    misses: bool = False
    is_open: NDArray[np.bool_] | None = None
    is_drawn: bool = False

    @classmethod
    def of(cls, likely: Floats, source: str, *, is_certain: bool) -> Reading:
        return cls(
            likely=None if is_certain else likely,
            is_certain=is_certain,
            misses=is_certain and source != "record",
        )


def obey_rules(
    codes: Codes, confidence: Floats, readings: Sequence[Reading], *, schema: Schema
) -> tuple[Codes, Floats]:
    """Return codes (n, d) with at most one other value in each row that breaks a rule, and their
    confidence (n, d)."""
    if not schema.category_rules:
        return codes, confidence
    changed, confidence = _changed(codes, readings, schema), confidence.copy()
    _fill(changed, schema)
    for place, reading in enumerate(readings):
        rows = np.flatnonzero(changed[:, place] != codes[:, place])
        sure = np.full(len(rows), np.nan)
        if reading.likely is not None:
            sure = reading.likely[rows, changed[rows, place]]
        confidence[rows, place] = sure
    return changed, confidence


def _fill(codes: Codes, schema: Schema) -> None:
    """Give an attribute without a value the only one that a rule allows."""
    columns = dict(zip(schema.names, codes.T, strict=True))
    for rule in schema.category_rules:
        for name, only in rule.then.items():
            if len(only) == 1 and (is_open := columns[name] < 0).any():
                other = min(only) - 1 if min(only) else min(only) + 1
                tried = {**columns, name: np.where(is_open, other, columns[name])}
                columns[name][is_open & rule.broken(tried)] = min(only)


def _changed(codes: Codes, readings: Sequence[Reading], schema: Schema) -> Codes:
    broken = np.flatnonzero(broken_categories(schema, codes))
    names = {name for rule in schema.category_rules for name in rule.names}
    best = np.full(len(broken), -np.inf)
    changed = codes.copy()
    for place, (attribute, reading) in enumerate(zip(schema.attributes, readings, strict=True)):
        if attribute.name not in names or not len(broken):
            continue
        gains = _gains(codes[:, place], reading, size=len(attribute.domain))[broken]
        for value in range(gains.shape[1]):
            tried = codes[broken].copy()
            tried[:, place] = value
            better = (gains[:, value] > best) & ~broken_categories(schema, tried)
            changed[broken[better]] = tried[better]
            best[better] = gains[better, value]
    return changed


def _gains(codes: Codes, reading: Reading, *, size: int) -> Floats:
    """Return the change of the log-probability (n, size) if each value replaces the code; -inf if
    it must not."""
    rows = np.arange(len(codes))
    if reading.likely is not None:
        logs = np.log(np.maximum(reading.likely, 1e-12))
        gains = logs - logs[rows, codes][:, None]
    elif reading.is_certain:
        gains = np.full((len(codes), size), -np.inf)
        if reading.misses:
            gains[codes == size - 1] = np.log(_UNSEEN / size)
    else:
        gains = np.full((len(codes), size), np.log(_DOUBT / size))
        if reading.is_open is not None:
            gains[reading.is_open] = 0.0 if reading.is_drawn else np.log(1 / size)
    gains[codes < 0] = -np.inf
    gains[rows, codes] = -np.inf
    return np.asarray(gains)
