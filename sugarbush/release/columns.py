"""Converts released texts to a table with typed columns: numbers as numbers, values as strings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from sugarbush.data.quantities import Kind
from sugarbush.data.schema import Attribute, Schema
from sugarbush.errors import PrivacyError
from sugarbush.json_lines import read_json_lines

Type = Literal[
    "int64",
    "float64",
    "string",
    "bool",
    "date32",
    "timestamp[ms]",
    "timestamp[ms, tz=UTC]",
    "struct",
    "list",
]
_ARROW: dict[Type, pa.DataType] = {
    "int64": pa.int64(),
    "float64": pa.float64(),
    "string": pa.string(),
    "bool": pa.bool_(),
    "date32": pa.date32(),
    "timestamp[ms]": pa.timestamp("ms"),
    "timestamp[ms, tz=UTC]": pa.timestamp("ms", tz="UTC"),
}
_OF_KIND: Mapping[Kind, Type] = {
    Kind.INTEGER: "int64",
    Kind.NUMBER: "float64",
    Kind.DATE: "date32",
    Kind.DATETIME: "timestamp[ms]",
}
_READ: Mapping[Type, Callable[[Any], Any]] = {
    "float64": float,
    "date32": date.fromisoformat,
    "timestamp[ms]": datetime.fromisoformat,
    "timestamp[ms, tz=UTC]": datetime.fromisoformat,
}
_REQUESTED, _CONFIDENCE = "requested_", "confidence_"


@dataclass(frozen=True, kw_only=True)
class Column:
    """A published column. `values` lists the public values of an attribute, or is empty.

    `children` are the fields of a struct, or the items of a list, whose name is `item`.
    """

    name: str
    type: Type
    description: str
    values: tuple[str, ...] = ()
    children: tuple[Column, ...] = ()

    @property
    def arrow(self) -> pa.DataType:
        """The type of the column in parquet."""
        if self.type == "struct":
            return pa.struct([(child.name, child.arrow) for child in self.children])
        return pa.list_(self.children[0].arrow) if self.type == "list" else _ARROW[self.type]

    def feature(self) -> Any:
        """Return the type as `datasets` writes it into README.md, as an entry of a mapping."""
        if self.type == "struct":
            return {"struct": [{"name": c.name, **c.feature()} for c in self.children]}
        if self.type == "list":
            item = self.children[0].feature()
            return {"list": item.get("struct", item.get("dtype", item))}
        return {"dtype": self.type}


@dataclass(frozen=True, kw_only=True)
class TypedTable:
    """Released texts with typed columns."""

    columns: tuple[Column, ...]
    arrow: pa.Table

    @property
    def rows(self) -> int:
        return int(self.arrow.num_rows)

    def write(self, path: Path) -> None:
        """Write one parquet file. Raises OSError."""
        path.write_bytes(self.content())

    def content(self) -> bytes:
        """Return the content of a parquet file."""
        stream = pa.BufferOutputStream()
        pq.write_table(self.arrow, stream)
        return bytes(stream.getvalue())


def typed_table(lines: str, schema: Schema) -> TypedTable:
    """Convert the lines of synthetic.jsonl to a table.

    Raises PrivacyError for a column that is neither a column of a release nor an attribute of the
    schema.

    >>> stars = Attribute(name="stars", column="stars", values=["1", "2"])
    >>> schema = Schema(subject="letters", attributes=[stars])
    >>> table = typed_table('{"id":7,"text":"Hello.","stars":2,"weight":1.0}', schema)
    >>> [(column.name, column.type) for column in table.columns][1:3]
    [('text', 'string'), ('stars', 'int64')]
    """
    rows = read_json_lines(lines)
    texts = ("text",) if schema.shape is None else tuple(schema.shape.types)
    names = tuple(rows[0]) if rows else ("id", *texts, "weight")
    columns = tuple(_column(name, schema) for name in names)
    arrays = [pa.array(list(_cells(rows, column)), column.arrow) for column in columns]
    return TypedTable(columns=columns, arrow=pa.table(arrays, names=list(names)))


def _cells(rows: Sequence[dict[str, Any]], column: Column) -> Iterator[Any]:
    for row in rows:
        value, read = row[column.name], _READ.get(column.type)
        yield value if value is None or read is None else read(value)


def _of_text(name: str, type_: pa.DataType, description: str) -> Column:
    """Return a column of the shape of a record."""
    children: tuple[Column, ...] = ()
    kind: Type = "string"
    if pa.types.is_struct(type_):
        kind = "struct"
        children = tuple(_of_text(field.name, field.type, "") for field in type_)
    elif pa.types.is_list(type_):
        kind, children = "list", (_of_text("item", type_.value_type, ""),)
    else:
        kind = next(name for name, arrow in _ARROW.items() if arrow == type_)
    return Column(name=name, type=kind, description=description, children=children)


def _column(name: str, schema: Schema) -> Column:
    if schema.shape is not None and name in schema.shape.types:
        return _of_text(name, schema.shape.types[name], f"synthetic: {schema.shape.description}")
    fixed: dict[str, tuple[Type, str]] = {
        "id": ("int64", "number of the text in this release; it identifies no record"),
        "text": ("string", "the synthetic text"),
        "weight": ("float64", "weight of the text, for labels as frequent as in the DP counts"),
    }
    if name in fixed:
        type_, description = fixed[name]
        return Column(name=name, type=type_, description=description)
    if name in schema.names:
        attribute = schema.attribute(name)
        described = f": {attribute.description}" if attribute.description else ""
        return _of_attribute(name, attribute, f"read from the text{described}")
    for prefix in (_REQUESTED, _CONFIDENCE):
        attribute_name = name.removeprefix(prefix)
        if name.startswith(prefix) and attribute_name in schema.names:
            attribute = schema.attribute(attribute_name)
            if prefix == _REQUESTED:
                return _of_attribute(
                    name,
                    attribute,
                    f"the value of {attribute_name} that the prompt requested; the text need not "
                    "have it",
                )
            description = (
                f"confidence of the reader of {attribute_name}, from 0 to 1, if the text has a "
                "listed value"
            )
            return Column(name=name, type="float64", description=description)
    raise PrivacyError(
        "the released texts have a column that is no attribute of the schema, so the card does not "
        "cover it. Write the release again with: sugarbush run"
    )


def _of_attribute(name: str, attribute: Attribute, description: str) -> Column:
    type_: Type = "string"
    if (quantity := attribute.quantity) is not None:
        type_ = "timestamp[ms, tz=UTC]" if quantity.zoned else _OF_KIND[quantity.kind]
        low, high = quantity.spelled(quantity.low), quantity.spelled(quantity.high)
        bins = ", ".join(attribute.domain[:-1])
        description += f"; a value from {low} to {high} inside a bin of the DP counts ({bins})"
        return Column(name=name, type=type_, description=description)
    if (numbers := attribute.numbers) is not None:
        type_ = "int64" if all(isinstance(number, int) for number in numbers) else "float64"
    return Column(name=name, type=type_, description=description, values=attribute.domain)
