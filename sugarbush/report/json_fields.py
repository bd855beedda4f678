"""Writes frozen dataclasses as plain values for JSON, and reads them back with every check."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Annotated, Any, Self, cast

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError

_INFINITY = "infinity"


def json_number(value: float) -> float | str:
    """Return the number for JSON, which has no infinity: an infinite number is a text.

    >>> json_number(math.inf), json_number(0.5)
    ('infinity', 0.5)
    """
    return _INFINITY if math.isinf(value) else value


def _number(value: object) -> object:
    return math.inf if value == _INFINITY else value


# An epsilon: in JSON, it may be "infinity".
Number = Annotated[float, BeforeValidator(_number), Field(ge=0)]


class JsonFields:
    """A frozen dataclass that is stored as JSON: one key for each field, in the same order.

    `to_json` is the only writer and `from_json` the only reader.
    """

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain values for JSON."""
        assert is_dataclass(self)
        return {each.name: plain_values(getattr(self, each.name)) for each in fields(self)}

    @classmethod
    def from_json(cls, values: object) -> Self:
        """Invert `to_json`. Raises ValueError, which names each field that is missing, unknown or
        of another type."""
        adapter: TypeAdapter[Self] = _adapter(cast(Any, cls))
        try:
            text = json.dumps(values, allow_nan=False)
            return adapter.validate_json(text, strict=True, extra="forbid")
        except ValidationError as error:
            raise ValueError("; ".join(_problems(error))) from None


def plain_values(value: object) -> Any:
    """Return a value of the types of JSON: dictionaries, lists, texts, numbers, bool and None."""
    if isinstance(value, JsonFields):
        return value.to_json()
    if is_dataclass(value):
        value = {each.name: getattr(value, each.name) for each in fields(value)}
    match value:
        case Enum():
            return value.value
        case float():
            return json_number(value)
        case tuple() | list():
            return [plain_values(each) for each in value]
        case Mapping():
            return {name: plain_values(each) for name, each in value.items()}
    return value


@cache
def _adapter(cls: Any) -> TypeAdapter[Any]:
    return TypeAdapter(cls)


def _problems(error: ValidationError) -> list[str]:
    """Name each wrong field and its error, without its value."""
    return [
        f"{'.'.join(map(str, each['loc']))}: {each['msg']}"
        for each in error.errors(include_url=False, include_input=False)
    ]
