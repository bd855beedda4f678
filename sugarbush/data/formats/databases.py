"""Reads rows of a table or a query from PostgreSQL or SQLite. Needs the extra `sql`.

Rows are read in one read-only transaction, as a stream. User and password come from the variables
of libpq, such as `PGUSER` and `PGPASSWORD`, or from its password file. A message of the server may
quote a value, so no message of the server is shown.

One more row in a table must add at most one row to the corpus, and change no other. So a SELECT and
the definition of a view must be in the grammar of `row_wise`, unless the user declares that no row
depends on other rows.

Rows are sorted by the columns that are read. Without an order, a database may return the same rows
in another order each time, and then results would be computed and charged again.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote
from uuid import UUID

from sugarbush.data.formats.interface import Format
from sugarbush.data.formats.row_wise import (
    DependsOnTimeError,
    NotRowWiseError,
    row_wise_select,
)
from sugarbush.data.formats.rows import (
    WHOLE,
    Reading,
    Row,
    Span,
    add_paths,
    require_columns,
)
from sugarbush.data.remote import SQLITE, Database
from sugarbush.errors import InputError, UsageError
from sugarbush.extras import require_extra
from sugarbush.paths import find_input
from sugarbush.privacy.remarks import ROWS_SETTING

if TYPE_CHECKING:
    from sqlalchemy import Connection

_BUFFER_ROWS = 1000
_QUERY = re.compile(r"\s*(select|with)\s", re.IGNORECASE)
_VIEW_OF_SQLITE = re.compile(
    r"""\s*create\s+view\s+(\w+|"([^"]|"")*"|\[[^]]*\]|`[^`]*`)(\s*\([^()]*\))?\s+as(?=\s)""",
    re.IGNORECASE,
)
_OTHER_KIND = "a kind of table that may compute its rows from several rows"
_MOST_VIEWS = 20  # views on views
# Row-level security may read other rows. Tables of other servers may be views there, also if they
# are partitions or children of a table here.
_KIND_IN_POSTGRES = """
WITH RECURSIVE below (id) AS (
    SELECT to_regclass(:name)::oid
    UNION SELECT inhrelid FROM pg_inherits JOIN below ON inhparent = id
)
SELECT relkind, pg_get_viewdef(oid), row_security_active(oid),
    EXISTS (SELECT FROM pg_class JOIN below ON oid = id WHERE relkind = 'f')
FROM pg_class WHERE oid = to_regclass(:name)
"""
_KIND_IN_SQLITE = """
SELECT type, sql FROM sqlite_master
WHERE lower(name) = lower(:name) AND type IN ('table', 'view') AND sql IS NOT NULL
"""
_PARAMETER = re.compile(r"(?<![:\w\\]):(?=\w)")  # what SQLAlchemy would take for a parameter
_REASONS = {
    "42P01": "a table does not exist",
    "42703": "a column does not exist",
    "42601": "the query is not valid SQL",
    "42501": "the user may not read the table",
    "25006": "the query changes data",
}


class Table(Format[Database]):
    """A table, a view or a SELECT of a database."""

    extra: ClassVar[str | None] = "sql"
    has_conversations: ClassVar[bool] = False

    def require_packages(self, name: str) -> None:
        require_extra("sql", *(["sqlalchemy"] if name.startswith("sqlite") else []))

    def names(self, database: Database, reading: Reading) -> Sequence[str]:
        """Return the names of the columns that `rows` can read."""
        with _connection(database, reading.setting) as connection:
            return _Relation(connection, database, reading).columns

    def rows(self, database: Database, reading: Reading, span: Span = WHOLE) -> Iterator[Row]:
        """Yield the wanted columns, or all columns, of the rows, counted from 1.

        The rows come from the table, view or SELECT in `prepare.table`. Without this setting, they
        come from the only table or view with the required columns.
        """
        with _connection(database, reading.setting) as connection:
            relation = _Relation(connection, database, reading)
            for number, fields in enumerate(relation.rows(), start=1):
                yield Row(number, add_paths(fields, reading))

    def require_columns(
        self, database: Database, required: Mapping[str, str], names: Iterable[str]
    ) -> None:
        """Do nothing: `names` refuses a table without the required columns, and knows the dotted
        paths in columns of JSON."""

    def digest(self, database: Database, reading: Reading) -> Iterator[bytes]:
        """Yield the wanted columns of each row."""
        for row in self.rows(database, reading):
            values = [row.fields.get(name) for name in reading.wanted]
            yield json.dumps(values, default=str).encode() + b"\n"


