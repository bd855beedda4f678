"""Defines the interface of a shape."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sugarbush.data.lengths import length_at
from sugarbush.languages import count_words
from sugarbush.randomness import public_rng

if TYPE_CHECKING:
    import pyarrow as pa

    from sugarbush.data.formats.rows import Row

Span = tuple[int, int]
Lengths = tuple[tuple[str, int], ...]  # names of `Shape.measures` with numbers
WORDS_OF = "words of "
_MOST_MEASURES = 8  # each one is a histogram of a profile


class ShapeError(ValueError):
    """A row or an answer does not have the shape. The message names the column or the turn, and
    never quotes a value."""


class Shape(ABC):
    """Converts between the columns of a row and one canonical text.

    Embeddings, prompts, votes and audits read the canonical text alone. Guarantee: the canonical
    text of a row is a function of this row and the public declaration in the schema. So one record
    still has one score vector, and its norm is still at most 1. Another record never changes the
    text of a record, and never decides whether a record is usable.
    """

    @property
    def json_schema(self) -> Mapping[str, Any] | None:
        """The JSON Schema of a canonical text, or None if the text is no JSON."""
        return None

    @property
    @abstractmethod
    def columns(self) -> Mapping[str, str]:
        """The columns of the text, each with the setting that names it."""

    @property
    @abstractmethod
    def instruction(self) -> str:
        """The sentences of a prompt that describe the form of a text."""

    @property
    @abstractmethod
    def description(self) -> str:
        """A few public words for the card, such as `conversations in column messages`."""

    @property
    @abstractmethod
    def types(self) -> Mapping[str, pa.DataType]:
        """The Arrow type of each released column."""

    @property
    def reads_all_columns(self) -> bool:
        """Whether a row may contain further columns of the text, which a file may lack."""
        return False

    @property
    def paths(self) -> Mapping[str, tuple[str, int]]:
        """Maps the dotted path of each value of a text to its name and its depth.

        The depth of a column is 0, and that of a property of a JSON record is 1. A path has no
        positions in lists. A file may lack some paths.
        """
        return {column: (column, 0) for column in self.columns}

    @property
    def text_columns(self) -> frozenset[str]:
        """The columns with free text. No attribute may have the name of one of them."""
        return frozenset(self.columns)

    @property
    def groups_rows(self) -> bool:
        """Whether several rows of a file are one record."""
        return False

    def grouped(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield a row for each record."""
        return iter(rows)

    @abstractmethod
    def text_of(self, fields: Mapping[str, Any]) -> str:
        """Return the canonical text of a row. Raises ShapeError."""

    def omitted(self, fields: Mapping[str, Any]) -> Mapping[str, int]:
        """Return what `text_of` leaves out of a row by a declared policy, with its number."""
        return {}

    @abstractmethod
    def parse(self, text: str) -> dict[str, Any]:
        """Return the released columns of a text, which may be an answer with small faults.

        Stray blank lines, a fence around the text and the spelling of labels are repaired. For a
        canonical text, `text_of(parse(text)) == text`. Raises ShapeError.
        """

    def canonical(self, answer: str) -> str:
        """Return the canonical text of an answer. Raises ShapeError."""
        return self.text_of(self.parse(answer))

    def expanded(self, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the fields of a row, and the values inside its text at dotted paths."""
        return fields

    def value_in(self, text: str, column: str) -> Any:
        """Return the value of an attribute's column inside a canonical text.

        Raises KeyError if texts of this shape do not contain the column.
        """
        raise KeyError(column)

    def is_inside(self, column: str) -> bool:
        """Return whether a canonical text contains the values of a column of an attribute."""
        return False

    @property
    def computed_columns(self) -> tuple[str, ...]:
        """The columns that joining rows to a record adds."""
        return ()

    @property
    def drawn_columns(self) -> frozenset[str]:
        """The columns with values that a release draws if no reader reads them from a text."""
        return frozenset()

    @property
    def further_columns(self) -> frozenset[str]:
        """The columns that a release has beside those of `types` and the attributes."""
        return frozenset()

    def is_computed(self, column: str) -> bool:
        """Return whether no file needs a column of an attribute, because a record gives its
        value."""
        return self.is_inside(column)

    @property
    @abstractmethod
    def sections(self) -> tuple[str, ...]:
        """The public names of the sections with free text: fields, roles, or properties."""

    @abstractmethod
    def contents(self, text: str) -> Sequence[tuple[str, str]]:
        """Return the free texts of a canonical text in order, each with the name of its section."""

    def section(self, text: str, name: str) -> str:
        """Return the free text of one section, such as all turns of a role, each on a new line."""
        return "\n".join(content for section, content in self.contents(text) if section == name)

    def of_answer(self, answer: str) -> str:
        """Return the canonical text of a generator's answer. Raises ShapeError, and for an answer
        that contradicts itself, such as a turn that another role signs."""
        text = self.canonical(answer)
        if self.is_contradictory(text):
            raise ShapeError("contradicts itself")
        return text

    def is_contradictory(self, text: str) -> bool:
        """Return whether a canonical text contradicts itself."""
        return False

    def embedded(self, text: str) -> tuple[str, ...]:
        """Return the texts that an encoder reads for a canonical text, a function of this text
        alone. The vector of the text is their mean."""
        return (text,)

    @property
    def measures(self) -> tuple[str, ...]:
        """The public names of the lengths that describe a text of this shape."""
        return tuple(WORDS_OF + name for name in self.sections[:_MOST_MEASURES])

    def lengths(self, text: str) -> dict[str, int]:
        """Return one number for each of `measures`, a function of this canonical text alone."""
        measured = zip(self.measures, self.sections, strict=False)
        return {measure: count_words(self.section(text, name)) for measure, name in measured}

    @property
    def requested(self) -> Mapping[str, tuple[int, ...]]:
        """The public quantiles of the lengths that prompts request, for some of `measures`."""
        return {}

    @property
    def limits(self) -> Mapping[str, int]:
        """The largest number that a text may have, for some of `measures`."""
        return {}

    def lengths_for(self, drawn: Lengths, values: Mapping[str, float]) -> Lengths:
        """Return drawn lengths as they fit the requested numbers of attributes, by column."""
        return drawn

    def draw_lengths(self, seed: int) -> Lengths:
        """Draw a length of each measure from the requested numbers, with public randomness."""
        rng = public_rng(seed, "lengths of sections")
        return tuple((name, length_at(some, rng.random())) for name, some in self.requested.items())

    @property
    def longest(self) -> Lengths:
        """The largest numbers that a prompt may request."""
        return tuple((name, max(some)) for name, some in self.requested.items())

    def words_of(self, lengths: Lengths) -> int | None:
        """Return the number of words of a text with these lengths, or None if they do not determine
        it.
        """
        is_complete = lengths and len(lengths) == len(self.sections)
        return max(1, sum(number for _, number in lengths)) if is_complete else None

    def length_sentence(self, lengths: Lengths) -> str:
        """Return the sentence of a prompt that requests these lengths."""
        shown = {WORDS_OF + name: self._shown(name) for name in self.sections}
        wanted = [
            f"about {number} words in {shown[measure]}"
            if number
            else f"no text in {shown[measure]}"
            for measure, number in lengths
        ]
        return f"Write {', '.join(wanted)}."

    def _shown(self, section: str) -> str:
        return f'"{section}"'

    @abstractmethod
    def spans(self, text: str) -> Sequence[Span] | None:
        """Return the positions of the free text in a canonical text, without labels.

        None means that single words of the text cannot be replaced.
        """


def unfenced(text: str) -> str:
    """Remove a Markdown fence around a text, and white space at both ends.

    >>> unfenced("```json\\n{}\\n```")
    '{}'
    """
    text = text.strip()
    if text.startswith("```") and text.endswith("```") and "\n" in text:
        first_line, _, rest = text.partition("\n")
        if not first_line.strip("`").strip() or first_line.strip("`").strip().isalnum():
            return rest[:-3].strip()
    return text
