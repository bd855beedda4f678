"""Tests that rows of SQLite and PostgreSQL are read, and that a database is never changed."""

from __future__ import annotations

import hashlib
import re
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
from sugarbush.run.settings import parse_params
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


def psql(server: Postgres, statements: str, database: str = "postgres") -> str:
    folder = binaries()
    assert folder is not None
    url = f"postgresql://prefect@127.0.0.1:{server.port}/{database}"
    command = [str(folder / "psql"), "-qAt", "-v", "ON_ERROR_STOP=1", url]
    done = subprocess.run(command, input=statements, text=True, capture_output=True, check=True)
    return done.stdout


def read(
    url: str,
    wanted: Any = WANTED,
    base: Path = Path(),
    table: str | None = None,
    *,
    independent: bool = False,
) -> Any:
    source = source_of(base, url, setting="prepare.file")
    options = ReadOptions(table=table, rows_are_independent=independent)
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
    (row,) = read(url_of(server), table=query, independent=True)
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
        read(url_of(server), wanted, table=table, independent=True)
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


ROW_WISE = [
    """SELECT id, "text" FROM letters WHERE stars < 3""",
    """select l.id, lower(l."text") as "text" from public.letters as l
       where l.stars in (1, 2) and not (l.late or l.price >= 100.5) and l.day is not null;""",
    """SELECT *, ticket ->> 'body' AS body FROM letters
       WHERE "text" LIKE '100!%%' ESCAPE '!' OR stars::int BETWEEN 1 AND 4""",
    """SELECT letters.* FROM letters
       WHERE day >= DATE '2026-11-01' AND extract(year FROM day) = 2026 AND trim("text") <> ''""",
    """SELECT id, CASE WHEN stars > 3 THEN 'good' ELSE "text" END AS "text" FROM letters
       WHERE cast(price AS numeric(9, 2)) * 2 - 1 < 5 AND coalesce(length("text"), 0) > 1""",
]
NOT_ROW_WISE = [
    """SELECT id, "text" FROM letters ORDER BY stars LIMIT 1""",
    """SELECT id, "text" FROM letters LIMIT 1""",
    """SELECT id, "text" FROM letters OFFSET 1""",
    """SELECT id, "text" FROM letters FETCH FIRST 1 ROW ONLY""",
    """SELECT id, "text", count(*) OVER () AS stars FROM letters""",
    """SELECT id, "text", row_number() OVER (ORDER BY id) AS stars FROM letters""",
    """SELECT DISTINCT id, "text" FROM letters""",
    """SELECT DISTINCT ON (stars) id, "text" FROM letters""",
    """SELECT max(id) AS id, "text" FROM letters GROUP BY "text\"""",
    """SELECT max(id) AS id, max("text") AS "text" FROM letters""",
    """SELECT id, "text" FROM letters WHERE stars = (SELECT max(stars) FROM letters)""",
    """SELECT id, "text" FROM letters WHERE id IN (SELECT id FROM letters LIMIT 1)""",
    """SELECT id, "text" FROM letters WHERE EXISTS (SELECT 1 FROM archive.letters)""",
    """SELECT id, "text" FROM letters WHERE stars >= ALL (TABLE letters)""",
    """SELECT a.id, b."text" FROM letters a JOIN letters b ON a.stars >= b.stars""",
    """SELECT a.id, b."text" FROM letters a, letters b""",
    """SELECT id, "text" FROM letters NATURAL JOIN letters b""",
    """SELECT id, "text" FROM letters UNION SELECT id, "text" FROM archive.letters""",
    """SELECT id, "text" FROM letters EXCEPT SELECT id, "text" FROM archive.letters""",
    """SELECT id, "text" FROM letters TABLESAMPLE system (50)""",
    """SELECT id, "text" FROM letters WHERE random() < 0.5""",
    """SELECT id, "text" FROM letters WHERE at < now()""",
    """SELECT id, "text" FROM letters WHERE day < current_date""",
    """SELECT id, "text" FROM letters WHERE ctid < '(0,2)'""",
    """SELECT id, regexp_split_to_table("text", ' ') AS "text" FROM letters""",
    """SELECT id, unnest(tags) AS "text" FROM letters""",
    """SELECT id, "text" FROM (SELECT * FROM letters LIMIT 1) AS few""",
    """SELECT id, "text" FROM LATERAL (SELECT * FROM letters) AS few""",
    """SELECT i::text AS id, 'a'::text AS "text" FROM generate_series(1, 3) AS i""",
    """WITH few AS (SELECT * FROM letters LIMIT 1) SELECT * FROM few""",
    """SELECT id, "text" FROM letters -- all""",
    """SELECT id, "text" FROM letters /* all */""",
    """SELECT id, "text" FROM letters WHERE $$a$$ = "text\"""",
    """SELECT id, "text" FROM letters WHERE "text" = E'a\\'""",
    """SELECT letters.remove_all AS id, "text" FROM letters""",
    """SELECT 'r1' AS id, 'one' AS "text\"""",
    """SELECT id, "text" FROM first_letters""",
    """SELECT id, "text" FROM secured""",
    """SELECT id, "text" FROM stored""",
    """SELECT id, "text" FROM on_a_view_with_a_limit""",
    """SELECT id, "text" FROM in_parts""",
    """SELECT id, "text" FROM in_parts_of_parts""",
    """SELECT id, "text" FROM with_children""",
    "in_parts",
    "in_parts_of_parts",
    "with_children",
    "first_letters",
    "numbered",
    "stored",
    "on_a_view_with_a_limit",
    "secured",
]
VIEWS = """
CREATE VIEW of_z AS SELECT * FROM letters WHERE stars IN (1, 2, 3) AND lower("text") LIKE 'z%'
    AND (ticket ->> 'body') = 'late' AND day > '2026-01-01' AND late IS NOT TRUE
    AND extract(year FROM day) = 2026 AND trim("text") <> '' AND "text" NOT ILIKE 'x%';
CREATE VIEW on_a_view AS SELECT s.id, s."text", s.stars + 1 AS stars FROM of_z s;
CREATE VIEW first_letters AS SELECT * FROM letters ORDER BY id LIMIT 1;
CREATE VIEW on_a_view_with_a_limit AS SELECT id, "text" FROM first_letters;
CREATE VIEW numbered AS SELECT id, "text", row_number() OVER () AS stars FROM letters;
CREATE MATERIALIZED VIEW stored AS SELECT * FROM letters;
CREATE TABLE secured (id text, "text" text, stars int);
ALTER TABLE secured ENABLE ROW LEVEL SECURITY;
ALTER TABLE secured FORCE ROW LEVEL SECURITY;
CREATE FOREIGN DATA WRAPPER elsewhere;
CREATE SERVER another FOREIGN DATA WRAPPER elsewhere;
CREATE TABLE in_parts (id text, "text" text, stars int) PARTITION BY LIST (stars);
CREATE FOREIGN TABLE part_there PARTITION OF in_parts FOR VALUES IN (1) SERVER another;
CREATE TABLE in_parts_of_parts (id text, "text" text, stars int) PARTITION BY LIST (stars);
CREATE TABLE part_with_parts PARTITION OF in_parts_of_parts DEFAULT PARTITION BY LIST (id);
CREATE FOREIGN TABLE part_of_a_part PARTITION OF part_with_parts DEFAULT SERVER another;
CREATE TABLE with_children (id text, "text" text, stars int);
CREATE FOREIGN TABLE child_there () INHERITS (with_children) SERVER another;
CREATE TABLE in_parts_here (id text, "text" text, stars int) PARTITION BY LIST (stars);
CREATE TABLE part_here PARTITION OF in_parts_here DEFAULT;
INSERT INTO in_parts_here VALUES ('r2', 'Zwei', 2);
GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader;
"""


