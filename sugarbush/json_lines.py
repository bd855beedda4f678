r"""Splits JSON lines, and loads strict JSON. A line ends at "\n" alone.

`str.splitlines` also splits at U+0085, U+2028 and U+2029. A string in JSON may contain these
characters as they are, so `splitlines` would cut an object in two.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any


def json_lines(content: str) -> Iterator[str]:
    r"""Yield the lines of JSON lines that are not empty, without their ends.

    >>> list(json_lines('{"text":"one\u2028two"}\r\n\n[1]'))
    ['{"text":"one\u2028two"}\r', '[1]']
    """
    return (line for line in content.split("\n") if line.strip())


def read_json_lines(content: str) -> list[Any]:
    """Return the values of JSON lines. Raises ValueError for a line that is not JSON."""
    return [json.loads(line) for line in json_lines(content)]


def load_json(text: str) -> Any:
    """Load JSON. Raises ValueError for NaN, an infinity, and a key that occurs twice.

    >>> load_json('{"epsilon": 2, "epsilon": 1}')
    Traceback (most recent call last):
    ValueError: a key occurs twice
    """
    return json.loads(text, parse_constant=_refuse, object_pairs_hook=_once)


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("a key occurs twice")
    return fields
