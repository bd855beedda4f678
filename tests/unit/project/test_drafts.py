"""Tests that `sugarbush schema draft` reads donated examples alone and writes a new file."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from sugarbush.cli.main import app
from sugarbush.cli.profiles import draft_schema
from sugarbush.data.schema import load_schema
from sugarbush.embedding.encoder import Encoder
from sugarbush.errors import UsageError
from sugarbush.pipeline.opening import open_project
from tests.settings import ROOT, params

SUBJECTS = ("refund", "parcel")
DONATED = [
    {"id": f"d{i}", "text": f"a letter on my {SUBJECTS[i % 2]}, line {i}", "channel": "mc"[i % 2]}
    for i in range(16)
]
CANARY = "canary-7731"


@pytest.fixture(autouse=True)
def embedding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the embedding model by one that returns one direction per subject."""

    def embed(_: Any, texts: Any, places: Any, advance: Any) -> Any:
        if places:
            rows = [[1.0 * (s in texts[i]) for s in SUBJECTS] + [i / 500] for i in places]
            yield list(places), np.array(rows, dtype=np.float32)

    monkeypatch.setattr(Encoder, "_space", "watched", raising=False)
    monkeypatch.setattr(Encoder, "_embed", embed)


def lines(records: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def drafted(folder: Path, donated: str | None = "donated.jsonl") -> str:
    """Return the output of the command. Reading the private file would fail: it is not UTF-8."""
    private = folder / "private.jsonl"
    private.write_bytes(b"\xff not UTF-8 " + CANARY.encode())
    (folder / "donated.jsonl").write_text(lines(DONATED))
    settings = params(
        prepare__file="private.jsonl",
        prepare__donated=donated,
        prepare__schema="schema.yaml",
        prepare__id_column="id",
        privacy__dataset="letters",
    )
    said = io.StringIO()
    draft_schema(
        open_project(folder, settings=settings), subject="letters to a shop",
        output=folder / "schema.yaml", seed=1, console=Console(file=said, width=200),
    )  # fmt: skip
    return said.getvalue()


def test_a_draft_reads_the_donated_file_and_not_the_private_one(tmp_path: Path) -> None:
    said = drafted(tmp_path)
    schema = load_schema(tmp_path / "schema.yaml")
    assert schema.names == ("channel", "topic")
    assert schema.subject == "letters to a shop"
    assert len(schema.attribute("topic").values) == 2
    assert "16 donated examples" in said and CANARY not in said
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"private.jsonl", "donated.jsonl", "schema.yaml", ".cache"}


def test_an_existing_schema_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "schema.yaml").write_text("mine")
    with pytest.raises(UsageError, match="exists already"):
        drafted(tmp_path)
    assert (tmp_path / "schema.yaml").read_text() == "mine"


@pytest.mark.parametrize(
    ("donated", "said"),
    [
        (None, "prepare.donated is null"),
        ("private.jsonl", "is the private file"),
        ("gone.jsonl", "gone.jsonl: not found"),
    ],
)
def test_without_donated_examples_of_their_own_there_is_no_draft(
    tmp_path: Path, donated: str | None, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        drafted(tmp_path, donated)
    assert not (tmp_path / "schema.yaml").exists()


def test_the_command_writes_the_file_that_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "donated.jsonl").write_text(lines(DONATED))
    (tmp_path / "params.yaml").write_text((ROOT / "params.yaml").read_text())
    monkeypatch.chdir(tmp_path)
    asked = ["schema", "draft", "--subject", "letters", "--output", "mine.yaml"]
    done = CliRunner().invoke(app, [*asked, "-S", "prepare.donated=donated.jsonl"])
    assert done.exit_code == 0, done.output
    assert load_schema(tmp_path / "mine.yaml").subject == "letters"
    again = CliRunner().invoke(app, [*asked, "-S", "prepare.donated=donated.jsonl"])
    assert again.exit_code == 2
