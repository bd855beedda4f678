"""Changing params.yaml in place, the way `dvc exp run -S` does, with its comments kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from sugarbush.errors import ParamsError
from sugarbush.params import FILE, parse_params
from sugarbush.paths import whole_file


def change_settings(
    base: Path, *, overlay: Path | None = None, assignments: Sequence[str] = ()
) -> tuple[str, ...]:
    """Write the settings of an overlay file and of `key=value` assignments into params.yaml.

    Returns one line a changed setting. Nothing is written unless the result is valid.
    """
    path = base / FILE
    if not path.is_file():
        raise ParamsError(f"{path}: not found; run in the folder that holds it")
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 120
    settings = _loaded(yaml, path)
    changed: list[str] = []
    if overlay is not None:
        if not overlay.is_file():
            raise ParamsError(f"{overlay}: not found (--settings)")
        _merge(settings, _loaded(yaml, overlay), (), changed)
    for assignment in assignments:
        name, mark, value = assignment.partition("=")
        if not mark:
            raise ParamsError(f"-S {assignment}: expected key=value")
        parsed = _parsed(yaml, value)
        for part in reversed(name.strip().split(".")):
            parsed = {part: parsed}
        _merge(settings, parsed, (), changed)
    if not changed:
        return ()
    text = StringIO()
    yaml.dump(settings, text)
    parse_params(YAML(typ="safe").load(text.getvalue()), source=FILE)
    with whole_file(path) as temporary:
        temporary.write_text(text.getvalue(), encoding="utf-8")
    return tuple(changed)


def _loaded(yaml: YAML, path: Path) -> Any:
    try:
        loaded = yaml.load(path.read_text(encoding="utf-8"))
    except (YAMLError, UnicodeDecodeError):
        raise ParamsError(f"{path}: is not YAML") from None
    if not isinstance(loaded, dict):
        raise ParamsError(f"{path}: expected sections, such as 'privacy:'")
    return loaded


def _parsed(yaml: YAML, value: str) -> Any:
    try:
        return yaml.load(value)
    except YAMLError:
        raise ParamsError(f"-S …={value}: is not YAML") from None


def _merge(
    settings: Any, changes: Mapping[str, Any], place: tuple[str, ...], changed: list[str]
) -> None:
    """Sections are merged; lists and values are replaced."""
    for key, value in changes.items():
        here = (*place, str(key))
        if isinstance(value, Mapping) and isinstance(settings.get(key), Mapping):
            _merge(settings[key], value, here, changed)
        elif key not in settings or settings[key] != value:
            settings[key] = value
            changed.append(".".join(here))
