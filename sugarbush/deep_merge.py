"""Merges settings into other settings. Sections are merged; lists and values are replaced."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def deep_merge(
    settings: Any,
    changes: Mapping[str, Any],
    *,
    defaults: Mapping[str, Any] | None = None,
    prefix: tuple[str, ...] = (),
) -> list[str]:
    """Change `settings` in place, and return the dotted names of the changed settings.

    A missing setting stays missing if the new value is its value in `defaults`.
    """
    changed: list[str] = []
    for key, value in changes.items():
        here, default = (*prefix, str(key)), (defaults or {}).get(key, ...)
        if isinstance(value, Mapping) and (value or isinstance(settings.get(key), Mapping)):
            section = settings.get(key)
            new = section if isinstance(section, Mapping) else {}
            names = deep_merge(
                new, value, defaults=default if isinstance(default, Mapping) else None, prefix=here
            )
            if names and new is not section:
                _set(settings, key, new, first=bool(prefix))
            changed += names
        elif settings[key] != value if key in settings else default is ... or default != value:
            _set(settings, key, value, first=bool(prefix))
            changed.append(".".join(here))
    return changed


def _set(settings: Any, key: str, value: Any, *, first: bool) -> None:
    """Set a value. With `first`, insert a new setting at the beginning of its section.

    ruamel.yaml attaches the comment after a section to the section's last setting. An appended
    setting would come after this comment.
    """
    if first and key not in settings and hasattr(settings, "insert"):
        settings.insert(0, key, value)
    else:
        settings[key] = value
