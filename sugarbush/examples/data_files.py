"""Reads word lists and sentences from the YAML files beside the code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

# The parser in C is ten times faster, but a few builds of PyYAML lack this parser.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def load_yaml(path: Path) -> Any:
    """Return the content of a YAML file."""
    return yaml.load(path.read_bytes(), Loader=_Loader)


def items(text: str) -> tuple[str, ...]:
    """Split a text at its semicolons."""
    return tuple(item.strip() for item in text.split(";"))


def words(text: str) -> tuple[str, ...]:
    """Split a text into words."""
    return tuple(text.split())


def lines(text: str | list[str]) -> tuple[str, ...]:
    """Split a text into lines. YAML needs a list for a rule with an empty line."""
    return tuple(text.splitlines() if isinstance(text, str) else text)
