"""`sugarbush settings`: every setting, its default and its meaning, as the models declare them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sugarbush.attributes.settings import LabelEndpoint
from sugarbush.errors import ParamsError
from sugarbush.generators.openai.settings import SHARED_BY_ENDPOINTS
from sugarbush.pipeline.settings import FILE, ProjectSettings, default_fields, load_params
from sugarbush.settings import meanings

_SHARED = "as generator.openai"  # a limit of extract_metadata.llm
_WIDTH = 120  # of a table that goes to a file


def show_settings(base: Path, section: str | None, console: Console) -> None:
    """Print all settings, or those of one section. Raises ParamsError for an unknown section.

    A value of the project in `base` is added where it differs from the default.
    """
    defaults = default_fields()
    params = load_params(base / FILE) if (base / FILE).exists() else ProjectSettings()
    values = params.model_dump(mode="json", by_alias=True)
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("setting", no_wrap=True)
    table.add_column("default", overflow="fold", max_width=36)
    table.add_column("meaning", ratio=1)
    for name, meaning, is_section in meanings(params):
        if section is not None and not f"{name}.".startswith(f"{section}."):
            continue
        if is_section:
            table.add_row(Text(name, style="bold"), "", Text(meaning, style="bold"))
            continue
        default, shown = _default_of(name, values, defaults)
        value = _at(values, name)
        here = "" if value == default else f" (here: {_shown(value)})"
        table.add_row(Text(name), Text(shown + here), Text(meaning))
    if not table.rows:
        raise ParamsError(
            f"'{section}' is not a section or a setting. `sugarbush settings` prints all of them"
        )
    if not console.is_terminal:
        console.width = _WIDTH
    console.print(table)


def _default_of(
    name: str, values: dict[str, Any], defaults: dict[str, Any]
) -> tuple[Any, str]:
    """A setting's default, and how it is shown. The section `extract_metadata.llm` has none."""
    section, _, field = name.rpartition(".")
    if section != LabelEndpoint.setting:
        default = _at(defaults, name)
        return default, _shown(default)
    declared = LabelEndpoint.model_fields[field]
    if field in SHARED_BY_ENDPOINTS:
        own = declared.get_default(call_default_factory=True)
        return values["generator"].get("openai", {}).get(field, own), _SHARED
    default = "required" if declared.is_required() else declared.get_default()
    return default, _shown(default)


def _at(fields: dict[str, Any], name: str) -> Any:
    value: Any = fields
    for part in name.split("."):
        value = value[part]
    return value


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
