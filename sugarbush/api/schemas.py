"""Opens a schema."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sugarbush.arguments import names_arguments, type_name
from sugarbush.data.schema import Schema, load_schema, schema_of
from sugarbush.errors import SchemaError

SchemaLike = Schema | Mapping[str, Any] | Path | str


@names_arguments
def open_schema(schema: SchemaLike) -> Schema:
    """Read a schema from a file, or from a mapping with the keys of schema.yaml.

    A `Schema` is returned unchanged.

    >>> import sugarbush as sb
    >>> sb.open_schema({"subject": "letters", "attributes": [
    ...     {"name": "stars", "column": "stars", "bins": [2, 4]}]}).domain
    {'stars': 4}
    """
    if isinstance(schema, Schema):
        return schema
    if isinstance(schema, Mapping):
        return schema_of(dict(schema), source="the schema")
    if not isinstance(schema, Path | str):
        raise SchemaError(
            f"the schema: expected a path, a mapping or a Schema, got {type_name(schema)}"
        )
    return load_schema(Path(schema))
