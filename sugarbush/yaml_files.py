"""Reads YAML in which no key occurs twice, and describes errors of both YAML libraries."""

from __future__ import annotations

import re
from typing import Any

import yaml

_TWICE = re.compile(r'found duplicate key "(.*?)" with value ', re.DOTALL)  # as ruamel.yaml says it


class _Loader(yaml.SafeLoader):
    """Refuses a key that occurs twice. PyYAML would use the last value, and DVC stops."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        seen = set[tuple[str, str]]()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if (key.tag, key.value) in seen:
                    problem = f'found duplicate key "{key.value}" with value '
                    raise yaml.constructor.ConstructorError(
                        problem=problem, problem_mark=key.start_mark
                    )
                seen.add((key.tag, key.value))
        return node


def load_yaml(text: str) -> Any:
    """Load YAML 1.1. Raises YAMLError, also for a key that occurs twice, or ValueError."""
    return yaml.load(text, _Loader)


def yaml_fault(error: Exception) -> str:
    """Describe an error of PyYAML or ruamel.yaml, without a value. The text follows a file's name.

    >>> try:
    ...     load_yaml("epsilon: 1\\nepsilon: 2")
    ... except Exception as error:
    ...     yaml_fault(error)
    ", line 2: the key 'epsilon' occurs twice. Remove one of the two"
    """
    mark = getattr(error, "problem_mark", None)
    where = f", line {mark.line + 1}" if mark else ""
    twice = _TWICE.match(str(getattr(error, "problem", None)))
    if twice is None:
        return f"{where}: is not YAML"
    return f"{where}: the key '{twice[1]}' occurs twice. Remove one of the two"