@pytest.fixture(scope="module")
def views(server: Postgres) -> str:
    """Return the URL of a database with views."""
    psql(server, "CREATE DATABASE views")
    psql(server, re.sub("CREATE ROLE.*", "", SQL) + VIEWS, "views")
    return url_of(server).replace("/postgres", "/views")


@pytest.mark.parametrize("query", [*ROW_WISE, "of_z", "on_a_view", "in_parts_here"])
def test_a_select_and_a_view_of_one_row_at_a_time_are_read(views: str, query: str) -> None:
    assert [row.fields["id"] for row in read(views, table=query)] == ["r2"]


@pytest.mark.parametrize("query", NOT_ROW_WISE)
def test_a_row_that_may_depend_on_other_rows_is_refused(
    views: str, query: str, monkeypatch: Any
) -> None:
    """`secured` is secured for ordinary users only."""
    monkeypatch.setenv("PGUSER", "reader")
    with pytest.raises(InputError, match=r"prepare\.rows_depend_on_other_rows: false") as refusal:
        read(views, table=query)
    assert CANARY not in str(refusal.value) and "\n" not in str(refusal.value)
    names = Database(views, Path())
    with pytest.raises(InputError, match=r"depend on (other rows|the time)"):
        column_names(names, required={}, setting="--from", options=ReadOptions(table=query))


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id, text FROM letters ORDER BY stars LIMIT 1",
        "SELECT id, text, rank() OVER (ORDER BY stars) AS stars FROM letters",
        "SELECT id, text FROM letters WHERE rowid <= 1",
        "SELECT id, text FROM letters WHERE _rowid_ <= 1",
        "SELECT id, text FROM letters WHERE random() > 0",
        "SELECT id, max(text) AS text FROM letters",
        "SELECT id, text FROM letters WHERE stars < (SELECT avg(stars) FROM letters)",
        "SELECT name AS id, sql AS text FROM sqlite_master",
        "SELECT id, text FROM letters WHERE stars IN stars",
        'SELECT id, text FROM letters WHERE id > 0 AND stars NOT IN "stars"',
        "SELECT id, text FROM few",
        "SELECT id, text FROM [few]",
        "SELECT id, text FROM searched",
        "few",
        "FEW",
        "counted",
        "starred",
        "searched",
    ],
)
def test_a_query_of_sqlite_that_may_depend_on_other_rows_is_refused(
    letters: Path, query: str
) -> None:
    with closing(sqlite3.connect(letters / "my shop?.db")) as database, database:
        database.execute("CREATE VIEW few AS SELECT * FROM letters LIMIT 1")
        database.execute("CREATE VIEW counted AS SELECT id, text, count(*) OVER () FROM letters")
        database.execute("CREATE TABLE stars (stars INT)")
        database.execute("CREATE VIEW starred AS SELECT * FROM letters WHERE stars IN stars")
        database.execute("CREATE VIRTUAL TABLE searched USING fts5(id, text)")
        database.execute("CREATE VIEW good (id, text) AS SELECT id, upper(text) FROM letters")
    with pytest.raises(InputError, match=r"prepare\.rows_depend_on_other_rows: false"):
        read(URL, base=letters, table=query)
    assert len(read(URL, base=letters, table="good")) == 2
    assert len(read(URL, base=letters, table='select id, "text" from "letters" where stars>0')) == 2
    assert read(URL, base=letters, table="select id, text from letters where stars in (stars)")


