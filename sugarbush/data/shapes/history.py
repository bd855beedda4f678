"""A record that is a history: the records of one person, the oldest first.

The file has a row for each record. `History.grouped` joins the rows of a person to one row, so a
history is one record of one user: it has one vector and votes once.
"""

from __future__ import annotations

import re
from bisect import insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from sugarbush.data.cells import is_half
from sugarbush.data.formats.rows import Row
from sugarbush.data.quantities import CellError, Kind, Quantity
from sugarbush.data.shapes.interface import Lengths, Shape, ShapeError, Span
from sugarbush.data.shapes.one_text import text_in
from sugarbush.data.shapes.sections import content_spans, joined, label_of, sections_of
from sugarbush.data.user_cells import problem_of_user, user_of
from sugarbush.languages import count_words

if TYPE_CHECKING:
    import pyarrow as pa

RECORDS, GAP_DAYS = "records", "gap_days"  # columns of a joined row that no file has
PERSON, RECORD, DAYS = "person", "record", "days_since_first"  # columns of a released record
COUNT: Final = "records per history"  # not `records`, which a profile counts
WORDS_PER_RECORD: Final = "words per record"
_DAY: Final = 86_400


class _Record(NamedTuple):
    """A usable row. `moment` decides its place in the history."""

    moment: float
    number: int
    text: str
    fields: Mapping[str, Any]


