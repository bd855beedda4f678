"""Settings for tests: the committed ones with a few changed."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import yaml

from sugarbush.pipeline.settings import ProjectSettings, parse_params

ROOT = Path(__file__).parents[1]


def settings(**changes: Any) -> dict[str, Any]:
    """The committed settings; `section__key__key=value` changes one."""
    fields = copy.deepcopy(yaml.safe_load((ROOT / "params.yaml").read_text()))
    for name, value in changes.items():
        *path, last = name.split("__")
        section = fields
        for part in path:
            section = section[part]
        section[last] = value
    return fields


def params(**changes: Any) -> ProjectSettings:
    """The same, parsed."""
    return parse_params(settings(**changes))
