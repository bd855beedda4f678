"""Tests that a line separator of Unicode inside a text does not cut JSON lines in two."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest
from rich.console import Console

from sugarbush.cli.shows import show_stage
from sugarbush.data.reading import read_rows
from sugarbush.data.schema import Schema
from sugarbush.generators.pool_files import PoolSource, load_pool
from sugarbush.json_lines import read_json_lines
from sugarbush.release.columns import typed_table
from tests.settings import ROOT

# All characters at which str.splitlines cuts. JSON may contain the last three as they are.
LINE_ENDS = ["\n", "\r", "\r\n", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]
SCHEMA = Schema.model_validate(
    {
        "subject": "letters",
        "attributes": [{"name": "mood", "values": ["calm"], "keywords": {"calm": ["calm"]}}],
    }
)


def as_lines(texts: list[str]) -> str:
    rows = [{"id": i, "text": text, "mood": "calm"} for i, text in enumerate(texts)]
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


@pytest.mark.parametrize("end", LINE_ENDS, ids=ascii)
def test_a_text_with_a_line_separator_is_one_row(end: str, tmp_path: Path) -> None:
    """Checks every reader of JSON lines."""
    texts = [f"One{end}two {i}." for i in range(3)] + [f"{end}{end}first and last{end}"]
    lines = as_lines(texts)
    assert [row["text"] for row in read_json_lines(lines)] == texts
    assert typed_table(lines, SCHEMA).arrow["text"].to_pylist() == texts
    file = tmp_path / "texts.jsonl"
    file.write_bytes(lines.encode())
    rows = read_rows(file, setting="prepare.file", wanted={"text": "prepare.text_column"})
    assert [row.fields["text"] for row in rows] == texts
    source = PoolSource(file=str(file), text_column="text")
    assert list(load_pool([source], base=tmp_path)) == texts


def test_show_prints_one_row_for_each_text(tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_bytes((ROOT / "params.yaml").read_bytes())
    folder, public = tmp_path / "data/released/enlarge/maple", tmp_path / "data/public/example"
    for each in (folder, public):
        each.mkdir(parents=True)
    schema = SCHEMA.model_dump(exclude_none=True, exclude_defaults=True)
    (public / "schema.yaml").write_text(json.dumps(schema))
    texts = [f"One{end}two." for end in LINE_ENDS]
    (folder / "synthetic.jsonl").write_text(as_lines(texts), encoding="utf-8")
    printed = io.StringIO()
    console = Console(file=printed, width=200)
    show_stage(tmp_path, "synthetic", method="maple", rows=99, internal=False, console=console)
    assert f"{len(texts)} of {len(texts)}" in printed.getvalue()


def test_no_module_that_reads_json_splits_lines_by_itself() -> None:
    """`splitlines` is for messages and YAML. JSON lines are split by `sugarbush.json_lines`."""
    reads_lines = re.compile(
        r"json\.loads\(line\)[^\n]*splitlines|splitlines\(\):(?:\n[^\n]*){1,4}json\.loads"
        r"|for line in \w+\.splitlines\(\)[^\n]*_parse|pd\.read_json\("
    )
    folders = ("sugarbush", "research", "benchmarks", "examples", "tasks", "flows")
    files = [file for folder in folders for file in (ROOT / folder).rglob("*.py")]
    assert len(files) > 300
    found = [file.name for file in files if reads_lines.search(file.read_text("utf-8"))]
    assert found == []
