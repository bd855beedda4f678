"""`sugarbush settings`: shows every setting, its default and its meaning.

python -m sugarbush.cli.settings_table > docs/reference/settings.md
"""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sugarbush.attributes.settings import LabelEndpoint
from sugarbush.deep_merge import deep_merge
from sugarbush.errors import ParamsError
from sugarbush.generators.openai.endpoint_settings import SHARED_BY_ENDPOINTS
from sugarbush.methods.settings import MethodsSection
from sugarbush.run.settings import (
    FILE,
    ProjectSettings,
    complete_fields,
    load_params,
    parse_params,
    value_at,
)
from sugarbush.settings import meanings

# shown as default of a limit that extract_metadata.llm takes from generator.openai
_SHARED = "as generator.openai"
_PAGE = """\
# Settings

This page lists all settings of `params.yaml`, by section. `sugarbush settings` prints the values of
your project. An unknown key is an error. `python -m sugarbush.cli.settings_table` writes this page.
"""
_HEAD = "| setting | default | meaning |\n|---|---|---|"
_WIDTH = 120  # width of the table in a file, in characters


def show_settings(base: Path, section: str | None, console: Console) -> None:
    """Print all settings, or one section. Raises ParamsError for an unknown section. The table
    contains the settings of every installed generator and method. If the project's own value
    differs from the default, the table contains both."""
    defaults = complete_fields(_endpoint_for_labels())
    complete, chosen = copy.deepcopy(defaults), ProjectSettings().chosen
    if (base / FILE).exists():
        chosen = load_params(base / FILE).chosen  # errors name the file
        deep_merge(complete, yaml.safe_load((base / FILE).read_text(encoding="utf-8")))
    params = _with_all_methods(complete)
    values = params.model_dump(mode="json", by_alias=True, warnings=False)  # `required`
    values["methods"] |= {method.name: method.model_dump(mode="json") for method in chosen}
    chosen_names = {f"methods.{method.name}" for method in chosen}
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("setting", no_wrap=True)
    table.add_column("default", overflow="fold", max_width=36)
    table.add_column("meaning", ratio=1)
    for name, meaning, is_section in meanings(params):
        if section is not None and not f"{name}.".startswith(f"{section}."):
            continue
        if is_section:
            mark = "chosen" if name in chosen_names else ""
            table.add_row(Text(name, style="bold"), mark, Text(meaning, style="bold"))
            continue
        default, default_text = _default_of(name, defaults, values)
        value = value_at(values, name)
        here = "" if value == default else f" (here: {_as_text(value)})"
        table.add_row(Text(name), Text(default_text + here), Text(meaning))
    if not table.rows:
        raise ParamsError(
            f"'{section}' is not a section or a setting. `sugarbush settings` prints all of them"
        )
    if not console.is_terminal:
        console.width = _WIDTH
    console.print(table)


def settings_page() -> str:
    """Return docs/reference/settings.md: a table for each section, with the defaults."""
    defaults = complete_fields(_endpoint_for_labels())
    params = _with_all_methods(copy.deepcopy(defaults))
    values = params.model_dump(mode="json", by_alias=True, warnings=False)
    lines = [_PAGE]
    for name, meaning, is_section in meanings(params):
        if is_section:
            lines += [f"\n## {name}\n", f"{_escaped(meaning)}\n", _HEAD]
            continue
        _, text = _default_of(name, defaults, values)
        lines.append(f"| `{name}` | {_code(text)} | {_escaped(meaning)} |")
    page = "\n".join(lines) + "\n"
    return re.sub(r"\n{3,}", "\n\n", page.replace(f"{_HEAD}\n\n", "\n"))


def _default_of(name: str, defaults: dict[str, Any], values: dict[str, Any]) -> tuple[Any, str]:
    """Return the default of a setting, and its text."""
    try:
        default = value_at(defaults, name)
        return default, _as_text(default)
    except KeyError:
        return value_at(values, f"generator.openai.{name.rpartition('.')[2]}"), _SHARED


def _with_all_methods(fields: dict[str, Any]) -> ProjectSettings:
    """Return the settings with the section of every installed method."""
    methods = MethodsSection.for_display(fields.pop("methods"))
    return parse_params(fields).model_copy(update={"methods": methods})


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def _code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|") if text else ""


def _endpoint_for_labels() -> dict[str, Any]:
    """Return the section extract_metadata.llm, without the limits that it shares with
    generator.openai. Only some projects have this section."""
    endpoint = LabelEndpoint(model="required").model_dump(mode="json")
    fields = {name: value for name, value in endpoint.items() if name not in SHARED_BY_ENDPOINTS}
    return {"extract_metadata": {"llm": fields}}


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


if __name__ == "__main__":
    print(settings_page(), end="")