class _Relation:
    """A table, a view or a query, and its columns."""

    def __init__(self, connection: Connection, database: Database, reading: Reading) -> None:
        self._connection, self._reading = connection, reading
        query = _QUERY.match(reading.options.table or "")
        find = _query if query else _table
        self._source = find(connection, database, reading)
        if not reading.options.rows_are_independent:
            _require_row_wise(connection, database, reading, None if query else self._source)
        self.columns = _columns(connection, self._source)
        columns = {name for name in reading.wanted if _column_of(name, self.columns) is not None}
        require_columns(database, reading.wanted, columns)
        if any(self.columns.count(name) > 1 for name in columns):
            raise InputError(f"{database}: names a column twice (setting {reading.setting})")

    def rows(self) -> Iterator[dict[str, Any]]:
        import sqlalchemy as sa

        reading = self._reading
        names = [_column_of(name, self.columns) for name in reading.wanted]
        if reading.all_columns:
            names += self.columns
        chosen = [name for name in dict.fromkeys(names) if name is not None]
        # The id comes first, because it nearly always decides the order.
        order = sorted(chosen, key=lambda name: reading.wanted.get(name) != "prepare.id_column")
        statement = (
            sa.select(*map(sa.column, chosen))
            .select_from(self._source)
            .order_by(*(sa.cast(sa.column(name), sa.Text) for name in order))
            .execution_options(stream_results=True, max_row_buffer=_BUFFER_ROWS)
        )
        with self._connection.execute(statement) as result:
            for values in result:
                yield dict(zip(chosen, map(_value, values), strict=True))


def _query(_: Connection, database: Database, reading: Reading) -> Any:
    import sqlalchemy as sa

    query = (reading.options.table or "").strip().removesuffix(";")
    if ";" in query:
        raise InputError(
            f"{database}: expected one SELECT without `;` (setting {reading.option('table')})"
        )
    escaped = _PARAMETER.sub(r"\\:", query)
    return sa.text(f"({escaped}\n) AS records")  # the query may end with a comment


def _require_row_wise(
    connection: Connection, database: Database, reading: Reading, table: Any | None
) -> None:
    """Raise InputError if rows of the table, or of the SELECT in the settings, may depend on other
    rows."""
    where = "the SELECT" if table is None else f"'{table.name}'"
    try:
        if table is None:
            _check_select(connection, reading.options.table or "", _MOST_VIEWS)
        else:
            quote = connection.dialect.identifier_preparer.quote_identifier
            names = [name for name in (table.schema, table.name) if name is not None]
            _check_table(connection, names, ".".join(map(quote, names)), _MOST_VIEWS)
    except DependsOnTimeError as error:
        raise InputError(
            f"{database}: {where} has {error}, so its rows depend on the time of the query, and "
            "each day would be charged again. Write the date itself, such as DATE '2026-01-31', in "
            f"{reading.option('table')}. If you know that no row depends on others, you may set "
            f"{ROWS_SETTING}: false; the release card will say so"
        ) from None
    except NotRowWiseError as error:
        raise InputError(
            f"{database}: {where} has {error}, so its rows may depend on other rows: one more row "
            "could replace or change others, and the guarantee would not hold. Name a table in "
            f"{reading.option('table')}, or write SELECT columns FROM table WHERE a condition on "
            "the row's own columns. If you know that no row depends on others, set "
            f"{ROWS_SETTING}: false; the release card will say so"
        ) from None


def _check_select(connection: Connection, query: str, most_views: int) -> None:
    """Raise NotRowWiseError if a row of the SELECT may depend on several rows."""
    import sqlalchemy as sa

    select = row_wise_select(query)
    _check_table(connection, select.table.names, select.table.sql, most_views)
    nothing = sa.text(f"SELECT * FROM {select.table.sql} LIMIT 0")
    is_sqlite = connection.dialect.name == "sqlite"
    select.require_columns(
        list(connection.execute(nothing).keys()),
        spelling=lambda name, quoted: name if quoted and not is_sqlite else name.lower(),
    )


def _check_table(connection: Connection, names: Sequence[str], sql: str, most_views: int) -> None:
    """Raise NotRowWiseError for a view with rows that may depend on several rows, and for other
    kinds of tables. `names` are the parts of its name, and `sql` is the name in a SELECT."""
    is_sqlite = connection.dialect.name == "sqlite"
    find = _definition_in_sqlite if is_sqlite else _definition_in_postgres
    definition = find(connection, names, sql)
    if definition is None:
        return
    if not most_views:
        raise NotRowWiseError("too many views on views")
    try:
        _check_select(connection, definition, most_views - 1)
    except NotRowWiseError as error:
        raise type(error)(f"a view with {str(error).removeprefix('a view with ')}") from None


def _definition_in_sqlite(connection: Connection, names: Sequence[str], _: str) -> str | None:
    """Return the SELECT of a view, or None for a table. Raises NotRowWiseError."""
    import sqlalchemy as sa

    if len(names) == 1 or names[0].lower() == "main":
        found = connection.execute(sa.text(_KIND_IN_SQLITE), {"name": names[-1]})
        for kind, definition in found:
            if kind == "table" and re.match(r"\s*create\s+table\b", definition, re.IGNORECASE):
                return None
            if kind == "view" and (start := _VIEW_OF_SQLITE.match(definition)):
                return str(definition[start.end() :])
    raise NotRowWiseError(_OTHER_KIND)


