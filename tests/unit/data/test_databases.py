"""Tests that rows of SQLite and PostgreSQL are read, and that a database is never changed."""

from __future__ import annotations

import hashlib
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from sugarbush.data.formats.rows import ReadOptions
from sugarbush.data.reading import column_names, digest_of_source, read_rows, row_batches
from sugarbush.data.remote import Database, source_of
from sugarbush.errors import InputError, ParamsError
from sugarbush.pipeline.settings import parse_params
from sugarbush.settings import SECRET
from tests.integration.postgres import Postgres, binaries, running_postgres

pytest.importorskip("sqlalchemy")
CANARY, PASSWORD = "canary-7731", "hunter2-sesame"
WANTED = {"text": "prepare.text_column", "id": "prepare.id_column"}
SQL = f"""
CREATE TABLE letters (id text, "text" text, stars int, price numeric(9, 2), late boolean,
    day date, at timestamptz, who uuid, ticket jsonb, tags text[]);
INSERT INTO letters VALUES
    ('r2', 'Zwei; 100% "weg" für :name', 2, 2.50, false, '2026-11-21', '2026-11-21 08:00+02',
     '00000000-0000-0000-0000-00000000000a',
     '{{"body": "late", "by": {{"name": "u1"}}}}', '{{a,b}}'),
    ('r1', 'Eins {CANARY}', 5, 3.00, true, '2026-01-01', '2026-01-01 00:00+00',
     '00000000-0000-0000-0000-00000000000b', NULL, NULL);
CREATE TABLE "Other Table" (id int);
CREATE SCHEMA archive;
CREATE TABLE archive.letters (id text, "text" text);
INSERT INTO archive.letters VALUES ('old', 'an old letter');
CREATE FUNCTION remove_all() RETURNS int LANGUAGE sql AS 'DELETE FROM letters; SELECT 1';
CREATE ROLE reader LOGIN PASSWORD '{PASSWORD}';
GRANT SELECT ON letters TO reader;
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    pytest.importorskip("psycopg")
    if binaries() is None:
        pytest.skip("PostgreSQL is not installed")
    with running_postgres() as postgres:
        psql(postgres, SQL)
        yield postgres


@pytest.fixture(autouse=True)
def login(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGUSER", "prefect")
    monkeypatch.setenv("PGPASSWORD", PASSWORD)


def psql(server: Postgres, statements: str) -> str:
    folder = binaries()
    assert folder is not None
    url = f"postgresql://prefect@127.0.0.1:{server.port}/postgres"
    command = [str(folder / "psql"), "-qAt", "-v", "ON_ERROR_STOP=1", url]
    done = subprocess.run(command, input=statements, text=True, capture_output=True, check=True)
    return done.stdout


def read(url: str, wanted: Any = WANTED, base: Path = Path(), table: str | None = None) -> Any:
    source = source_of(base, url, setting="prepare.file")
    options = ReadOptions(table=table)
    return read_rows(source, setting="prepare.file", wanted=wanted, options=options)


def url_of(server: Postgres) -> str:
    return f"postgresql://127.0.0.1:{server.port}/postgres"


def test_the_rows_of_a_table(server: Postgres) -> None:
    wanted = WANTED | dict.fromkeys(
        ("stars", "price", "late", "day", "at", "who", "ticket.body", "ticket.by.name", "tags"), "s"
    )
    first, second = [row.fields for row in read(url_of(server), wanted)]
    assert (first["id"], second["id"]) == ("r1", "r2"), "by id"
    assert second["text"] == 'Zwei; 100% "weg" für :name'
    assert str(second["price"]) == "2.50" and second["late"] is False
    assert str(second["at"]) == "2026-11-21 06:00:00+00:00"
    assert second["who"] == "00000000-0000-0000-0000-00000000000a"
    assert (second["ticket.body"], second["ticket.by.name"]) == ("late", "u1")
    assert second["tags"] == ["a", "b"]
    assert "ticket.body" not in first


@pytest.mark.parametrize("table", ["letters", "public.letters"])
def test_a_table_by_its_name(server: Postgres, table: str) -> None:
    assert [row.fields["id"] for row in read(url_of(server), table=table)] == ["r1", "r2"]
    assert [row.fields["id"] for row in read(url_of(server), table="archive.letters")] == ["old"]


@pytest.mark.parametrize(
    "query",
    [
        'SELECT id, "text" FROM letters WHERE "text" LIKE \'%100% %\' AND stars::int < 3;',
        "select 'r2' AS id, 'Zwei :name' AS \"text\"",
        'SELECT id, "text" FROM letters WHERE stars = 2 -- only few',
        "WITH few AS (SELECT * FROM letters WHERE id = 'r2') SELECT * FROM few ORDER BY stars",
    ],
)
def test_a_query(server: Postgres, query: str) -> None:
    (row,) = read(url_of(server), table=query)
    assert row.fields["id"] == "r2" and row.fields["text"].startswith("Zwei")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("gone", "has no table 'gone' .setting prepare.table"),
        ("SELECT * FROM gone", "a table does not exist"),
        ("SELECT gone FROM letters", "a column does not exist"),
        ("SELECT FROM WHERE", "the query is not valid SQL"),
        ('SELECT id, "text" FROM letters) AS x; DELETE FROM letters; --', "one SELECT without"),
        ("SELECT remove_all()::text AS id, 'a'::text AS \"text\"", "the query changes data"),
        ("WITH gone AS (DELETE FROM letters RETURNING *) SELECT * FROM gone", "cannot be read"),
        ('SELECT id, "text", "text"::int AS stars FROM letters', "SQLSTATE 22P02"),
        ("Other Table", "has no column 'text'"),
        ('SELECT id, id, "text" FROM letters', "names a column twice"),
    ],
)
def test_errors_show_no_value_and_change_nothing(
    server: Postgres, table: str, message: str
) -> None:
    wanted = WANTED | ({"stars": "s"} if "stars" in table else {})
    with pytest.raises(InputError, match=message) as refusal:
        read(url_of(server), wanted, table=table)
    assert CANARY not in str(refusal.value) and PASSWORD not in str(refusal.value)
    error = refusal.value
    assert error.__cause__ is None and (error.__suppress_context__ or not error.__context__)
    assert psql(server, "SELECT count(*) FROM letters") == "2\n"


def test_the_user_needs_the_right_to_read(server: Postgres, monkeypatch: Any) -> None:
    monkeypatch.setenv("PGUSER", "reader")
    assert len(read(url_of(server), table="letters")) == 2
    assert len(read(url_of(server))) == 2, "the other tables are not read"
    with pytest.raises(InputError, match="the user may not read the table"):
        read(url_of(server), table="SELECT * FROM archive.letters")


@pytest.mark.parametrize("url", ["postgresql://127.0.0.1:9/x", "postgresql:///x?host=/nowhere"])
def test_a_server_that_is_not_there_is_named_without_the_password(url: str) -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(InputError, match=r"cannot connect.*PGUSER and PGPASSWORD") as refusal:
        read(url)
    assert PASSWORD not in str(refusal.value)


@pytest.mark.parametrize(
    "url", [f"postgresql://me:{PASSWORD}@host/db", f"postgresql://host/db?password={PASSWORD}"]
)
def test_a_password_in_a_url_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(InputError, match=r"^--from: a URL must have no user") as refusal:
        source_of(Path(), url, setting="--from")
    assert SECRET in str(refusal.value) and PASSWORD not in str(refusal.value)
    fields: dict[str, Any] = {"prepare": {"file": url}, "privacy": {"dataset": "d"}}
    with pytest.raises(ParamsError, match=r"prepare\.file") as refused:
        parse_params(fields)
    assert PASSWORD not in str(refused.value)


def test_rows_are_streamed_by_a_cursor_of_the_server(server: Postgres) -> None:
    """A cursor of the client would receive all rows before the first one is returned."""
    query = "SELECT i::text AS id, 'a'::text AS \"text\" FROM generate_series(1, 20000) AS i"
    source = source_of(Path(), url_of(server), setting="s")
    batches = row_batches(source, setting="s", wanted=WANTED, options=ReadOptions(table=query))
    _, rows = next(iter(batches))
    assert len(rows) == 2**14
    opened = psql(server, "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%FETCH%'")
    assert int(opened) >= 1, "a cursor fetches the rows"
    del batches


@pytest.fixture
def letters(tmp_path: Path) -> Path:
    with closing(sqlite3.connect(tmp_path / "my shop?.db")) as database, database:
        database.execute("CREATE TABLE letters (id TEXT, text TEXT, stars INT)")
        rows = [("r2", "two", 2), ("r1", f"one {CANARY}", 1)]
        database.executemany("INSERT INTO letters VALUES (?, ?, ?)", rows)
        database.execute("CREATE TABLE products (id TEXT)")
    return tmp_path


URL = "sqlite:///my shop?.db"


def test_a_file_of_sqlite_is_read_and_not_changed(letters: Path) -> None:
    file = letters / "my shop?.db"
    before = hashlib.sha256(file.read_bytes()).digest()
    assert [row.fields["id"] for row in read(URL, base=letters)] == ["r1", "r2"]
    assert len(read(f"sqlite:///{file}", base=Path("/"))) == 2
    with pytest.raises(InputError, match="one SELECT"):
        read(URL, base=letters, table="SELECT 1; DELETE FROM letters")
    with pytest.raises(InputError, match="cannot be read"):
        read(URL, base=letters, table="WITH x AS (DELETE FROM letters) SELECT 1")
    assert hashlib.sha256(file.read_bytes()).digest() == before
    assert sorted(p.name for p in letters.iterdir()) == [file.name]


def test_a_missing_file_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone\.db: not found \(setting prepare\.file\)"):
        read("sqlite:///gone.db", base=tmp_path)
    with pytest.raises(InputError, match="names no file"):
        read("sqlite://", base=tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_only_table_with_the_columns_is_read(letters: Path) -> None:
    with pytest.raises(InputError, match="no table has the columns 'gone'"):
        read(URL, {"gone": "s"}, base=letters)
    with closing(sqlite3.connect(letters / "my shop?.db")) as database, database:
        database.execute("CREATE VIEW recent AS SELECT * FROM letters")
    with pytest.raises(InputError, match=r"2 tables have the columns.*in prepare\.table") as found:
        read(URL, base=letters)
    assert "recent" not in str(found.value)
    assert len(read(URL, base=letters, table="recent")) == 2


def test_a_text_that_is_not_utf8_is_not_quoted(letters: Path) -> None:
    with closing(sqlite3.connect(letters / "my shop?.db")) as database, database:
        database.execute(
            "INSERT INTO letters VALUES ('r3', CAST(? AS TEXT), 1)", (CANARY.encode() + b"\xff",)
        )
    with pytest.raises(InputError, match="cannot be read") as refusal:
        read(URL, base=letters)
    assert CANARY not in str(refusal.value) and refusal.value.__suppress_context__


def test_the_digest_depends_on_the_columns_that_are_read_and_not_on_their_order(
    letters: Path,
) -> None:
    def digest() -> bytes:
        source = source_of(letters, URL, setting="s")
        options = ReadOptions(table="letters")
        return digest_of_source(source, setting="s", wanted=WANTED, options=options)

    def change(statement: str) -> bytes:
        with closing(sqlite3.connect(letters / "my shop?.db")) as database, database:
            database.execute(statement)
        return digest()

    first = digest()
    assert change("UPDATE letters SET stars = 7") == first
    assert change("CREATE TABLE copy AS SELECT * FROM letters ORDER BY id") != b""
    change("DELETE FROM letters")
    assert change("INSERT INTO letters SELECT * FROM copy ORDER BY id") == first
    assert change("UPDATE letters SET text = 'changed' WHERE id = 'r2'") != first


def test_column_names_of_a_database(letters: Path, server: Postgres) -> None:
    source = source_of(letters, URL, setting="--from")
    assert column_names(source, required=WANTED, setting="--from") == ("id", "text", "stars")
    names = column_names(
        Database(url_of(server), Path()), required={"ticket.body": "--text"}, setting="--from"
    )
    assert {"id", "text", "ticket"} <= set(names)
    with pytest.raises(InputError, match="no table has the columns"):
        column_names(source, required={"gone": "--text"}, setting="--from")


def test_the_extra_is_named(letters: Path) -> None:
    with (
        mock.patch.dict("sys.modules", {"sqlalchemy": None}),
        pytest.raises(ParamsError, match=r"a database needs the package sqlalchemy.*\[sql\]"),
    ):
        read(URL, base=letters)
