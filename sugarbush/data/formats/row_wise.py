"""Decides whether a SELECT computes each of its rows from one row of one table.

Only then does one more row in the table add at most one row to the corpus, and change no other.
With ORDER BY and LIMIT, a new row can push another one out. With a window or an aggregate, it
changes the values of others. So the grammar lists what is allowed, and everything else is refused:

    SELECT columns FROM table WHERE condition

`columns` and `condition` contain columns of the table, constants, operators, CASE, casts and the
functions in `_FUNCTIONS`. None of them reads another row, the clock, a random number or the storage
of the table. The order of operators does not matter here, so the grammar has no precedence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final, NoReturn


def _words(names: str) -> frozenset[str]:
    return frozenset(names.split())


_MOST_CHARACTERS: Final = 100_000
_MOST_DEPTH: Final = 50
_SPACE: Final = " \t\r\n\f"
_TOKEN: Final = re.compile(
    r"[ \t\r\n\f]*(?:"
    r"(?P<name>[^\W\d]\w*)"
    r'|(?P<quoted>"(?:[^"\0]|"")+")'
    r"|(?P<text>'(?:[^'\\\0]|'')*')"
    r"|(?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?!\w))"
    r"|(?P<sign>::|->>|->|!~~\*|!~~|~~\*|~~|<>|!=|<=|>=|\|\||[-+*/%=<>(),.\[\]])"
    r")"
)
# Longer operators come first.
_OPERATORS: Final = tuple(
    operator.split()
    for operator in (
        "is not distinct from", "is distinct from", "is not", "is", "at time zone",
        "not between", "not ilike", "not like", "not in", "between", "ilike", "like", "escape",
        "in", "and", "or", "->>", "->", "!~~*", "!~~", "~~*", "~~", "<>", "!=", "<=", ">=", "||",
        "=", "<", ">", "+", "-", "*", "/", "%",
    )
)  # fmt: skip
_CLOCK: Final = _words("current_date current_time current_timestamp localtime localtimestamp")
_PATTERN_OPERATORS: Final = frozenset({"like", "ilike", "~~", "~~*", "!~~", "!~~*"})
# PostgreSQL reads such a text as the time of the query: DATE 'today', 'now'::timestamp
_OF_THE_QUERY: Final = re.compile(
    r"[\W\d_]*(?:now|today|tomorrow|yesterday)(?:[\W\d_]+[a-z]{0,5})?[\W\d_]*", re.IGNORECASE
)
_CONSTANTS: Final = frozenset({"null", "true", "false", "unknown"})
_TYPED_TEXTS: Final = frozenset({"date", "time", "timestamp", "interval"})  # DATE '2026-01-01'
_TYPES: Final = _words(
    "text varchar character char bpchar varying int integer bigint smallint int2 int4 int8 real "
    "float float4 float8 double precision numeric decimal boolean bool date time timestamp "
    "timestamptz with without zone interval uuid json jsonb"
)
_FUNCTIONS: Final = _words(
    "abs btrim ceil ceiling char_length character_length coalesce concat date_part date_trunc "
    "floor greatest ifnull iif instr json_extract least left length lower ltrim "
    "nullif octet_length replace right round rtrim starts_with strpos substr substring trim "
    "upper"
)
_OF_TIME: Final = _words("century day dow doy epoch hour minute month quarter second week year")
_SIDES: Final = frozenset({"both", "leading", "trailing"})
# Words that a name without quotation marks cannot be.
_RESERVED: Final = _words(
    "all and any array as between case cast current_date current_time current_timestamp distinct "
    "else end except exists fetch for from group localtime localtimestamp "
    "having in intersect into is join lateral like limit not offset on or order over select table "
    "tablesample then union using values when where window with"
)


class NotRowWiseError(ValueError):
    """A SELECT that is not known to compute each row from one row of a table. The message names
    what is not allowed, and quotes no constant."""


class DependsOnTimeError(NotRowWiseError):
    """A SELECT that may read other rows tomorrow."""


@dataclass(frozen=True)
class TableName:
    """The name of a table or view, as a SELECT writes it. `sql` is the name with its quotation
    marks, and `names` are its parts without them."""

    names: tuple[str, ...]
    sql: str


@dataclass(frozen=True)
class RowWiseSelect:
    """A SELECT of one table. `columns` are the names in it that must be columns of the table, each
    with whether it has quotation marks."""

    table: TableName
    columns: frozenset[tuple[str, bool]]

    def require_columns(
        self, present: Collection[str], *, spelling: Callable[[str, bool], str]
    ) -> None:
        """Raise NotRowWiseError if a name is not a column of the table.

        Such a name could be the position of a row in the storage, such as `rowid`, or a function.
        `spelling` returns the spelling of a name in the database, with or without quotation marks.
        """
        have = {spelling(name, True) for name in present}
        for name, is_quoted in sorted(self.columns):
            if spelling(name, is_quoted) not in have:
                raise NotRowWiseError(f"the name '{name}', which is no column of its table")


def row_wise_select(query: str) -> RowWiseSelect:
    """Parse a SELECT. Raises NotRowWiseError if it is not in the grammar."""
    return _Parser(_tokens(query)).select()


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str

    @property
    def word(self) -> str:
        """The token in lower case, or nothing for a constant or a name with quotation marks."""
        return self.text.lower() if self.kind in ("name", "sign") else ""


def _tokens(query: str) -> list[_Token]:
    if len(query) > _MOST_CHARACTERS:
        raise NotRowWiseError("a query of this length")
    rest, found, position = query.strip(_SPACE).removesuffix(";").rstrip(_SPACE), [], 0
    while position < len(rest):
        match = _TOKEN.match(rest, position)
        if match is None or rest.startswith(("--", "/*"), match.start(str(match.lastgroup))):
            raise NotRowWiseError("a comment, a parameter or a character outside the grammar")
        found.append(_Token(str(match.lastgroup), match[str(match.lastgroup)]))
        position = match.end()
    return found


@dataclass
class _Parser:
    tokens: list[_Token]
    position: int = 0
    depth: int = 0
    columns: set[tuple[str, bool]] = field(default_factory=set)
    prefixes: list[tuple[str, ...]] = field(default_factory=list)

    def select(self) -> RowWiseSelect:
        self._require("select")
        self._items()
        self._require("from")
        table, alias = self._table(), self._alias()
        if self._take("where"):
            self._expression()
        if self._next is not None:
            self._refuse()
        named = {tuple(map(str.lower, table.names[start:])) for start in range(len(table.names))}
        named |= {alias} if alias else set()
        if any(prefix not in named for prefix in self.prefixes):
            raise NotRowWiseError("a name of another table")
        return RowWiseSelect(table, frozenset(self.columns))

    def _items(self) -> None:
        while True:
            if not self._take("*") and not self._all_columns():
                self._expression()
                if self._take("as"):
                    self._name()
            if not self._take(","):
                return

    def _all_columns(self) -> bool:
        """Read `table.*`."""
        ahead = [token.word or token.kind for token in self.tokens[self.position :][:3]]
        if ahead[1:] != [".", "*"] or self.tokens[self.position].kind not in ("name", "quoted"):
            return False
        name, _ = self._name()
        self.prefixes.append((name.lower(),))
        self.position += 2
        return True

    def _table(self) -> TableName:
        names, marks = [], []
        while True:
            name, is_quoted = self._name()
            names.append(name)
            marks.append('"' + name.replace('"', '""') + '"' if is_quoted else name)
            if not self._take("."):
                return TableName(tuple(names), ".".join(marks))

    def _alias(self) -> tuple[str, ...]:
        if self._take("as") or (self._next is not None and self._next.word != "where"):
            name, _ = self._name()
            return (name.lower(),)
        return ()

    def _expression(self) -> None:
        """Read operands with operators between them."""
        self.depth += 1
        if self.depth > _MOST_DEPTH:
            raise NotRowWiseError("a query of this depth")
        self._operand()
        while (operator := self._operator()) is not None:
            # Without a bracket, SQLite reads `in name` as all rows of the table with this name.
            if operator[-1] == "in" and self._word != "(":
                self._refuse()
            self._operand(is_pattern=operator[-1] in _PATTERN_OPERATORS)
        self.depth -= 1

    def _operator(self) -> list[str] | None:
        return next((words for words in _OPERATORS if self._take(*words)), None)

    def _operand(self, *, is_pattern: bool = False) -> None:
        while self._take("not") or self._take("-") or self._take("+"):
            pass
        if not is_pattern:
            self._require_constant()
        self._primary()
        while True:  # casts and collations
            if self._take("::"):
                self._type()
            elif self._take("collate"):
                self._name()
            else:
                return

    def _primary(self) -> None:
        token = self._next
        if token is None:
            self._refuse()
        if token.kind in ("text", "number"):
            self.position += 1
        elif self._take("("):
            self._list(")")
        elif self._take("case"):
            self._case()
        elif self._take("cast", "("):
            self._expression()
            self._require("as")
            self._type()
            self._require(")")
        elif self._take("any", "("):  # PostgreSQL shows `in` as `= any (array[...])`
            self._list(")")
        elif self._take("array", "["):
            self._list("]")
        elif token.word in _CONSTANTS:
            self.position += 1
        elif token.word in _TYPED_TEXTS and self._kind(1) == "text":
            self.position += 2
        elif token.kind == "name" and self._kind(1) == "(":
            self._function()
        else:
            self._column()

    def _require_constant(self) -> None:
        """Refuse a text that is another date or time in each query."""
        ahead = self._word in _TYPED_TEXTS
        token = self.tokens[self.position + ahead :][:1]
        if token and token[0].kind == "text" and _OF_THE_QUERY.fullmatch(token[0].text):
            raise DependsOnTimeError("a date or time such as 'today'")

    def _function(self) -> None:
        name = self._word
        self.position += 2
        if name == "extract" and self._word in _OF_TIME:  # EXTRACT(year FROM day)
            self.position += 1
            self._require("from")
        elif name not in _FUNCTIONS:
            raise NotRowWiseError(f"the function {name}")
        elif name == "trim":  # TRIM(BOTH FROM text)
            self.position += self._word in _SIDES
            self._take("from")
        self._list(")", separators=(",", "from", "for"))

    def _case(self) -> None:
        if self._word != "when":
            self._expression()
        if self._word != "when":
            self._refuse()
        while self._take("when"):
            self._expression()
            self._require("then")
            self._expression()
        if self._take("else"):
            self._expression()
        self._require("end")

    def _list(self, closing: str, *, separators: tuple[str, ...] = (",",)) -> None:
        self._expression()
        while not self._take(closing):
            if not any(map(self._take, separators)):
                self._refuse()
            self._expression()

    def _column(self) -> None:
        names = [self._name()]
        while self._take("."):
            names.append(self._name())
        self.columns.add(names[-1])
        if len(names) > 1:
            self.prefixes.append(tuple(name.lower() for name, _ in names[:-1]))

    def _type(self) -> None:
        start = self.position
        while self._word in _TYPES:
            self.position += 1
        if self.position == start:
            raise NotRowWiseError("a cast to a type that is not on the list of types")
        if self._take("("):
            self._list(")")
            while self._word in _TYPES:  # timestamp(3) without time zone
                self.position += 1
        while self._take("[", "]"):
            pass

    def _name(self) -> tuple[str, bool]:
        """Read a name. Return it without quotation marks, and whether it had them."""
        token = self._next
        if token is not None and token.kind == "quoted":
            self.position += 1
            return token.text[1:-1].replace('""', '"'), True
        if token is None or token.kind != "name" or token.word in _RESERVED:
            self._refuse()
        self.position += 1
        return token.text, False

    @property
    def _next(self) -> _Token | None:
        return self.tokens[self.position] if self.position < len(self.tokens) else None

    @property
    def _word(self) -> str:
        return "" if self._next is None else self._next.word

    def _kind(self, ahead: int) -> str:
        """Return the kind of a token ahead, or the token itself if it is a sign."""
        place = self.position + ahead
        if place >= len(self.tokens):
            return ""
        token = self.tokens[place]
        return token.text if token.kind == "sign" else token.kind

    def _take(self, *words: str) -> bool:
        ahead = self.tokens[self.position : self.position + len(words)]
        if [token.word for token in ahead] != list(words):
            return False
        self.position += len(words)
        return True

    def _require(self, word: str) -> None:
        if not self._take(word):
            self._refuse()

    def _refuse(self) -> NoReturn:
        token = self._next
        if token is None:
            raise NotRowWiseError("a query that ends too early")
        what = f"the word {token.word.upper()}" if token.word in _RESERVED else "this form of SQL"
        raise (DependsOnTimeError if token.word in _CLOCK else NotRowWiseError)(what)
