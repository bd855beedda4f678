"""A record that is a JSON object by a public JSON Schema."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sugarbush.data.shapes.interface import Shape, ShapeError, Span, unfenced
from sugarbush.data.shapes.json_schema import (
    JsonSchema,
    arrow_type,
    free_texts,
    has_free_text,
    property_paths,
    resolved,
    type_of,
)
from sugarbush.json_lines import load_json

if TYPE_CHECKING:
    import pyarrow as pa

_EXACT_AS_FLOAT = 2**53
_REASONS = {
    "type": "has another type than the JSON Schema says",
    "enum": "is none of the listed values",
    "const": "is not the value of the JSON Schema",
    "required": "lacks a required property",
    "minLength": "is too short",
    "maxLength": "is too long",
    "minimum": "is too small",
    "maximum": "is too large",
    "pattern": "does not match the pattern of the JSON Schema",
    "format": "does not have the format that the JSON Schema names",
}


class JsonRecord(Shape):
    """A JSON object: in one column, or without a column, in columns with the names of properties.

    Properties have the order of the JSON Schema. A property with the value null is left out unless
    it is required, because parquet has no missing properties. Every canonical text and every
    released record validates.

    >>> schema = {"type": "object", "required": ["item"],
    ...           "properties": {"item": {"type": "string"}, "count": {"type": "integer"}}}
    >>> record = JsonRecord(schema, column=None)
    >>> record.text_of({"count": 2, "item": "lamp", "id": 7})
    '{"item": "lamp", "count": 2}'
    >>> record.parse('```json\\n{"item": "lamp"}\\n```')
    {'item': 'lamp', 'count': None}
    """

    def __init__(
        self,
        schema: JsonSchema,
        *,
        column: str | None,
        requested: Mapping[str, tuple[int, ...]] | None = None,
    ) -> None:
        self._schema, self._column, self._requested = schema, column, dict(requested or {})

    @property
    def json_schema(self) -> JsonSchema | None:
        return self._schema

    @cached_property
    def _validator(self) -> Any:
        import jsonschema
        from referencing import Registry

        kind = jsonschema.validators.validator_for(
            self._schema, default=jsonschema.Draft202012Validator
        )
        # An empty registry never loads a reference from the network.
        return kind(self._schema, format_checker=kind.FORMAT_CHECKER, registry=Registry())

    @property
    def _properties(self) -> Mapping[str, JsonSchema]:
        properties: Mapping[str, JsonSchema] = self._schema["properties"]
        return properties

    @property
    def columns(self) -> Mapping[str, str]:
        if self._column is not None:
            return {self._column: "text.column of the schema"}
        required = self._schema.get("required", ())
        names = [name for name in self._properties if name in required]
        return dict.fromkeys(names, "text.json_schema of the schema")

    @property
    def reads_all_columns(self) -> bool:
        return self._column is None and len(self.columns) < len(self._properties)

    @property
    def paths(self) -> Mapping[str, tuple[str, int]]:
        above = () if self._column is None else (self._column,)
        paths = dict(super().paths) if self._column is not None else {}
        for path in property_paths(self._schema, self._schema):
            paths[".".join((*above, *path))] = (path[-1], len(path))
        return paths

    @property
    def text_columns(self) -> frozenset[str]:
        """An attribute may have the name of a property that is its column."""
        return frozenset() if self._column is None else frozenset({self._column})

    @property
    def instruction(self) -> str:
        schema = json.dumps(self._schema, ensure_ascii=False, separators=(",", ":"))
        return (
            "Each text is one JSON object that is valid under this JSON Schema, with no further "
            f"properties:\n{schema}"
        )

    @property
    def description(self) -> str:
        where = "JSON records" if self._column is None else f"JSON records in {self._column}"
        return f"{where} with properties {', '.join(self._properties)}"

    @property
    def types(self) -> Mapping[str, pa.DataType]:
        whole = arrow_type(self._schema, self._schema)
        if self._column is not None:
            return {self._column: whole}
        return {field.name: field.type for field in whole}

    def text_of(self, fields: Mapping[str, Any]) -> str:
        return self._text(self._checked(self._record_in(fields)))

    def parse(self, text: str) -> dict[str, Any]:
        record = self._checked(_loaded(unfenced(text), "the text"))
        if self._column is not None:
            return {self._column: record}
        return {name: record.get(name) for name in self._properties}

    @property
    def sections(self) -> tuple[str, ...]:
        """The properties of the record that contain free text."""
        schema = self._schema
        return tuple(n for n, node in self._properties.items() if has_free_text(node, schema))

    def contents(self, text: str) -> Sequence[tuple[str, str]]:
        record = json.loads(text)
        found = (
            (name, free_texts(record[name], node, self._schema))
            for name, node in self._properties.items()
            if name in record
        )
        return [(name, content) for name, contents in found for content in contents]

    @property
    def requested(self) -> Mapping[str, tuple[int, ...]]:
        return self._requested

    def spans(self, text: str) -> Sequence[Span] | None:
        return None

    def expanded(self, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        record = self._checked(self._record_in(fields))
        return {**fields, **_paths(record, "" if self._column is None else f"{self._column}.")}

    def is_inside(self, column: str) -> bool:
        node: Any = self._schema
        path = self._path(column)
        for name in path:
            node = resolved(node, self._schema).get("properties", {}).get(name)
            if node is None:
                return False
        return bool(path)

    def value_in(self, text: str, column: str) -> Any:
        if not self.is_inside(column):
            raise KeyError(column)
        value: Any = json.loads(text)
        for name in self._path(column):
            value = value.get(name) if isinstance(value, Mapping) else None
        return value

    def _path(self, column: str) -> list[str]:
        """Return the names of the properties from the record to the values of a column."""
        if self._column is None:
            return column.split(".")
        head = f"{self._column}."
        return column.removeprefix(head).split(".") if column.startswith(head) else []

    def _record_in(self, fields: Mapping[str, Any]) -> Any:
        from sugarbush.data.reading import is_missing  # slow import

        if self._column is not None:
            cell = fields.get(self._column)
            if is_missing(cell):
                raise ShapeError(f"has no record in column '{self._column}'")
            return _loaded(cell, f"column '{self._column}'") if isinstance(cell, str) else cell
        record: dict[str, Any] = {}
        for name, node in self._properties.items():
            value = fields[name] if name in fields else _below(fields, name)
            if is_missing(value):
                if name in self._schema.get("required", ()) and type_of(node, self._schema)[1]:
                    record[name] = None
                continue
            if isinstance(value, str) and type_of(node, self._schema)[0] != "string":
                # csv contains numbers, lists and objects as text
                value = _loaded(value, f"column '{name}'")
            record[name] = value
        return record

    def _checked(self, value: Any) -> dict[str, Any]:
        try:
            record = self._ordered(value, self._schema, "")
            errors = sorted(
                self._validator.iter_errors(record),
                key=lambda error: (list(map(str, error.absolute_path)), str(error.validator)),
            )
        except (RecursionError, OverflowError):
            raise ShapeError(f"{self._where('')} is nested too deeply to be checked") from None
        if errors:
            path = ".".join(map(str, errors[0].absolute_path))
            keyword = str(errors[0].validator)
            reason = _REASONS.get(keyword, f"does not satisfy `{keyword}` of the JSON Schema")
            raise ShapeError(f"{self._where(path)} {reason}")
        if not isinstance(record, dict):
            raise ShapeError(f"{self._where('')} is not a JSON object")
        return record

    def _where(self, path: str) -> str:
        where = "the record" if self._column is None else f"column '{self._column}'"
        return f"{where}: property '{path}'" if path else where

    def _ordered(self, value: Any, node: JsonSchema, path: str) -> Any:
        """Return a value of JSON's types, with properties in the order of the schema.

        Raises ShapeError for a property that is not listed, and for a value that is not JSON.
        """
        node = resolved(node, self._schema)
        if hasattr(value, "tolist"):  # an array or a number of a frame
            value = value.tolist()
        if isinstance(value, Mapping):
            properties = node.get("properties", {})
            if any(name not in properties for name in value):
                raise ShapeError(
                    f"{self._where(path)} has a property that the JSON Schema does not list"
                )
            required = node.get("required", ())
            return {
                name: self._ordered(value[name], inner, f"{path}.{name}".lstrip("."))
                for name, inner in properties.items()
                if name in value and (value[name] is not None or name in required)
            }
        if isinstance(value, list | tuple):
            items = node.get("items", {})
            return [
                self._ordered(item, items, f"{path}.{index}".lstrip("."))
                for index, item in enumerate(value)
            ]
        return self._plain(value, path, fractional=type_of(node, self._schema)[0] == "number")

    def _plain(self, value: Any, path: str, *, fractional: bool) -> Any:
        if isinstance(value, str):
            if "\0" in value:
                raise ShapeError(f"{self._where(path)} contains a NUL byte")
            return value
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, float):
            if not math.isfinite(value):
                raise ShapeError(f"{self._where(path)} is not a finite number")
            if not value.is_integer() or (fractional and abs(value) > _EXACT_AS_FLOAT):
                return value
        if isinstance(value, int | float):
            # In a frame, a missing value of another record makes a float of an integer.
            if abs(value) > _EXACT_AS_FLOAT:
                raise ShapeError(f"{self._where(path)} is too large to be exact. Save it as text")
            return int(value)
        raise ShapeError(f"{self._where(path)} is not a JSON value. Save the column as text")

    @staticmethod
    def _text(record: dict[str, Any]) -> str:
        return json.dumps(record, ensure_ascii=False)


def _loaded(text: str, what: str) -> Any:
    """Parse JSON. NaN, infinities and repeated keys are no JSON. Raises ShapeError."""
    try:
        return load_json(text)
    except (ValueError, RecursionError):
        raise ShapeError(f"{what} is not JSON") from None


def _below(fields: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    """Return the object at a name whose values are at dotted paths, or None without such paths."""
    below = {k.removeprefix(f"{name}."): v for k, v in fields.items() if k.startswith(f"{name}.")}
    whole: dict[str, Any] = {}
    for path, value in below.items():
        head, _, rest = path.partition(".")
        whole[head] = _below(below, head) if rest else value
    return whole or None


def _paths(record: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    from sugarbush.data.formats.rows import flattened

    return dict(flattened(record, prefix))
