"""Reads parquet and Arrow files. A column inside a struct has a dotted path."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sugarbush.data.cells import single_precision
from sugarbush.data.formats.interface import Format
from sugarbush.data.formats.rows import BATCH_ROWS, WHOLE, Reading, Row, Span, require_columns
from sugarbush.data.remote import File
from sugarbush.errors import InputError

_SPAN_ROWS = 2**16
_FILE_MARK = b"ARROW1"  # a file without the mark is a stream, as `datasets` writes


class _Column(NamedTuple):
    """A column by the fields from the table to the value. `labels` are the names of the values."""

    name: str
    path: tuple[str, ...]
    labels: Sequence[str] | None = None


class _Typed(Format[File]):
    """A file with the types of its columns. A subclass reads the schema and the rows."""

    @abstractmethod
    def schema(self, file: IO[bytes]) -> pa.Schema:
        """Return the types of the columns. Raises as pyarrow does."""

    def names(self, path: File, reading: Reading) -> Sequence[str]:
        """Return the names of the columns, and the dotted paths in structs."""
        with path.open("rb") as file:
            return _names(self.schema(file))

    def types(self, path: File) -> Mapping[str, pa.DataType]:
        with path.open("rb") as file:
            return {field.name: field.type for field in self.schema(file)}


class Parquet(_Typed):
    """Parquet files, divided at row groups."""

    def schema(self, file: IO[bytes]) -> pa.Schema:
        return pq.read_schema(file)

    def spans(self, path: File, reading: Reading) -> list[Span]:
        """Divide a parquet file into row groups. Small row groups share a span."""
        with path.open("rb") as file, _reading_arrow(path, "a parquet file", reading.setting):
            stored = pq.read_metadata(file)
            sizes = [stored.row_group(group).num_rows for group in range(stored.num_row_groups)]
        spans, start, rows, first = [], 0, 0, 0
        for group, size in enumerate(sizes, start=1):
            rows += size
            if rows - first >= _SPAN_ROWS or group == len(sizes):
                spans.append(Span(start, group, first))
                start, first = group, rows
        return spans or [WHOLE]

    def rows(self, path: File, reading: Reading, span: Span = WHOLE) -> Iterator[Row]:
        """Yield the rows of a parquet file or of a span, counted from 1."""
        with path.open("rb") as file, _reading_arrow(path, "a parquet file", reading.setting):
            table = pq.ParquetFile(file, pre_buffer=False)  # True keeps all rows in memory
            columns = _columns(path, table.schema_arrow, reading)
            chosen = [".".join(column.path) for column in columns]
            groups = None if span.stop is None else range(span.start, span.stop)
            batches = table.iter_batches(BATCH_ROWS, row_groups=groups, columns=chosen)
            yield from _rows(path, batches, columns, reading, before=span.rows)


class Arrow(_Typed):
    """Arrow files and streams."""

    def schema(self, file: IO[bytes]) -> pa.Schema:
        return _arrow_reader(file).schema

    def rows(self, path: File, reading: Reading, span: Span = WHOLE) -> Iterator[Row]:
        """Yield the rows of an Arrow file or stream, counted from 1."""
        with path.open("rb") as file, _reading_arrow(path, "an Arrow file", reading.setting):
            reader = _arrow_reader(file)
            columns = _columns(path, reader.schema, reading)
            yield from _rows(path, _checked_batches(reader), columns, reading)


def _names(schema: pa.Schema) -> list[str]:
    return list(dict.fromkeys([*schema.names, *(c.name for c in _all_columns(schema))]))


def _arrow_reader(file: IO[bytes]) -> Any:
    mark = file.read(len(_FILE_MARK))
    file.seek(0)
    return pa.ipc.open_file(file) if mark == _FILE_MARK else pa.ipc.open_stream(file)


def _checked_batches(reader: Any) -> Iterator[pa.RecordBatch]:
    if isinstance(reader, pa.ipc.RecordBatchFileReader):
        batches: Iterable[Any] = map(reader.get_batch, range(reader.num_record_batches))
    else:
        batches = reader
    for batch in batches:
        batch.validate(full=True)  # without this check, a damaged file could crash the process
        for start in range(0, batch.num_rows, BATCH_ROWS):
            yield batch.slice(start, BATCH_ROWS)


def _all_columns(schema: pa.Schema) -> list[_Column]:
    def below(field: pa.Field, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        if pa.types.is_struct(field.type) and field.type.num_fields:
            for index in range(field.type.num_fields):
                inner = field.type.field(index)
                yield from below(inner, (*path, inner.name))
        else:
            yield path

    paths = (path for field in schema for path in below(field, (field.name,)))
    return [_Column(".".join(path), path) for path in paths]


def _columns(path: File, schema: pa.Schema, reading: Reading) -> list[_Column]:
    """Return the wanted columns, or all columns. Raises InputError if a column is missing."""
    wanted = {name: _find(schema, name.split(".")) for name in reading.wanted}
    require_columns(path, reading.wanted, [name for name, found in wanted.items() if found])
    if any(found and not _is_unique(schema, found) for found in wanted.values()):
        raise InputError(f"{path}: names a column twice (setting {reading.setting})")
    others = _all_columns(schema) if reading.all_columns else []
    paths = {column.name: column.path for column in others if _is_unique(schema, column.path)}
    labels = _label_names(schema)
    return [
        _Column(name, found, labels.get(found[0]) if len(found) == 1 else None)
        for name, found in (paths | wanted).items()
        if found is not None
    ]


def _find(fields: Any, names: Sequence[str]) -> tuple[str, ...] | None:
    """Return the names of the fields from a table or struct to a value. Names may contain dots: a
    column `ticket.body` comes before the field `body` of `ticket`."""
    for count in (len(names), *range(1, len(names))):
        name, rest = ".".join(names[:count]), names[count:]
        if name not in fields.names:
            continue
        if not rest:
            return (name,)
        kind = fields.field(name).type if fields.get_field_index(name) >= 0 else None
        if pa.types.is_struct(kind) and (below := _find(kind, rest)) is not None:
            return (name, *below)
    return None


def _is_unique(fields: Any, path: Sequence[str]) -> bool:
    if fields.get_field_index(path[0]) < 0:
        return False
    return len(path) == 1 or _is_unique(fields.field(path[0]).type, path[1:])


def _label_names(schema: pa.Schema) -> Mapping[str, Sequence[str]]:
    """Return the names of the values of each column with labels, as `datasets` writes them."""
    try:
        features = json.loads(schema.metadata[b"huggingface"])["info"]["features"]
        return {
            name: feature["names"]
            for name, feature in features.items()
            if isinstance(feature, dict) and feature.get("_type") == "ClassLabel"
        }
    except (TypeError, KeyError, ValueError, AttributeError, RecursionError):
        return {}


def _rows(
    path: File,
    batches: Iterable[Any],
    columns: Sequence[_Column],
    reading: Reading,
    *,
    before: int = 0,
) -> Iterator[Row]:
    number = before
    names = [column.name for column in columns]
    try:
        for batch in batches:
            cells = [_values(batch, column) for column in columns]
            for values in zip(*cells, strict=True):
                number += 1
                yield Row(number, dict(zip(names, values, strict=True)))
    except UnicodeDecodeError:
        raise InputError(
            f"{path}, after row {number}: a text is not UTF-8 (setting {reading.setting})"
        ) from None
    except pa.ArrowException:
        raise
    except (ValueError, OverflowError):  # a date before year 1, for example
        raise InputError(
            f"{path}, after row {number}: a value cannot be read. Save the column as text "
            f"(setting {reading.setting})"
        ) from None


def _values(batch: Any, column: _Column) -> list[Any]:
    values = batch.column(batch.schema.get_field_index(column.path[0]))
    if len(column.path) > 1:
        values = pc.struct_field(values, list(column.path[1:]))
    cells: list[Any] = single_precision(values.to_pylist(), str(values.type))
    if column.labels is None:
        return cells
    return [_label(cell, column.labels) for cell in cells]


def _label(cell: Any, labels: Sequence[str]) -> Any:
    """Return the name of a label. The number -1 is a missing label."""
    if not isinstance(cell, int):
        return cell
    return labels[cell] if 0 <= cell < len(labels) else None


@contextmanager
def _reading_arrow(path: File, what: str, setting: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError, MemoryError):  # or a damaged length
        raise InputError(f"{path}: is not {what} (setting {setting})") from None
