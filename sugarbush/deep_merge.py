"""Settings laid over settings: sections are merged, lists and values are replaced."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def deep_merge(settings: Any, changes: Mapping[str, Any], place: tuple[str, ...] = ()) -> list[str]:
    """Change `settings` in place; the dotted names of what is new or other than before."""
    changed: list[str] = []
    for key, value in changes.items():
        here = (*place, str(key))
        if isinstance(value, Mapping) and isinstance(settings.get(key), Mapping):
            changed += deep_merge(settings[key], value, here)
        elif key not in settings or settings[key] != value:
            settings[key] = value
            changed.append(".".join(here))
    return changed
