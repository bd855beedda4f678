"""Tests that data in each format goes through `init`, the reading of `check`, and `prepare`."""

from __future__ import annotations

import io
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from rich.console import Console
from typer.testing import CliRunner

from sugarbush.cli.main import app
from sugarbush.cli.new_projects import make_project
from sugarbush.data.private_store import HELDOUT, TRAIN
from sugarbush.errors import InputError
from sugarbush.pipeline.opening import open_project
from sugarbush.pipeline.stages import fingerprint, prepare
from sugarbush.preparation.findings import corpus_findings
from sugarbush.project.create import own_data
from sugarbush.run.records import private_store
from sugarbush.run.settings import load_params
from tests.integration.postgres import Postgres, binaries, running_postgres
from tests.unit.data.formats import NEEDS, WRITERS, csv_writer, json_writer, xlsx

PASSWORD = "hunter2-sesame"
ROWS = [
    {"id": f"r{i}", "text": f"Der Brief Nr. {i}, für die Küche", "stars": i % 5} for i in range(120)
]
NESTED = [{"id": r["id"], "letter": {"text": r["text"]}, "stars": r["stars"]} for r in ROWS]
SCHEMA = {"subject": "letters", "attributes": [{"name": "stars", "column": "stars", "bins": [2]}]}


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


def init(source: str, text: str = "text", **options: Any) -> tuple[Path, str]:
    """Create a project with `init`, and write its schema. Returns its folder, and what is said."""
    folder = Path("project")
    if "://" in source or options:
        output = io.StringIO()
        fields = {"text_column": text, "id_column": "id", **options}
        make_project(folder, own_data(source, fields), Console(file=output))
        said = output.getvalue()
    else:
        arguments = ["init", str(folder), "--from", source, "--text", text, "--id", "id"]
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 0, done.output
        said = done.output
    (folder / "data/public/schema.yaml").write_text(json.dumps(SCHEMA))
    return folder, said