def _definition_in_postgres(connection: Connection, _: Sequence[str], sql: str) -> str | None:
    """Return the SELECT of a view, or None for a table. Raises NotRowWiseError."""
    import sqlalchemy as sa

    found = connection.execute(sa.text(_KIND_IN_POSTGRES), {"name": sql})
    for kind, definition, is_secured, is_elsewhere in found:
        if is_secured:
            raise NotRowWiseError("row-level security")
        if kind in ("r", "p") and not is_elsewhere:
            return None
        if kind == "v":
            return str(definition)
    raise NotRowWiseError(_OTHER_KIND)


def _table(connection: Connection, database: Database, reading: Reading) -> Any:
    import sqlalchemy as sa

    inspector, required, setting = sa.inspect(connection), reading.wanted, reading.setting
    if (table := reading.options.table) is not None:
        schema, _, name = table.rpartition(".")
        for own_name, own_schema in ((table, None), (name, schema or None)):
            if inspector.has_table(own_name, own_schema):
                return sa.table(own_name, schema=own_schema)
        raise InputError(f"{database}: has no table '{table}' (setting {reading.option('table')})")
    fitting = []
    with warnings.catch_warnings():  # SQLAlchemy warns of types that it does not know
        warnings.simplefilter("ignore")
        for name in (*inspector.get_table_names(), *inspector.get_view_names()):
            # The catalog lists the columns of tables that the user may not read, too.
            columns = [column["name"] for column in inspector.get_columns(name)]
            if all(_column_of(each, columns) is not None for each in required):
                fitting.append(sa.table(name))
    if not fitting:
        names = ", ".join(f"'{column}'" for column in required)
        raise InputError(
            f"{database}: no table has the columns {names}. Check the names, or name a table of "
            f"another schema in {reading.option('table')} (setting {setting})"
        )
    if len(fitting) > 1:
        raise InputError(
            f"{database}: {len(fitting)} tables have the columns. Name one of them in "
            f"{reading.option('table')} (setting {setting})"
        )
    return fitting[0]


def _columns(connection: Connection, source: Any) -> list[str]:
    import sqlalchemy as sa

    nothing = sa.select(sa.literal_column("*")).select_from(source).limit(0)
    return list(connection.execute(nothing).keys())


def _column_of(name: str, columns: Sequence[str]) -> str | None:
    """Return the column `name`, or the JSON column that contains the dotted path `name`."""
    names = name.split(".")
    for count in (len(names), *range(1, len(names))):
        if (start := ".".join(names[:count])) in columns:
            return start
    return None


def _value(value: Any) -> Any:
    return str(value) if isinstance(value, UUID) else value


@contextmanager
def _connection(database: Database, setting: str) -> Iterator[Connection]:
    """Open a read-only transaction for a block. Any error becomes an InputError, without the
    message of the server."""
    require_extra("sql", "sqlalchemy")
    import sqlalchemy as sa

    connected = False
    try:
        engine = sa.create_engine(
            _url(database, setting), hide_parameters=True, poolclass=sa.NullPool
        )
        options: dict[str, Any] = {}
        if engine.dialect.name == "postgresql":
            options = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        with engine.connect().execution_options(**options) as connection, connection.begin():
            connected = True
            if engine.dialect.name == "postgresql":
                connection.execute(sa.text("SET LOCAL TIME ZONE 'UTC'"))
            yield connection
    except UsageError:
        raise
    except Exception as error:
        raise InputError(_message(database, error, setting, connected=connected)) from None


def _message(database: Database, error: Exception, setting: str, *, connected: bool) -> str:
    cause = getattr(error, "orig", None) or error
    state = getattr(cause, "sqlstate", None) or ""
    if not connected:
        return (
            f"{database}: cannot connect. Check the address, and set PGUSER and PGPASSWORD in the "
            f"environment (setting {setting})"
        )
    reason = _REASONS.get(state, f"{type(cause).__name__}{f', SQLSTATE {state}' if state else ''}")
    return f"{database}: cannot be read ({reason}) (setting {setting})"


def _url(database: Database, setting: str) -> Any:
    import sqlalchemy as sa

    if not database.url.startswith("sqlite"):
        require_extra("sql", "psycopg")
        return sa.make_url(database.url).set(drivername="postgresql+psycopg")
    name = database.url.removeprefix(SQLITE)
    if name in ("", database.url):
        raise InputError(
            f"{database}: names no file. Write {SQLITE}FILE, with three slashes (setting {setting})"
        )
    file = find_input(database.base, name)
    if not file.is_file():
        raise InputError(f"{file}: not found (setting {setting})")
    return f"{SQLITE}file:{quote(str(file.absolute()))}?mode=ro&uri=true"
