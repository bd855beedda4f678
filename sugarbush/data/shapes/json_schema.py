"""Reads a public JSON Schema, and checks that every record of it fits typed columns.

A release has columns of fixed types, so each value needs one type in the schema. References must
point into the same file, so that nothing is loaded from the network. Recursive schemas have no
fixed depth and are refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from re import _parser as regex  # type: ignore[attr-defined]
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

JsonSchema = Mapping[str, Any]
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


def read_json_schema(path: Path) -> dict[str, Any]:
    """Read a JSON Schema. Raises ValueError that names the file."""
    try:
        schema = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"{path}: not found") from None
    except (OSError, UnicodeDecodeError):
        raise ValueError(f"{path}: cannot be read as UTF-8 text") from None
    except (ValueError, RecursionError):
        raise ValueError(f"{path}: is not JSON") from None
    if not isinstance(schema, dict):
        raise ValueError(f"{path}: is not a JSON Schema, which is an object")
    return schema


def check_json_schema(schema: JsonSchema) -> None:
    """Raise ValueError if records of this schema cannot be released. The message names the path."""
    import jsonschema

    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        kind.check_schema(schema)
    except jsonschema.SchemaError as error:
        path = "/".join(map(str, error.absolute_path))
        raise ValueError(f"is not a valid JSON Schema at /{path}") from None
    try:
        _refuse_references(schema, "")
        _refuse_recursion(schema, schema, "", (), set())
        if type_of(schema, schema) != ("object", False) or not schema.get("properties"):
            raise ValueError("needs `type: object` and `properties` at the top")
        arrow_type(schema, schema)
    except RecursionError:
        raise ValueError("is nested too deeply") from None


def resolved(node: Any, root: JsonSchema) -> JsonSchema:
    """Follow the local references of a node. Raises ValueError for a reference without a target."""
    for _ in range(100):
        if not isinstance(node, Mapping) or "$ref" not in node:
            break
        target: Any = root
        for escaped in str(node["$ref"]).removeprefix("#").split("/")[1:]:
            name = escaped.replace("~1", "/").replace("~0", "~")
            target = target.get(name) if isinstance(target, Mapping) else None
        node = target
    if not isinstance(node, Mapping) or "$ref" in node:
        raise ValueError("has a $ref without a target")
    return node


def type_of(node: JsonSchema, root: JsonSchema) -> tuple[str | None, bool]:
    """Return the type of the values of a node, and whether null is allowed.

    Without `type`, the values of `enum` or `const` decide. The type None means several types.
    """
    node = resolved(node, root)
    named = node.get("type")
    if named is None and ("enum" in node or "const" in node):
        values = node["enum"] if "enum" in node else [node["const"]]
        names = {_JSON_TYPES.get(type(value), "object") for value in values}
    else:
        names = {named} if isinstance(named, str) else set(named or ())
    others = names - {"null"}
    if others == {"integer", "number"}:
        others = {"number"}
    return (others.pop() if len(others) == 1 else None), "null" in names


_JSON_TYPES = {
    str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null",
    list: "array",
}  # fmt: skip


def has_free_text(node: JsonSchema, root: JsonSchema) -> bool:
    """Return whether the values of a node contain free text: strings that no list or format
    restricts."""
    target, (kind, _) = resolved(node, root), type_of(node, root)
    if kind == "array":
        return has_free_text(target["items"], root)
    if kind == "object":
        return any(has_free_text(inner, root) for inner in target["properties"].values())
    return kind == "string" and not {"enum", "const", "format"} & set(target)


def property_paths(node: JsonSchema, root: JsonSchema) -> Iterator[tuple[str, ...]]:
    """Yield the path of each property below a node, through lists and references."""
    target = resolved(node, root)
    for name, inner in target.get("properties", {}).items():
        yield (name,)
        yield from ((name, *path) for path in property_paths(inner, root))
    if isinstance(target.get("items"), Mapping):
        yield from property_paths(target["items"], root)


def free_texts(value: Any, node: JsonSchema, root: JsonSchema) -> Iterator[str]:
    """Yield the free texts in a valid value of a node, in order."""
    target = resolved(node, root)
    if isinstance(value, str) and has_free_text(node, root):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from free_texts(item, target["items"], root)
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from free_texts(inner, target["properties"][name], root)


def arrow_type(node: JsonSchema, root: JsonSchema, path: str = "") -> pa.DataType:
    """Return the Arrow type of the values of a node. Raises ValueError that names the path."""
    import pyarrow as pa

    shown, target, (kind, _) = path or "/", resolved(node, root), type_of(node, root)
    if kind == "object":
        properties = target.get("properties")
        if not properties:
            raise ValueError(f"{shown}: is an object without properties")
        return pa.struct(
            [
                (name, arrow_type(inner, root, f"{path}/properties/{name}"))
                for name, inner in properties.items()
            ]
        )
    if kind == "array":
        items = target.get("items")
        if not isinstance(items, Mapping):
            raise ValueError(f"{shown}: is an array without one schema for its items")
        return pa.list_(arrow_type(items, root, f"{path}/items"))
    types = {
        "string": pa.string(), "integer": pa.int64(), "number": pa.float64(),
        "boolean": pa.bool_(),
    }  # fmt: skip
    if kind not in types:
        raise ValueError(f"{shown}: needs one `type`, because a column of a release has one type")
    return types[kind]


def _refuse_references(node: Any, path: str) -> None:
    """Raise ValueError for a reference to another file or a URL, before anything resolves it."""
    if isinstance(node, Mapping):
        for name in _REFERENCES:
            reference = node.get(name)
            is_local = isinstance(reference, str) and (reference == "#" or reference[:2] == "#/")
            if isinstance(reference, str) and not (is_local and name == "$ref"):
                raise ValueError(
                    f"{path or '/'}: {name} must point into the same file, such as #/$defs/item. "
                    "Nothing is loaded from other files or from the network"
                )
        if path and isinstance(node.get("$id"), str):
            raise ValueError(f"{path}: $id is allowed at the top only")
        if isinstance(node.get("pattern"), str) and _repeats_a_repeat(node["pattern"]):
            raise ValueError(
                f"{path or '/'}: pattern repeats a repetition, such as (a+)+, which can take "
                "hours on one text"
            )
        for name, inner in node.items():
            _refuse_references(inner, f"{path}/{name}")
    elif isinstance(node, list):
        for number, inner in enumerate(node):
            _refuse_references(inner, f"{path}/{number}")


def _repeats_a_repeat(pattern: str) -> bool:
    """Return whether a repetition in a regular expression contains another one."""
    try:
        parsed = regex.parse(pattern)
    except re.error:
        return False  # jsonschema has refused it

    def repeats(nodes: Any, *, inside: bool) -> bool:
        for kind, argument in nodes:
            is_repeat = str(kind) in ("MAX_REPEAT", "MIN_REPEAT") and argument[1] > 1
            if is_repeat and inside:
                return True
            operands = argument if isinstance(argument, tuple | list) else (argument,)
            for operand in operands:
                for each in operand if isinstance(operand, list) else (operand,):
                    is_pattern = isinstance(each, regex.SubPattern)
                    if is_pattern and repeats(each, inside=inside or is_repeat):
                        return True
        return False

    return repeats(parsed, inside=False)


def _refuse_recursion(
    node: Any, root: JsonSchema, path: str, above: tuple[int, ...], done: set[int]
) -> None:
    """Raise ValueError for a node that contains itself, or for a reference without a target."""
    if not isinstance(node, Mapping | list):
        return
    if id(node) in above:
        raise ValueError(f"{path or '/'}: is recursive, but a column has a fixed depth")
    if id(node) in done:
        return
    above = (*above, id(node))
    if isinstance(node, list):
        for number, inner in enumerate(node):
            _refuse_recursion(inner, root, f"{path}/{number}", above, done)
    else:
        if isinstance(node.get("$ref"), str):
            try:
                target = resolved(node, root)
            except ValueError as error:
                raise ValueError(f"{path or '/'}: {error}") from None
            _refuse_recursion(target, root, path, above, done)
        for name, inner in node.items():
            _refuse_recursion(inner, root, f"{path}/{name}", above, done)
    done.add(id(node))
