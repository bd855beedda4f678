"""Loads YAML in which a value is the text that somebody wrote.

YAML reads 01234 as 1234, 1.10 as 1.1, 1_000 as 1000 and 0o17 as 15. A listed value with one of
these forms would match no row.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.constructor import SafeConstructor
from ruamel.yaml.nodes import ScalarNode

_TAGS = ("null", "bool", "int", "float", "timestamp")


class NullInList(ValueError):
    """An empty value or `null` in a list of values. It may be a text or a missing value."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(
            f"an empty value or null (written as {text!r}). Put it in quotation marks if rows have "
            "this text, or remove it"
        )
        self.line = line


class _Scalar:
    """A scalar without quotation marks that YAML reads as another type than text."""

    def __init__(self, node: ScalarNode, value: object) -> None:
        self.text, self.value = str(node.value), value
        self.line = int(node.start_mark.line) + 1


class _Constructor(SafeConstructor):
    """Keeps the text of each scalar beside its value."""


def _construct(constructor: Any, node: ScalarNode) -> _Scalar:
    construct = SafeConstructor.yaml_constructors[node.tag]
    return _Scalar(node, construct(constructor, node))


for _tag in ("value", "merge"):  # `=` and `<<`
    _Constructor.add_constructor(f"tag:yaml.org,2002:{_tag}", SafeConstructor.construct_yaml_str)
for _tag in _TAGS:
    _Constructor.add_constructor(f"tag:yaml.org,2002:{_tag}", _construct)


def load_written(text: str, *, numbers: Collection[str]) -> Any:
    """Load YAML 1.2 with every scalar as the text that is written.

    Below the keys `numbers`, scalars have the types of YAML. null is None, except in a list of
    texts: there it raises NullInList. Raises YAMLError and ValueError for a text that is no YAML.

    >>> load_written("{values: [01234, 1.10, no], bins: [1.10]}", numbers={"bins"})
    {'values': ['01234', '1.10', 'no'], 'bins': [1.1]}
    """
    yaml = YAML(typ="safe", pure=True)
    yaml.Constructor = _Constructor
    return _plain(yaml.load(text), numbers, is_typed=False, in_list=False)


def _plain(found: Any, numbers: Collection[str], *, is_typed: bool, in_list: bool) -> Any:
    if isinstance(found, _Scalar):
        if is_typed or (found.value is None and not in_list):
            return found.value
        if found.value is None:
            raise NullInList(found.line, found.text)
        return found.text
    if isinstance(found, dict):
        return {
            (name := _plain(key, numbers, is_typed=is_typed, in_list=True)): _plain(
                value, numbers, is_typed=is_typed or name in numbers, in_list=False
            )
            for key, value in found.items()
        }
    if isinstance(found, list):
        return [_plain(each, numbers, is_typed=is_typed, in_list=True) for each in found]
    return found
