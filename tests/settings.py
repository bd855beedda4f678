"""Settings of tests: the defaults with a few changed, and method maple."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from sugarbush.methods.interface import Method
from sugarbush.run.settings import ProjectSettings, default_fields, parse_params

ROOT = Path(__file__).parents[1]
M = TypeVar("M", bound=Method)


def settings(**changes: Any) -> dict[str, Any]:
    """Return all settings, as in a complete params.yaml. The simulator may write for any texts.

    `section__key__key=value` changes one setting. `methods` is a list of methods with their
    defaults, or a mapping as in params.yaml.
    """
    fields = default_fields()
    chosen = changes.pop("methods", ["maple"])  # it has rounds, votes and variations
    if isinstance(chosen, list | tuple) and chosen:
        chosen = {name: fields["methods"].get(name, {}) for name in chosen}
    fields["methods"] = chosen
    fields["generator"]["openai"] |= {"model": "my-model"}
    fields["generator"]["huggingface"] |= {"model": "gpt2"}
    fields["generator"]["simulator"] |= {"any_texts": True}  # it is quick, and needs no model
    fields["evaluate"]["public"] = False  # tests of figures set it
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


def method_in(params: ProjectSettings, kind: type[M]) -> M:
    """Return the method of a class in the settings."""
    found = params.method(kind.name)
    assert isinstance(found, kind)
    return found
