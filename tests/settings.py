"""Settings for tests: the defaults with a few changed, and method maple."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sugarbush.pipeline.settings import ProjectSettings, default_fields, parse_params

ROOT = Path(__file__).parents[1]


def settings(**changes: Any) -> dict[str, Any]:
    """Return all settings, as in a complete params.yaml. The simulator may write for any texts.

    `section__key__key=value` changes one setting.
    """
    fields = default_fields()
    fields["methods"] = ["maple"]  # it has rounds, votes and variations
    fields["generator"]["openai"] |= {"model": "my-model"}
    fields["generator"]["huggingface"] |= {"model": "gpt2"}
    fields["generator"]["simulator"] |= {"any_texts": True}  # it is quick, and needs no model
    for name, value in changes.items():
        *path, last = name.split("__")
        section = fields
        for part in path:
            section = section[part]
        section[last] = value
    return fields


def params(**changes: Any) -> ProjectSettings:
    """Parse the settings that `settings` returns."""
    return parse_params(settings(**changes))
