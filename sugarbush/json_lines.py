r"""Splits JSON lines. A line ends at "\n" alone.

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
