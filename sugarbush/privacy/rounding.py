"""Finds stored results whose noise another CPU computed, and rounded differently.

The noise of a plan is part of a cache key. With AVX-512, numpy computes exp with other roundings,
which changes the noise by a relative 1e-12, and so the digest of the key. Without this module, a
state folder that moves to another machine would be charged again. The ledger records the noise of
every charge with all digits. So the keys with the noise of earlier charges are tried, too.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice, product
from pathlib import Path
from typing import Any

_ROUNDING = 1e-9  # relative
_MIN_SQUARE, _MAX_SQUARE = 0.5, 1e12  # of mu times noise, which is the square root of an integer
_KEYS = 1000
_ULPS = 2


def charged_numbers(state: Path) -> frozenset[float]:
    """Return every float in the events of all ledgers. A damaged line is left out.

    The ledger reports damage itself, before it charges.
    """
    found: set[float] = set()
    for path in (state / "ledgers").rglob("*.jsonl"):
        with suppress(OSError, UnicodeDecodeError):
            for line in path.read_text(encoding="utf-8").splitlines():
                with suppress(ValueError, AttributeError):
                    found.update(_floats(json.loads(line).get("event")))
    return frozenset(found)


def keys_rounded_otherwise(
    key: Mapping[str, Any], charged: frozenset[float]
) -> Iterator[dict[str, Any]]:
    """Yield `key` with floats replaced by charged values that are equal up to rounding.

    The key itself is the first. At most 1,000 keys are tried. A usual key has fewer than 50.
    """
    fields = json.loads(json.dumps(key))
    own = {value: (value, *as_charged(value, charged)) for value in _floats(fields)}
    changing = [value for value, others in own.items() if len(others) > 1]
    for chosen in islice(product(*(own[value] for value in changing)), _KEYS):
        yield _replaced(fields, dict(zip(changing, chosen, strict=True)))


def as_charged(value: float, charged: frozenset[float]) -> Iterator[float]:
    """Yield the other roundings of `value`, a mu or a noise, that earlier charges can have.

    A charge records mu, or a noise sigma = sqrt(n) / mu with an integer n, whose sensitivity and
    count are not known here.
    """
    if not (math.isfinite(value) and value > 0):
        return
    for other in sorted(number for number in charged if number > 0):
        if math.isclose(value, other, rel_tol=_ROUNDING):
            yield other
        if _MIN_SQUARE < (squared := value * other * value * other) < _MAX_SQUARE:
            n = round(squared)
            if math.isclose(squared, n, rel_tol=_ROUNDING):
                low = high = math.sqrt(n) / other
                yield low
                for _ in range(_ULPS):
                    low, high = math.nextafter(low, 0), math.nextafter(high, math.inf)
                    yield from (low, high)


def _floats(value: Any) -> Iterator[float]:
    if isinstance(value, float):
        yield value
    elif isinstance(value, dict):
        for own in value.values():
            yield from _floats(own)
    elif isinstance(value, list):
        for own in value:
            yield from _floats(own)


def _replaced(value: Any, floats: Mapping[float, float]) -> Any:
    if isinstance(value, float):
        return floats.get(value, value)
    if isinstance(value, dict):
        return {name: _replaced(own, floats) for name, own in value.items()}
    return [_replaced(own, floats) for own in value] if isinstance(value, list) else value
