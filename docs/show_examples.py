"""Extends mkdocstrings: shows doctests as code, and the signatures of classes of settings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from griffe import (
    Attribute,
    Class,
    Extension,
    Function,
    Module,
    Object,
    Parameter,
    ParameterKind,
    Parameters,
)

_DOCTEST = re.compile(r"^>>> .*(?:\n(?!\n).+)*", re.MULTILINE)
_DEFAULT = re.compile(r"Field\((?:default=)?(?P<default>(?!\w+=).+?)(?:, \w+=.*)?\)", re.DOTALL)


class ShowExamples(Extension):
    """Puts each paragraph that starts with >>> into a code block. The default is a quotation."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = _DOCTEST.sub(r"```pycon\n\g<0>\n```", obj.docstring.value)


class ShowSettings(Extension):
    """Gives each pydantic class the signature that pydantic makes from its fields."""

    def on_package(self, *, pkg: Module, **_: Any) -> None:
        for model in classes(pkg):
            ancestors = [model, *model.mro()]
            if "__init__" in model.members or not any(map(_is_pydantic, ancestors)):
                continue
            fields = {
                name: attribute
                for each in reversed(ancestors)
                for name, attribute in each.attributes.items()
                if "instance-attribute" in attribute.labels
                and not name.startswith("_")
                and name != "model_config"
            }
            signature = Parameters(
                Parameter("self", kind=ParameterKind.positional_or_keyword),
                *(_parameter(name, attribute) for name, attribute in fields.items()),
            )
            model.set_member("__init__", Function("__init__", parameters=signature))


def classes(module: Module) -> Iterator[Class]:
    """Yield the classes of a package, without imported classes."""
    for member in module.members.values():
        if isinstance(member, Class):
            yield member
        elif isinstance(member, Module):
            yield from classes(member)


def _is_pydantic(model: Class) -> bool:
    return any(str(base) == "BaseModel" for base in model.bases)


def _parameter(name: str, field: Attribute) -> Parameter:
    default: Any = field.value
    if str(default).startswith("Field("):
        found = _DEFAULT.fullmatch(str(default))
        default = found["default"] if found else "..."
    return Parameter(
        name, annotation=field.annotation, kind=ParameterKind.keyword_only, default=default
    )