@pytest.mark.parametrize(
    "condition",
    [
        "day < DATE 'today'",
        "day < date 'now'",
        "day = 'yesterday'::date",
        "at < timestamp 'tomorrow'",
        "at < ' NOW '::timestamp",
        "at < 'today 08:00'::timestamp",
        "at < 'now()'",
        "at < CAST('today' AS date)",
        "at < 'tomorrow UTC'::timestamptz",
        "day IN ('2026-01-31', 'today')",
        "day BETWEEN 'yesterday' AND 'today'",
        "day < CURRENT_DATE - 30",
        "at < localtimestamp",
    ],
)
def test_a_query_that_depends_on_the_time_is_refused(letters: Path, condition: str) -> None:
    with closing(sqlite3.connect(letters / "my shop?.db")) as database, database:
        database.execute("CREATE VIEW new AS SELECT id, text FROM letters WHERE id < current_date")
    for table in (f"SELECT id, text FROM letters WHERE {condition}", "new"):
        with pytest.raises(InputError, match="depend on the time of the query"):
            read(URL, base=letters, table=table)


@pytest.mark.parametrize(
    "condition",
    [
        "text NOT LIKE '%today%'",
        "text NOT LIKE 'now'",
        "text <> 'right now'",
        "text <> '2026-01-31'",
        "text <> 'infinity'",
    ],
)
def test_a_condition_on_words_is_no_time(letters: Path, condition: str) -> None:
    read(URL, base=letters, table=f"SELECT id, text FROM letters WHERE {condition}")


def test_a_view_that_is_found_by_its_columns_is_checked_too(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database, database:
        database.execute("CREATE TABLE letters (number INT, body TEXT)")
        database.execute(
            "CREATE VIEW few AS SELECT number AS id, body AS text FROM letters LIMIT 1"
        )
    with pytest.raises(InputError, match="'few' has a view with the word LIMIT"):
        read("sqlite:///shop.db", base=tmp_path)


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
    options = ReadOptions(table=query, rows_are_independent=True)
    batches = row_batches(source, setting="s", wanted=WANTED, options=options)
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
        changing = "WITH x AS (DELETE FROM letters) SELECT 1"
        read(URL, base=letters, table=changing, independent=True)
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
