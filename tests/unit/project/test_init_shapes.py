"""Tests that `init` declares the shape of a record by names and types, and never by values."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from sugarbush.cli.main import app
from sugarbush.data.schema import load_schema

SECRET = "hunter2-sesame"
OPENAI = [{"role": "customer", "content": SECRET}]
SHAREGPT = [{"from": "human", "value": SECRET}]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(name: str, row: dict[str, Any]) -> str:
    if name.endswith(".parquet"):
        pq.write_table(pa.Table.from_pylist([row]), name)
    elif name.endswith(".csv"):
        with Path(name).open("w", newline="") as file:
            writer = csv.DictWriter(file, list(row))
            writer.writeheader()
            writer.writerow({k: json.dumps(v) for k, v in row.items()})
    else:
        Path(name).write_text(json.dumps(row) + "\n")
    return name


def init(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["init", "project", *arguments], catch_exceptions=False)
    assert SECRET not in done.output
    if done.exit_code == 0:
        files = [p for p in Path("project").rglob("*") if p.is_file() and ".git/" not in str(p)]
        assert SECRET.encode() not in b"".join(path.read_bytes() for path in files)
    return done.exit_code, " ".join(done.output.split())


@pytest.mark.parametrize(
    ("name", "row", "options", "expected"),
    [
        ("a.parquet", {"talk": OPENAI}, (), ("talk", "openai", ("user", "assistant"))),
        ("a.parquet", {"x": SHAREGPT, "y": 1}, (), ("x", "sharegpt", ("human", "gpt"))),
        (
            "a.parquet",
            {"a": OPENAI, "b": SHAREGPT, "text": "x"},
            ("--conversation", "b"),
            ("b", "sharegpt", ("human", "gpt")),
        ),
        ("a.jsonl", {"messages": OPENAI}, ("--roles", "a, b"), ("messages", "openai", ("a", "b"))),
        ("a.csv", {"conversations": SHAREGPT}, (), ("conversations", "sharegpt", ("human", "gpt"))),
        (
            "a.jsonl",
            {"talk": SHAREGPT},
            ("--conversation", "talk"),
            ("talk", "openai", ("user", "assistant")),  # a value would tell more, so none is read
        ),
    ],
)
def test_a_conversation_is_recognized_by_its_type_or_name(
    name: str, row: Any, options: tuple[str, ...], expected: tuple[Any, ...]
) -> None:
    code, said = init("--from", write(name, row), *options)
    assert code == 0, said
    text = load_schema(Path("project/data/public/schema.yaml")).text
    assert text is not None and text.conversation is not None
    own = text.conversation
    assert (own.column, own.format.value, own.all_roles) == expected


def test_a_file_with_a_column_text_has_records_of_one_text() -> None:
    code, said = init("--from", write("a.jsonl", {"text": "x", "messages": OPENAI}))
    assert code == 0, said
    assert load_schema(Path("project/data/public/schema.yaml")).text is None


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--conversation", "messages", "--text", "a"), "cannot be combined with --text"),
        (("--conversation", "talk"), "has no column 'talk', which --conversation names"),
        (("--text", "messages,b"), "has no column 'b', which --text names"),
        (("--text", "messages", "--roles", "a,b"), "--roles: needs --conversation"),
        (("--roles", "a,A"), "--conversation: roles repeats a name"),
        (("--json-schema", "none.json"), "--json-schema: none.json: not found"),
    ],
)
def test_options_that_do_not_fit_are_named_and_nothing_is_written(
    options: tuple[str, ...], says: str
) -> None:
    code, said = init("--from", write("a.jsonl", {"messages": OPENAI}), *options)
    assert code == 2 and says in said
    assert not Path("project").exists()


def test_the_example_of_conversations_brings_its_own_data() -> None:
    code, said = init("--from", write("a.jsonl", {"text": "x"}), "--example", "conversations")
    assert code == 2 and "--example: needs no --from" in said
    assert init("--example", "conversations")[0] == 0
    assert (
        "file: data/public/example/conversations.jsonl" in Path("project/params.yaml").read_text()
    )


@pytest.mark.parametrize(
    ("header", "text", "fields"),
    [
        ("subject,body", "subject,body", ("subject", "body")),
        ('"subject,body",stars', "subject,body", None),
        ('"subject,body",subject,body', "subject,body", ("subject", "body")),
        ("subject;body", "subject, body", ("subject", "body")),
    ],
)
def test_a_name_with_a_comma_is_a_column_only_if_its_parts_are_none(
    header: str, text: str, fields: tuple[str, ...] | None
) -> None:
    """Without the comma as delimiter, the header of a file of two fields is one name."""
    separator = ";" if ";" in header else ","
    cells = separator.join(["It broke."] * (header.count(separator) + 1))
    Path("a.csv").write_text(f"{header}\n{cells}\n")
    assert init("--from", "a.csv", "--text", text)[0] == 0
    declared = load_schema(Path("project/data/public/schema.yaml")).text
    assert (None if declared is None else declared.fields) == fields
