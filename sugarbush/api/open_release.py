"""Opens the texts of a release as a frame whose values are those of the release."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sugarbush.arguments import names_arguments
from sugarbush.data.remote import File, RemotePath, is_remote
from sugarbush.errors import InputError, MissingInputError, ParamsError
from sugarbush.json_lines import read_json_lines
from sugarbush.publication.folder import texts_in
from sugarbush.release.folders import columns_left_out, frame_of_values
from sugarbush.report.downloads import LINES, PARQUET, all_texts

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

_SETTING = "release"
_ID = "id"
_FORMATS = (LINES, PARQUET)


@names_arguments
def open_release(release: str | Path) -> pd.DataFrame:
    """Read the texts of a release as a frame, with the values and types of `Release.frame`.

    `release` is a file of texts (.jsonl or .parquet), its URL, or a folder: one that `Release.save`
    or `sugarbush publish` wrote, a folder of data/released, reports/public, or a project. Labels
    that the records show to be wrong are left out, also from a file of data/released. The parquet
    file has the types of the schema. A .jsonl file gets the types of the .parquet file beside it.
    Without this file, numbers stay numbers, and every string stays a string, dates too.

    Raises ParamsError if a folder has the texts of several methods, MissingInputError if it has no
    texts, and InputError for a file that is not readable.

    >>> import sugarbush as sb, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "synthetic.jsonl"
    ...     _ = file.write_text('{"id": 1, "text": "The lamp is late.", "postcode": "01234"}')
    ...     sb.open_release(file)["postcode"].to_list()
    ['01234']
    """
    file = _file(release)
    left_out = _left_out(file)
    with _reading(file):
        if file.suffix == PARQUET:
            return _frame(_table(file)).drop(columns=left_out, errors="ignore")
        with file.open("rb") as opened:
            rows = read_json_lines(opened.read().decode("utf-8-sig"))
    types = _types_beside(file)
    with _reading(file):
        return frame_of_values(_columns(rows, types)).drop(columns=left_out, errors="ignore")


def _left_out(file: File) -> list[str]:
    """Return the columns that are not published, for the texts that a stage wrote."""
    if isinstance(file, RemotePath) or not (file.parent / "labels.json").exists():
        return []
    from sugarbush.release.figures import given_labels  # slow to import

    with _reading(file):
        return sorted(columns_left_out(given_labels(file.parent)))


def _file(release: str | Path) -> File:
    name = str(release)
    if is_remote(name):
        return _with_texts(RemotePath(name, _SETTING))
    path = Path(name.removeprefix("file://")).expanduser()
    if path.is_dir():
        return _in_folder(path)
    if not path.exists():
        raise MissingInputError(f"{path}: not found. Name a file of texts, or its folder")
    return _with_texts(path)


def _with_texts(file: File) -> File:
    if file.suffix not in _FORMATS:
        raise ParamsError(f"{file}: name a .jsonl or .parquet file of a release, or its folder")
    return file


def _in_folder(folder: Path) -> Path:
    published = folder / "reports/public"
    places = (all_texts(folder), texts_in(folder), all_texts(published))
    found = next((files for files in places if files), ())
    if not found:
        raise MissingInputError(
            f"{folder}: has no texts of a release. Name a folder that Release.save or sugarbush "
            f"publish wrote, reports/public, or a file such as synthetic.jsonl"
        )
    if len(found) > 1:
        names = ", ".join(str(file.relative_to(folder)) for file in found)
        raise ParamsError(f"{folder}: has the texts of several methods. Name one file: {names}")
    return found[0]


@contextmanager
def _reading(file: File) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, ValueError, TypeError, KeyError, RecursionError):
        raise InputError(
            f"{file}: is not a file of released texts, or somebody changed it. Write it again "
            "with: sugarbush run"
        ) from None
    except OSError as error:
        raise InputError(
            f"{file}: cannot be read ({error.strerror or type(error).__name__})"
        ) from None


def _table(file: File) -> pa.Table:
    with file.open("rb") as opened:
        return pq.read_table(pa.BufferReader(opened.read()))


def _types_beside(file: File) -> Mapping[str, pa.DataType]:
    """Return the types of the parquet file beside a .jsonl file, or nothing without this file."""
    name = str(file).removesuffix(LINES) + PARQUET
    beside: File = RemotePath(name, _SETTING) if isinstance(file, RemotePath) else Path(name)
    try:
        opened = beside.open("rb")
    except (InputError, FileNotFoundError):
        return {}
    with opened, _reading(beside):
        schema = pq.read_schema(pa.BufferReader(opened.read()))
    return dict(zip(schema.names, schema.types, strict=True))


def _columns(rows: Sequence[Any], types: Mapping[str, pa.DataType]) -> dict[str, Any]:
    if not all(isinstance(row, dict) for row in rows):
        raise ValueError("a row is not an object")
    names = list(rows[0]) if rows else list(types)
    if any(list(row) != names for row in rows):
        raise ValueError("the rows have different columns")
    return {
        name: _own_array(name, [_typed(row[name], types.get(name)) for row in rows])
        for name in names
    }


def _frame(table: pa.Table) -> pd.DataFrame:
    return frame_of_values(
        {name: _own_array(name, table[name].to_pylist()) for name in table.column_names}
    )


def _own_array(name: str, values: list[Any]) -> Any:
    """Return the ids as an array of integers, as in `Release.frame`, and other values as a list."""
    return np.array(values, dtype=np.int64) if name == _ID else values


def _typed(value: Any, type_: pa.DataType | None) -> Any:
    if value is None or type_ is None:
        return value
    return _reader(type_)(value)


def _reader(type_: pa.DataType) -> Callable[[Any], Any]:
    if pa.types.is_date(type_):
        return date.fromisoformat
    if pa.types.is_timestamp(type_):
        return datetime.fromisoformat
    return float if pa.types.is_floating(type_) else _same


def _same(value: Any) -> Any:
    return value
