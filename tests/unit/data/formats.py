"""Writes the same rows as files of every format, and as a SQLite database."""

from __future__ import annotations

import csv
import io
import json
import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Rows = Sequence[Mapping[str, Any]]
Writer = Callable[[Path, Rows], str]


def _csv(rows: Rows, delimiter: str = ",") -> str:
    text = io.StringIO()
    table = csv.DictWriter(text, list(rows[0]), delimiter=delimiter)
    table.writeheader()
    table.writerows(rows)
    return text.getvalue()


def csv_writer(encoding: str = "utf-8", delimiter: str = ",", first: str = "") -> Writer:
    def write(folder: Path, rows: Rows) -> str:
        content = (first + _csv(rows, delimiter)).encode(encoding, "strict")
        (folder / "data.csv").write_bytes(content)
        return "data.csv"

    return write


def _jsonl(folder: Path, rows: Rows) -> str:
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    (folder / "data.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return "data.jsonl"


def json_writer(encoding: str = "utf-8", indent: int | None = None) -> Writer:
    def write(folder: Path, rows: Rows) -> str:
        text = json.dumps(list(rows), ensure_ascii=False, indent=indent)
        (folder / "data.json").write_bytes(text.encode(encoding))
        return "data.json"

    return write


def _table(rows: Rows) -> pa.Table:
    return pa.Table.from_pylist([dict(row) for row in rows])


def _parquet(folder: Path, rows: Rows) -> str:
    pq.write_table(_table(rows), folder / "data.parquet")
    return "data.parquet"


def _arrow_stream(folder: Path, rows: Rows) -> str:
    table = _table(rows)
    with pa.ipc.new_stream(str(folder / "data.arrow"), table.schema) as stream:
        stream.write_table(table, max_chunksize=5)
    return "data.arrow"


def _arrow_file(folder: Path, rows: Rows) -> str:
    table = _table(rows)
    with pa.ipc.new_file(str(folder / "data.feather"), table.schema) as file:
        file.write_table(table, max_chunksize=5)
    return "data.feather"


def xlsx(
    path: Path, sheets: Mapping[str, Sequence[Sequence[Any]]], *, formulas: bool = True
) -> None:
    """Write a workbook with one sheet per entry. Without `formulas`, each text is a text."""
    from openpyxl import Workbook

    workbook = Workbook()
    workbook.remove(workbook.active)
    for title, lines in sheets.items():
        sheet = workbook.create_sheet(title)
        for line in lines:
            sheet.append(list(line))
            for cell in () if formulas else sheet[sheet.max_row]:
                cell.data_type = "s" if isinstance(cell.value, str) else cell.data_type
    workbook.save(path)


def _xlsx(folder: Path, rows: Rows) -> str:
    lines = [list(rows[0]), *(list(row.values()) for row in rows)]
    xlsx(folder / "data.xlsx", {"cover": [["a note"]], "data": lines}, formulas=False)
    return "data.xlsx"


def mailbox(path: Path, messages: Sequence[EmailMessage]) -> None:
    start = b"From shop@example.org Mon Nov  2 08:30:00 2026\n"
    texts = (re.sub(rb"^(>*From )", rb">\1", bytes(m), flags=re.MULTILINE) for m in messages)
    path.write_bytes(b"\n".join(start + text for text in texts))


def _mbox(folder: Path, rows: Rows) -> str:
    messages = []
    for row in rows:
        message = EmailMessage()
        for name, value in row.items():
            if name != "text":
                message[name] = str(value)
        message.set_content(row["text"], cte="base64")
        messages.append(message)
    mailbox(folder / "data.mbox", messages)
    return "data.mbox"


def _sqlite(folder: Path, rows: Rows) -> str:
    names = list(rows[0])
    with sqlite3.connect(folder / "data.db") as database:
        columns = ", ".join(f'"{name}"' for name in names)
        database.execute(f"CREATE TABLE letters ({columns})")
        marks = ", ".join("?" * len(names))
        database.executemany(
            f"INSERT INTO letters VALUES ({marks})", [tuple(row.values()) for row in rows]
        )
    database.close()
    return "sqlite:///data.db"


WRITERS: dict[str, Writer] = {
    "csv": csv_writer(),
    "csv with a mark": csv_writer("utf-8-sig"),
    "csv in UTF-16": csv_writer("utf-16", "\t"),
    "csv with sep=": csv_writer(delimiter=";", first="sep=;\r\n"),
    "JSON lines": _jsonl,
    "json": json_writer(),
    "json in UTF-16": json_writer("utf-16", indent=2),
    "parquet": _parquet,
    "Arrow stream": _arrow_stream,
    "Arrow file": _arrow_file,
    "xlsx": _xlsx,
    "mbox": _mbox,
    "sqlite": _sqlite,
}
NEEDS = {"xlsx": "openpyxl", "sqlite": "sqlalchemy"}
WITH_KEYS = {"JSON lines", "json", "json in UTF-16", "mbox"}
COLUMNS = {"mbox": ("id", "stars", "text")}  # their order, if the format decides it