def prepared(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Run what `check` and a run do before the first charge. Returns the records by part."""
    project = open_project(folder)
    fingerprint.run(project)
    stamp = (folder / "data/stamps/corpus.json").read_text()
    assert sum(corpus_findings(project).tally.values()) == len(ROWS)
    prepare.run(project)
    fingerprint.run(project)
    assert (folder / "data/stamps/corpus.json").read_text() == stamp
    tables = {part: private_store(project).prepared_file(part) for part in (TRAIN, HELDOUT)}
    frames = {part: pd.read_parquet(path) for part, path in tables.items()}
    return {part: own.sort_values("id").to_dict("records") for part, own in frames.items()}


@pytest.fixture
def expected(tmp_path: Path) -> Any:
    WRITERS["JSON lines"](tmp_path, ROWS)
    (tmp_path / "reference").mkdir()
    folder, _ = init("data.jsonl")
    records = prepared(folder)
    folder.rename("reference/project")
    assert sum(map(len, records.values())) == len(ROWS)
    return records


@pytest.mark.parametrize("kind", WRITERS)
def test_each_format_from_init_to_prepare(tmp_path: Path, expected: Any, kind: str) -> None:
    pytest.importorskip(NEEDS.get(kind, "pyarrow"))
    source = WRITERS[kind](tmp_path, ROWS)
    folder, said = init(source)
    assert "Küche" not in said
    assert prepared(folder) == expected


def test_a_csv_file_of_windows(tmp_path: Path, expected: Any) -> None:
    """The header decides about the encoding, and `init` says so. Otherwise, `check` names it."""
    columns = {"text": "Größe", "id": "id", "stars": "stars"}
    rows = [{columns[name]: value for name, value in row.items()} for row in ROWS]
    source = csv_writer("cp1252", ";")(tmp_path, rows)
    folder, said = init(source, text="Größe")
    assert "It was read as cp1252, so params.yaml sets prepare.encoding: cp1252" in said
    assert prepared(folder) == expected
    folder.rename("first")
    folder, said = init(csv_writer("cp1252", ";")(tmp_path, ROWS))
    assert "cp1252" not in said
    with pytest.raises(InputError, match=r"line 2: is not UTF-8.*Set prepare\.encoding") as refusal:
        prepared(folder)
    assert "Brief" not in str(refusal.value)
    settings = folder / "params.yaml"
    settings.write_text(settings.read_text().replace("prepare:", "prepare:\n  encoding: cp1252"))
    assert prepared(folder) == expected


@pytest.mark.parametrize("kind", ["JSON lines", "json", "parquet", "Arrow stream"])
def test_a_text_inside_an_object(tmp_path: Path, expected: Any, kind: str) -> None:
    folder, _ = init(WRITERS[kind](tmp_path, NESTED), text="letter.text")
    assert prepared(folder) == expected


def test_a_sheet_of_a_workbook(tmp_path: Path, expected: Any) -> None:
    pytest.importorskip("openpyxl")
    lines = [list(ROWS[0]), *(list(row.values()) for row in ROWS)]
    xlsx(tmp_path / "data.xlsx", {"2025": lines, "2026": [*lines[:1], *lines[:0:-1]]})
    with pytest.raises(InputError, match=r"2 sheets have the columns.*in --table"):
        init(str(tmp_path / "data.xlsx"), table=None, subject="letters")
    folder, _ = init("data.xlsx", table="2026")
    assert load_params(folder / "params.yaml").prepare.table == "2026"
    assert prepared(folder) == expected


@pytest.mark.parametrize("source", ["parts", "parts/part-*.json"])
def test_git_ignores_the_files_of_a_folder_or_a_pattern(
    tmp_path: Path, expected: Any, source: str
) -> None:
    folder = Path("project")
    (folder / "parts").mkdir(parents=True)
    for start in (0, 50):
        name = json_writer()(folder / "parts", ROWS[start : start + 50] if not start else ROWS[50:])
        (folder / "parts" / name).rename(folder / "parts" / f"part-{start}.json")
    init(f"project/{source}")
    assert prepared(folder) == expected
    listed = subprocess.run(
        ["git", "ls-files", "--others", "--exclude-standard"],
        cwd=folder,
        text=True,
        capture_output=True,
        check=True,
    ).stdout
    assert "part-" not in listed and "schema.yaml" in listed


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    pytest.importorskip("psycopg")
    if binaries() is None:
        pytest.skip("PostgreSQL is not installed")
    with running_postgres() as postgres:
        yield postgres


@pytest.mark.parametrize("order", ["", "ORDER BY id DESC"])
def test_a_table_of_postgresql(
    server: Postgres, expected: Any, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGUSER", "prefect")
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    import psycopg

    url = f"postgresql://127.0.0.1:{server.port}/postgres"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS letters")
        connection.execute("CREATE TABLE letters (id text, text text, stars numeric(4, 2))")
        for row in ROWS:
            statement = "INSERT INTO letters VALUES (%(id)s, %(text)s, %(stars)s)"
            connection.execute(statement, row)
    folder, said = init(url)
    settings = folder / "params.yaml"
    if order:
        table = f"prepare:\n  table: SELECT * FROM letters {order}"
        declared = f"{table}\n  rows_depend_on_other_rows: false"  # an order changes no row
        settings.write_text(settings.read_text().replace("prepare:", declared))
    assert prepared(folder) == expected
    assert load_params(settings).privacy.dataset == "postgres"
    written = [file for root in (folder, Path("state")) for file in root.rglob("*")]
    assert PASSWORD not in said
    assert not any(PASSWORD.encode() in f.read_bytes() for f in written if f.is_file())


def test_a_changed_table_is_a_changed_corpus(tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy")
    import sqlite3
    from contextlib import closing

    folder, _ = init(WRITERS["sqlite"](tmp_path, ROWS))
    assert load_params(folder / "params.yaml").prepare.file == "sqlite:///../data.db"

    def stamp() -> str:
        fingerprint.run(open_project(folder))
        return (folder / "data/stamps/corpus.json").read_text()

    first = stamp()
    with closing(sqlite3.connect("data.db")) as database, database:
        database.execute("CREATE TABLE another (a)")
    assert stamp() == first
    with closing(sqlite3.connect("data.db")) as database, database:
        database.execute("UPDATE letters SET stars = 7 WHERE id = 'r1'")
    assert stamp() != first