class History(Shape):
    """The records of a person, in the order of the column `by`: a date, a datetime or an integer.

    Guarantee: the row of a person is a function of the rows of this person alone. The earliest
    `most` records are used, and records with equal dates have the order of the file. Attributes
    with a column have the value of the first record. Two columns are computed from the used
    records: `records` is their number, and `gap_days` the mean number of days between them, or
    missing for one record and for `kind: integer`.

    >>> history = History(person="customer", by="day", label="ticket")
    >>> rows = [Row(1, {"customer": "Ana", "day": "2024-03-05", "text": "Still broken."}),
    ...         Row(2, {"customer": "ana", "day": "2024-03-01", "text": "It broke."})]
    >>> [row] = history.grouped(rows)
    >>> history.text_of(row.fields), row.fields["records"], row.fields["gap_days"]
    ('Ticket: It broke.\\nTicket: Still broken.', 2, 4)
    >>> history.parse("Ticket 1: It broke.\\n\\nTicket 2: Still broken.")
    {'text': ['It broke.', 'Still broken.']}
    """

    def __init__(
        self,
        *,
        person: str,
        by: str,
        column: str = "text",
        label: str = "record",
        kind: Kind = Kind.DATE,
        format: str | None = None,
        most: int = 10,
        requested: Mapping[str, tuple[int, ...]] | None = None,
    ) -> None:
        self.person, self.by, self.column, self.kind, self.most = person, by, column, kind, most
        self._label, self._names = label, (label,)
        self._requested = dict(requested or {})
        self._moments = [
            Quantity(kind=kind, edges=(), low=0, high=0, format=format, zoned=zoned)
            for zoned in (False, True)
        ]

    @property
    def columns(self) -> Mapping[str, str]:
        named = {"column": self.column, "person": self.person, "by": self.by}
        return {column: f"text.history.{key} of the schema" for key, column in named.items()}

    @property
    def paths(self) -> Mapping[str, tuple[str, int]]:
        return {self.column: (self.column, 0)}

    @property
    def text_columns(self) -> frozenset[str]:
        return frozenset({self.column})

    @property
    def instruction(self) -> str:
        label = label_of(self._label)
        return (
            f"Each text is the history of one person: at most {self.most} records, the oldest "
            f'first. Begin each record on a new line with the label "{label}:". All records are of '
            "the same person, and each one may refer to those before it."
        )

    @property
    def description(self) -> str:
        return (
            f"histories of a person by column {self.person}: at most {self.most} records in column "
            f"{self.column}, in the order of column {self.by}"
        )

    @property
    def types(self) -> Mapping[str, pa.DataType]:
        import pyarrow as pa

        return {self.column: pa.list_(pa.string())}

    def grouped(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield the bad rows, and then one row for each person, in the order of the file.

        A row whose text is a list is a history already. The number of a joined row is that of its
        first record. Raises ShapeError for a name of a person that may be rounded.
        """
        people: dict[str, list[_Record]] = {}
        for row in rows:
            if isinstance(row.fields.get(self.column), list | tuple | np.ndarray):
                texts = row.fields[self.column]
                yield row._replace(fields={**row.fields, RECORDS: len(texts), GAP_DAYS: None})
                continue
            try:
                user, record = self._record(row)
            except (ShapeError, CellError) as error:
                yield Row(row.number, {}, row.problem or str(error))
                continue
            own = people.setdefault(user, [])
            insort(own, record, key=lambda each: each.moment)  # after equal moments
            del own[self.most :]
        for own in people.values():
            yield self._joined(own)

    def _record(self, row: Row) -> tuple[str, _Record]:
        if row.problem:
            raise ShapeError(row.problem)
        user = row.fields.get(self.person)
        if (problem := problem_of_user(user, self.person)) is not None:
            raise ShapeError(problem)
        text = _checked_text(text_in(row.fields.get(self.column), self.column))
        moment = self._moment(row.fields.get(self.by))
        return user_of(user), _Record(moment, row.number, text, row.fields)

    def _moment(self, cell: Any) -> float:
        """Return a date as a number. Raises ShapeError."""
        for quantity in self._moments:
            try:
                moment = quantity.number_of(cell)
            except CellError as error:
                problem = str(error)
                continue
            if moment is None:
                raise ShapeError(f"column '{self.by}' (text.history.by) has no value")
            return moment
        advice = "`format` or `type` of text.history"
        raise ShapeError(f"column '{self.by}' {problem.partition('. ')[0]}. See {advice}")

    def _joined(self, records: Sequence[_Record]) -> Row:
        first = records[0]
        fields = {
            **first.fields,
            self.column: [record.text for record in records],
            RECORDS: len(records),
            GAP_DAYS: self._gap([record.moment for record in records]),
        }
        return Row(first.number, fields)

    def _gap(self, moments: Sequence[float]) -> float | None:
        """Return the mean number of days between two records, rounded to whole days for dates."""
        if len(moments) < 2 or not self.kind.is_time:
            return None
        gap = (moments[-1] - moments[0]) / (len(moments) - 1)
        return round(gap) if self.kind is Kind.DATE else round(gap / _DAY, 4)

    @property
    def groups_rows(self) -> bool:
        return True

    @property
    def computed_columns(self) -> tuple[str, ...]:
        return (RECORDS, GAP_DAYS) if self.kind.is_time else (RECORDS,)

    @property
    def drawn_columns(self) -> frozenset[str]:
        return frozenset({GAP_DAYS, self.by})

    @property
    def further_columns(self) -> frozenset[str]:
        return frozenset({PERSON, RECORD, DAYS})

    def is_computed(self, column: str) -> bool:
        return column in self.computed_columns

    def is_inside(self, column: str) -> bool:
        return column == RECORDS

    def value_in(self, text: str, column: str) -> Any:
        if column != RECORDS:
            raise KeyError(column)
        return len(self.contents(text))

    def text_of(self, fields: Mapping[str, Any]) -> str:
        cell = fields.get(self.column)
        cell = cell.tolist() if isinstance(cell, np.ndarray) else cell
        if not isinstance(cell, list | tuple):
            raise ShapeError(f"column '{self.column}' is not a list of texts")
        texts = [_checked_text(text_in(each, self.column)) for each in cell]
        return self._text(texts)

    def _text(self, texts: Sequence[str]) -> str:
        if not 0 < len(texts) <= self.most:
            raise ShapeError(f"has no record, or more than `most` ({self.most}) of text.history")
        if not all(texts):
            raise ShapeError("has an empty record")
        return joined([(self._label, text) for text in texts], self._names)

    def parse(self, text: str) -> dict[str, Any]:
        texts = [content for _, content in sections_of(self._without_numbers(text), self._names)]
        self._text(texts)
        return {self.column: texts}

    def _without_numbers(self, answer: str) -> str:
        """Return an answer with `Record:` for `Record 1:` and so on, if it begins so. A canonical
        text never does."""
        label = re.escape(label_of(self._label))
        begins = re.compile(rf"^(\W*{label})[ \t]*[#№]?\d+(?=\W*[:：])", re.IGNORECASE)
        lines = answer.strip().split("\n")
        if not begins.match(next((line for line in lines if line.strip(" `")), "")):
            return answer
        return "\n".join(begins.sub(r"\1", line) for line in lines)

    @property
    def sections(self) -> tuple[str, ...]:
        return self._names

    def contents(self, text: str) -> Sequence[tuple[str, str]]:
        return sections_of(text, self._names)

    def embedded(self, text: str) -> tuple[str, ...]:
        try:
            return tuple(content for _, content in self.contents(text))
        except ShapeError:  # the text of a prompt
            return (text,)

    @property
    def measures(self) -> tuple[str, ...]:
        return (COUNT, WORDS_PER_RECORD)

    @property
    def limits(self) -> Mapping[str, int]:
        return {COUNT: self.most}

    def lengths(self, text: str) -> dict[str, int]:
        texts = self.embedded(text)
        words = sum(map(count_words, texts))
        return {COUNT: len(texts), WORDS_PER_RECORD: round(words / len(texts))}

    @property
    def requested(self) -> Mapping[str, tuple[int, ...]]:
        return self._requested

    def lengths_for(self, drawn: Lengths, values: Mapping[str, float]) -> Lengths:
        """Return the lengths with the number of records that a row of the DP table has."""
        if RECORDS not in values:
            return drawn
        return ((COUNT, round(values[RECORDS])), *(each for each in drawn if each[0] != COUNT))

    def words_of(self, lengths: Lengths) -> int | None:
        numbers = dict(lengths)
        if len(numbers) < len(self.measures):
            return None
        return numbers[COUNT] * (numbers[WORDS_PER_RECORD] + 1)  # a label is a word

    def length_sentence(self, lengths: Lengths) -> str:
        numbers = dict(lengths)
        records, words = numbers.get(COUNT), numbers.get(WORDS_PER_RECORD)
        if records is None:
            return f"Write about {words} words in each record."
        count = "1 record" if records == 1 else f"{records} records"
        return f"Write {count}" + ("." if words is None else f" of about {words} words.")

    def spans(self, text: str) -> Sequence[Span] | None:
        return content_spans(text, self._names)


def _checked_text(text: str) -> str:
    text = text.strip()
    if not text:
        raise ShapeError("the text is empty")
    if is_half(text):
        raise ShapeError("the text contains half a character (a lone surrogate)")
    return text
