"""Parses the section `methods` of the settings."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, ConfigDict, model_validator

from sugarbush.errors import ParamsError
from sugarbush.methods import method_class
from sugarbush.methods.interface import Method
from sugarbush.registry import METHODS, plugin_names
from sugarbush.settings import Section, parse_sections


class MethodsSection(Section):
    """The methods to run, each with its settings. A method without settings is written `maple: {}`.

    A method's section is parsed by the class that registers the method. Only chosen methods are
    imported.

    >>> MethodsSection.model_validate({"maple": {"rounds": 3}, "public": {}}).by_name["maple"].name
    'maple'
    """

    model_config = ConfigDict(extra="allow")

    @classmethod
    def of(cls, *names: str) -> Self:
        """Return the methods `names` with their defaults."""
        return cls.model_validate({name: {} for name in names})

    @classmethod
    def for_display(cls, sections: Mapping[str, Mapping[str, Any]]) -> MethodsSection:
        """Return methods whose settings may be the word `required`, for a table of settings."""
        methods: dict[str, Any] = {}
        for name, fields in sections.items():
            kind = method_class(name)
            is_complete = not any(field.is_required() for field in kind.model_fields.values())
            make = kind.model_validate if is_complete else partial(_constructed, kind)
            methods[name] = make(fields)
        return cls.model_construct(None, **methods)

    @property
    def by_name(self) -> Mapping[str, Method]:
        """The chosen methods, in their order."""
        return self.__pydantic_extra__ or {}

    @model_validator(mode="before")
    @classmethod
    def _parse_sections(cls, fields: Any) -> Any:
        """Parse the section of each method with its class. Errors name the method and the field."""
        if isinstance(fields, MethodsSection):
            return fields
        if not isinstance(fields, dict) or not fields:
            raise ValueError(
                "expected a mapping from each chosen method to its settings, such as "
                f"`methods: {{{_mapping(fields)}}}`"
            )
        sections = {name: {} if given is None else given for name, given in fields.items()}
        return parse_sections({name: _kind(name) for name in sections}, sections)


def _constructed(kind: type[Method], fields: Mapping[str, Any]) -> Method:
    return kind.model_construct(**fields)


def _mapping(fields: Any) -> str:
    """Return the methods in a list as a mapping, or an example of a mapping."""
    listed = fields if isinstance(fields, list | tuple) else [fields]
    names = [name for name in listed if name in plugin_names(METHODS)] or ["mosaic"]
    return ", ".join(f"{name}: {{}}" for name in dict.fromkeys(names))


def _kind(name: str) -> Any:
    """Return the type of the section `name`. The type of an unknown method refuses all values."""
    try:
        return method_class(name)
    except ParamsError as error:
        close = difflib.get_close_matches(name, plugin_names(METHODS), n=1)
        reason = f"did you mean {close[0]}? " if close else ""
        reason += str(error)

    def refuse(_: object) -> object:
        raise ValueError(reason)

    return Annotated[Any, BeforeValidator(refuse)]
