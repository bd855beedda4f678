"""The schema: attributes and their public values.

A schema is a YAML file. The author of the file must not look at the private texts:

    subject: customer-service dialogues
    style: Most texts are dialogues.        # optional; every prompt shows it
    attributes:
      - name: product
        description: what the customer calls about
        values: [lamp, chair, phone]
        descriptions: {phone: a landline phone}     # optional; prompts show it after the value
        column: product                     # a column of the data file
      - name: stars
        column: stars
        bins: [2, 4]                        # numbers: below 2, 2 to below 4, 4 and above
      - name: price
        column: price
        bins: [20, 50]
        type: number                        # the release has a number in the bin, not the bin
        span: [0, 200]                      # ends of the first and the last bin
      - name: opened
        column: opened_on
        bins: [2024-04-01, 2024-07-01]      # dates
        span: [2024-01-01, 2024-12-31]
      - name: region
        column: state
        groups: {west: [CA, OR, WA], east: [NY, MA]}      # several raw values under one name
      - name: topic
        values: [refund, delivery]
        keywords: {refund: [refund, money back], delivery: [parcel, courier]}
      - name: mood
        values: [angry, calm]
        zero_shot: {angry: [an angry customer], calm: [a calm customer]}
      - name: outcome
        values: [settled, open]
        source: llm                         # read by the endpoint in extract_metadata.llm
      - name: complaint
        values: [damage, delay]
        keywords: {damage: [broken], delay: [late]}
        read_from: customer                 # a field, a role or a property of `text`

The released rows obey `rules`, such as `rules: ["closed >= opened"]` between numbers and dates
(`sugarbush.data.rules`), and `{if: {state: [CA, OR]}, then: {country: US}}` between values
(`sugarbush.data.category_rules`).

A record is one string. With the key `text`, it is several text fields, a conversation or a JSON
record (`sugarbush.data.shapes.declaration`).

The domain of an attribute is public. The domain contains the values in order, then one bucket for
any other value. The default name of the bucket is `other`.
"""

from __future__ import annotations

import bisect
import difflib
import itertools
import math
import os
from collections.abc import Sequence
from datetime import date, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    field_validator,
    model_serializer,
    model_validator,
)

from sugarbush.data.category_rules import CategoryRule, Implication, require_possible
from sugarbush.data.cells import Listing, canonical, is_half, same_text, text_of, typed_number
from sugarbush.data.quantities import (
    CellError,
    Edge,
    Kind,
    Quantity,
    as_edge,
    decimals_for,
    kind_of,
    number_in,
    number_of_edge,
    number_text,
    text_of_number,
)
from sugarbush.data.rules import Rule, RuleColumn
from sugarbush.data.shapes.declaration import TextForm, beside, refuse_taken_names
from sugarbush.data.shapes.history import GAP_DAYS
from sugarbush.data.written_yaml import NullInList, load_written
from sugarbush.errors import SchemaError
from sugarbush.languages import CODE, ENGLISH
from sugarbush.yaml_files import yaml_fault

if TYPE_CHECKING:
    from pydantic._internal._model_construction import ModelMetaclass

    from sugarbush.data.shapes.interface import Shape
else:
    ModelMetaclass = type(BaseModel)

# The columns of a release besides the attributes.
RELEASE_COLUMNS = frozenset({"id", "text", "weight", "parent", "round", "votes", "survived"})
RELEASE_PREFIXES = ("requested_", "confidence_")
_SOURCES = ("column", "keywords", "zero_shot", "source")
# Below these keys, YAML's numbers and dates are numbers and dates, and not the text as written.
_NUMBERS_OF_SCHEMA = frozenset({"bins", "span", "decimals", "text"})
_OF_BINS = ("type", "span", "decimals", "format", "decimal")
_MOST_EXCLUDED = 12  # listed values that a prompt names in place of `other`
_Name = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class _SchemaType(ModelMetaclass):
    """Converts pydantic's error of several lines to a SchemaError, if Python code creates a schema.

    The validation of schema.yaml does not use `__call__`.
    """

    if not TYPE_CHECKING:  # type checkers read the arguments from the fields

        def __call__(cls, *arguments: Any, **named: Any) -> Any:
            try:
                return super().__call__(*arguments, **named)
            except ValidationError as error:
                message = _explain(cls.__name__, named, error)
            raise SchemaError(message)


class Attribute(BaseModel, metaclass=_SchemaType):
    """One categorical attribute, with its public domain and the source of its values.

    >>> mood = Attribute(name="mood", values=["angry", "calm"], keywords={"angry": ["furious"]})
    >>> mood.domain, mood.code("calm"), mood.code("bored")
    (('angry', 'calm', 'other'), 1, 2)
    >>> mood.code(" Angry")
    0
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    name: _Name
    description: str = ""
    values: tuple[str, ...] = ()
    descriptions: dict[str, str] = {}
    other: str = "other"
    column: str | None = None
    bins: tuple[Edge, ...] | None = None
    type: Kind | None = None
    span: tuple[Edge, Edge] | None = None
    decimals: Annotated[int, Field(ge=0, le=9)] | None = None
    format: str | None = None
    decimal: Literal[".", ","] | None = None
    missing: tuple[str, ...] = ()
    groups: dict[str, tuple[str, ...]] | None = None
    keywords: dict[str, tuple[str, ...]] | None = None
    zero_shot: dict[str, tuple[str, ...]] | None = None
    source: Literal["llm"] | None = None
    read_from: str | None = None

    @model_serializer(mode="wrap")
    def _without_empty_fields(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out an empty `read_from`, `decimal` or `descriptions`, so that cache keys of other
        schemas do not change."""
        fields: dict[str, Any] = serialize(self)
        optional = ("read_from", "decimal", "descriptions")
        return {name: value for name, value in fields.items() if name not in optional or value}

    @model_validator(mode="before")
    @classmethod
    def _texts(cls, fields: Any) -> Any:
        """Convert values to text: Python code may list 5 and a date."""
        if isinstance(fields, dict):
            fields = dict(fields)
            for name in ("values", "missing"):
                if isinstance(fields.get(name), list | tuple):
                    fields[name] = [_listed_text(v, name) for v in fields[name]]
            for name in ("bins", "span"):
                if isinstance(fields.get(name), list | tuple):
                    fields[name] = [as_edge(v) for v in fields[name]]
                    if not all(isinstance(v, int | float | date) for v in fields[name]):
                        raise ValueError(f"{name} must contain numbers or dates")
            for source in ("keywords", "zero_shot", "groups"):
                if isinstance(fields.get(source), dict):
                    fields[source] = {
                        _listed_text(k, source): [_listed_text(one, source) for one in _as_list(v)]
                        for k, v in fields[source].items()
                    }
            if isinstance(fields.get("description"), dict):
                raise ValueError("description is one text. Describe values in descriptions")
            if isinstance(fields.get("descriptions"), dict):
                fields["descriptions"] = {
                    _listed_text(k, "descriptions"): _listed_text(v, "descriptions")
                    for k, v in fields["descriptions"].items()
                }
            if isinstance(fields.get("groups"), dict) and not fields.get("values"):
                fields["values"] = list(fields["groups"])
            if isinstance(fields.get("column"), int):  # a frame without a header
                fields["column"] = str(fields["column"])
        return fields

    @model_validator(mode="after")
    def _complete(self) -> Attribute:
        if sum(getattr(self, name) is not None for name in _SOURCES) != 1:
            raise ValueError("needs exactly one of column, keywords, zero_shot, source: llm")
        if self.bins is not None:
            if self.column is None or self.values:
                raise ValueError("bins needs a column and no values")
            self._check_bins(self.bins)
        elif not self.values:
            raise ValueError("values is empty. List the public values of the attribute")
        elif strange := [n for n in _OF_BINS if getattr(self, n)]:
            raise ValueError(f"{strange[0]} needs bins")
        if any(not value.strip() for value in self.values):
            raise ValueError("values contains an empty value")
        if any(map(is_half, self.values)):
            raise ValueError("values contains half a character (a lone surrogate)")
        repeated = sorted(set(Listing(self.values).repeated))
        if repeated or same_text(self.other) in map(same_text, self.values):
            raise ValueError("values repeats " + ", ".join(repeated or [self.other]))
        if self.groups is not None:
            self._check_groups(self.groups)
        self._check_descriptions()
        described = self.keywords if self.keywords is not None else self.zero_shot
        if described is not None:
            if strange := sorted(set(described) - set(self.values)):
                raise ValueError("describes a value that is not in values: " + ", ".join(strange))
            if self.zero_shot is not None and (
                missing := [v for v in self.values if not self.zero_shot.get(v)]
            ):
                raise ValueError("zero_shot lacks a description of " + ", ".join(missing))
        return self

    def _check_descriptions(self) -> None:
        if strange := sorted(set(self.descriptions) - set(self.domain)):
            raise ValueError(
                f"descriptions describes what is no value of the attribute: {', '.join(strange)}"
            )
        if empty := [value for value, text in self.descriptions.items() if not text]:
            raise ValueError(f"descriptions is empty for {empty[0]}")

    def _check_bins(self, bins: tuple[Edge, ...]) -> None:
        bounds = (*bins, *(self.span or ()))
        if len({_zone_kind(bound) for bound in bounds}) > 1:
            raise ValueError("bins and span must be all numbers, all dates, or all datetimes")
        edges = self._numbers_of(bins)
        if not edges or list(edges) != sorted(set(edges)):
            raise ValueError("bins must be a list of increasing numbers or dates")
        if not all(map(math.isfinite, self._numbers_of(bounds))):
            raise ValueError("bins must be finite numbers")
        if self.kind is None:
            if named := [n for n in ("span", "decimals", "format") if getattr(self, n) is not None]:
                raise ValueError(f"{named[0]} needs type: integer, number, date or datetime")
            if self.missing:
                raise ValueError("missing needs type: integer, number, date or datetime")
            return
        if self.kind.is_time != (kind_of(bins) is not None):
            raise ValueError(f"type: {self.kind} does not fit the edges in bins")
        if self.span is None:
            raise ValueError(
                f"a {self.kind} needs span: [low, high], the ends of the first and the last bin"
            )
        low, high = self._numbers_of(self.span)
        if not low < edges[0] or not edges[-1] <= high:
            raise ValueError("span must begin below the first edge and end at or above the last")
        self._check_forms(self.kind)
        quantity = self.quantity
        assert quantity is not None
        empty = [n for n, (first, last) in enumerate(quantity.ranges) if last < first]
        if empty:
            raise ValueError(f"the bin '{self.domain[empty[0]]}' contains no value of its type")

    def _check_forms(self, kind: Kind) -> None:
        if self.decimals is not None and kind is not Kind.NUMBER:
            raise ValueError("decimals needs type: number")
        if self.format is not None and not kind.is_time:
            raise ValueError("format needs dates in bins")
        if self.decimal is not None and kind.is_time:
            raise ValueError("decimal needs numbers in bins")

    @cached_property
    def kind(self) -> Kind | None:
        """The kind of the values in the bins, or None if the bins themselves are the values."""
        return self.type or kind_of(self.bins or ())

    @cached_property
    def quantity(self) -> Quantity | None:
        """The numbers or dates in the bins, or None if the bins themselves are the values."""
        if self.bins is None or self.span is None or self.kind is None:
            return None
        edges, (low, high) = self._numbers_of(self.bins), self._numbers_of(self.span)
        return Quantity(
            kind=self.kind,
            edges=edges,
            low=low,
            high=high,
            decimals=decimals_for((low, *edges, high)) if self.decimals is None else self.decimals,
            format=self.format,
            zoned=isinstance(self.bins[0], datetime) and self.bins[0].tzinfo is not None,
            decimal=self.decimal,
        )

    def _numbers_of(self, bounds: tuple[Edge, ...]) -> tuple[float, ...]:
        return tuple(number_of_edge(bound, self.kind) for bound in bounds)

    def problem(self, cell: object) -> str | None:
        """Return what is wrong with a cell of an attribute with a type, or None."""
        if self.quantity is None or self._is_missing(cell):
            return None
        try:
            self.quantity.number_of(cell)
        except CellError as error:
            return str(error)
        return None

    def _check_groups(self, groups: dict[str, tuple[str, ...]]) -> None:
        if self.column is None or self.bins is not None or set(groups) != set(self.values):
            raise ValueError("groups needs a column, no bins, and one entry for each value")
        raw = tuple(value for values in groups.values() for value in values)
        if not all(groups.values()) or Listing(raw).repeated:
            raise ValueError("groups must not be empty or share a raw value")

    @property
    def value_source(self) -> str:
        """The source of the attribute's values: column, keywords, zero_shot or llm."""
        return self.source or next(name for name in _SOURCES if getattr(self, name) is not None)

    @cached_property
    def domain(self) -> tuple[str, ...]:
        """All values of the attribute. The last entry is the bucket for all other values."""
        return (*(self.values if self.bins is None else self._bin_labels(self.bins)), self.other)

    @property
    def excluded(self) -> tuple[str, ...]:
        """The values that a prompt excludes in place of `other`; () if it leaves the value open.

        A generator cannot avoid every number, and a long list does not help it.
        """
        is_short = self.bins is None and len(self.values) <= _MOST_EXCLUDED
        return self.values if is_short else ()

    def _bin_labels(self, bins: tuple[Edge, ...]) -> tuple[str, ...]:
        if self.quantity is not None:
            return self.quantity.labels()
        texts = [number_text(edge) for edge in self._edges]
        between = [f"{a} to below {b}" for a, b in itertools.pairwise(texts)]
        return (f"below {texts[0]}", *between, f"{texts[-1]} and above")

    @cached_property
    def _edges(self) -> tuple[float, ...]:
        return self._numbers_of(self.bins or ())

    @cached_property
    def _listing(self) -> Listing:
        """The listed raw values: those of `groups`, or else `values`."""
        groups = self.groups
        return Listing(
            self.values if groups is None else tuple(r for v in self.values for r in groups[v])
        )

    @cached_property
    def _codes(self) -> tuple[int, ...]:
        """The code of each listed raw value."""
        if self.groups is None:
            return tuple(range(len(self.values)))
        return tuple(c for c, value in enumerate(self.values) for _ in self.groups[value])

    @cached_property
    def _words_for_missing(self) -> Listing:
        return Listing(self.missing)

    def _is_missing(self, cell: object) -> bool:
        return bool(self.missing) and self._words_for_missing.place(cell) is not None

    def _place(self, cell: object) -> int | None:
        """Return the index of the listed raw value that a cell has. `other` is the bucket."""
        text = text_of(cell)
        is_other = self.groups is None and text is not None and same_text(text) == self.other
        return None if text is None or is_other else self._listing.place(cell)

    def code(self, value: object) -> int:
        """Return the index of `value` in the domain, or the index of the bucket.

        `sugarbush.data.cells` says which listed value a cell has.
        """
        bucket = len(self.domain) - 1
        if self.bins is None:
            place = self._place(value)
            return bucket if place is None else self._codes[place]
        try:
            read = self._number_of(value)
        except CellError:
            return bucket
        return bucket if read is None else bisect.bisect_right(self._edges, read)

    def _number_of(self, cell: object) -> float | None:
        if self.quantity is None:
            return number_in(cell, self.decimal)
        return None if self._is_missing(cell) else self.quantity.number_of(cell)

    def raw(self, cell: object) -> str | None:
        """Return the text that stands for a cell of the column: `code` gives both the same code.

        It is the listed value that the cell has. So equal rows of different file formats give
        equal records.
        """
        if self.bins is None:
            if (listed := self.listed_value(cell)) is not None:
                return listed
            text = canonical(cell)
            return text if self._place(text) is None else text_of(cell)
        if self._is_missing(cell):
            return text_of(cell)
        if self.quantity is not None:
            return self.quantity.text_of(cell)
        return text_of_number(cell, self.decimal)

    @cached_property
    def numbers(self) -> tuple[float, ...] | None:
        """The listed values as numbers, or None if one of them is not a number, or is not the usual
        text of its number, such as the code 02139.

        >>> Attribute(name="stars", column="stars", values=["1", "2.5"]).numbers
        (1, 2.5)
        """
        numbers = tuple(number for v in self.values if (number := typed_number(v)) is not None)
        is_complete = len(numbers) == len(self.values) == len(set(numbers))
        return numbers if numbers and is_complete else None

    @property
    def needs_decimal_sign(self) -> bool:
        """Whether texts of the column are read as numbers, and `decimal` is not set."""
        reads = self.bins is not None and (self.kind is None or not self.kind.is_time)
        return reads and self.decimal is None

    @property
    def advice_on_decimal_sign(self) -> str:
        return f'Set `decimal: "."` or `decimal: ","` of attribute \'{self.name}\' in the schema'

    @property
    def listed(self) -> tuple[str, ...]:
        """The listed raw values of the column; () without a column or with bins."""
        if self.column is None or self.bins is not None:
            return ()
        return self._listing.values

    def listed_value(self, cell: object) -> str | None:
        """Return the listed raw value that a cell has, or None. With bins, no value is listed."""
        place = None if self.bins is not None else self._place(cell)
        return None if place is None else self._listing.values[place]

    def has_value(self, value: object) -> bool:
        """Return whether `value` is a listed value or is in a bin."""
        return self.code(value) != len(self.domain) - 1


def _listed_text(value: object, where: str) -> str:
    """Return a listed value as text. Raises ValueError for a value that has no text."""
    if isinstance(value, dict | list | tuple | set):  # YAML reads `a: b` in a list as a mapping
        raise ValueError(f"{where} contains a mapping or a list. Put it in quotation marks")
    text = value if isinstance(value, str) else text_of(value)
    if text is None:
        raise ValueError(f"{where} contains null. Put it in quotation marks, or remove it")
    return text.strip()


def _as_list(value: object) -> Sequence[object]:
    return value if isinstance(value, list | tuple) else [value]


class UnlistedColumn(Attribute):
    """A column for a profile, before its values are known: a text keeps every character."""

    values: tuple[str, ...] = ("unlisted",)

    def raw(self, cell: object) -> str | None:
        return text_of(cell)

    @property
    def needs_decimal_sign(self) -> bool:
        return True

    @property
    def advice_on_decimal_sign(self) -> str:
        return (
            "Save the column as numbers, for example in a parquet file, or leave it out "
            "(profile.columns). No budget was spent"
        )


class Schema(BaseModel, metaclass=_SchemaType):
    """Public knowledge about the corpus: its subject, the form of its texts and its attributes.

    >>> stars = Attribute(name="stars", column="stars", bins=[2, 4])
    >>> schema = Schema(subject="letters to a shop", attributes=[stars])
    >>> schema.domain, schema.decode((1,))
    ({'stars': 4}, (('stars', '2 to below 4'),))
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    subject: str = Field(min_length=1)
    style: str = Field(default="", max_length=1000)
    language: Annotated[str, Field(pattern=CODE)] = ENGLISH
    rules: tuple[str | CategoryRule, ...] = ()
    attributes: tuple[Attribute, ...] = Field(min_length=1)
    text: TextForm | None = None

    @field_validator("rules", mode="before")
    @classmethod
    def _read_rules(cls, rules: Any) -> Any:
        """Read rules between values, so that an error does not list two kinds of rules."""
        if not isinstance(rules, list | tuple):
            raise ValueError("rules is a list")
        return [r if isinstance(r, str | CategoryRule) else CategoryRule.of(r) for r in rules]

    @model_serializer(mode="wrap")
    def _without_empty_text(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out `text` for records of one string, so that their cache keys do not change."""
        fields: dict[str, Any] = serialize(self)
        return {name: value for name, value in fields.items() if name != "text" or value}

    @model_validator(mode="after")
    def _distinct(self) -> Schema:
        names = [a.name for a in self.attributes]
        if repeated := sorted({n for n in names if names.count(n) > 1}):
            raise ValueError("several attributes have the same name: " + ", ".join(repeated))
        begins = [n for n in names if n.startswith(RELEASE_PREFIXES)]
        if taken := sorted({*begins, *(set(names) & RELEASE_COLUMNS)}):
            raise ValueError(
                "columns of a release have these names or beginnings: " + ", ".join(taken)
            )
        if impossible := next((r.text for r in self.checked_rules if not r.is_possible), None):
            raise ValueError(f"no row can obey the rule '{impossible}'. Compare it with the spans")
        require_possible(self.category_rules, self._domains)
        if self.text is not None:
            columns = {a.name: a.column for a in self.attributes}
            refuse_taken_names(self.text.shape, columns, RELEASE_COLUMNS, RELEASE_PREFIXES)
            self._check_gaps(self.text)
        for attribute in self.attributes:
            self._check_section(attribute)
        return self

    def _check_gaps(self, text: TextForm) -> None:
        if text.history is None or text.history.type.is_time:
            return
        if gap := next((a for a in self.attributes if a.column == GAP_DAYS), None):
            raise ValueError(
                f"attribute '{gap.name}' has the days between records, but text.history.by has no "
                "dates (type: integer). Name a column with dates in by, and set type: date"
            )

    def _check_section(self, attribute: Attribute) -> None:
        if attribute.read_from is None:
            return
        where = f"attribute '{attribute.name}': read_from"
        sections = () if self.shape is None else self.shape.sections
        if attribute.read_from not in sections:
            named = ", ".join(sections) if sections else "none, because each text is one string"
            raise ValueError(f"{where} must name a section of the text: {named}")
        if attribute.source is not None:
            raise ValueError(f"{where} needs another source than llm, which reads whole texts")
        if self.shape is not None and self.shape.is_inside(attribute.column or ""):
            raise ValueError(f"{where} is not needed: the record contains the value")

    def texts_of(self, section: str | None, texts: Sequence[str]) -> Sequence[str]:
        """Return the section of each canonical text that `read_from` names. None: the whole text.

        Guarantee: entry i is a function of text i alone. A text without the section, or without the
        shape, gives "".
        """
        if section is None or self.shape is None:
            return texts
        return [_section_of(text, self.shape, section) for text in texts]

    @cached_property
    def checked_rules(self) -> tuple[Rule, ...]:
        """The rules between numbers and dates. Raises ValueError for a text that is no rule."""
        columns = {}
        for attribute in self.attributes:
            if (quantity := attribute.quantity) is not None:
                columns[attribute.name] = RuleColumn(
                    kind=quantity.kind,
                    low=quantity.low,
                    high=quantity.high,
                    rounding=0.5 * 10**-quantity.decimals if quantity.kind is Kind.NUMBER else 0.0,
                )
            elif (numbers := attribute.numbers) is not None:
                low, high = min(numbers), max(numbers)
                columns[attribute.name] = RuleColumn(kind=Kind.NUMBER, low=low, high=high)
        return tuple(Rule(text, columns) for text in self.rules if isinstance(text, str))

    @cached_property
    def category_rules(self) -> tuple[Implication, ...]:
        """The rules between values. Raises ValueError for an unknown attribute or value."""
        return tuple(
            Implication.of(rule, self._domains)
            for rule in self.rules
            if isinstance(rule, CategoryRule)
        )

    @property
    def _domains(self) -> dict[str, tuple[str, ...]]:
        return {attribute.name: attribute.domain for attribute in self.attributes}

    @property
    def has_quantities(self) -> bool:
        """Whether a released column has numbers or dates of bins."""
        return any(attribute.quantity is not None for attribute in self.attributes)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(a.name for a in self.attributes)

    @property
    def shape(self) -> Shape | None:
        """The shape of a record, or None for one string."""
        return None if self.text is None else self.text.shape

    def fields_for_private_results(self) -> dict[str, Any]:
        """Return the fields on which results from private data depend, for cache keys.

        The lengths that prompts request and the descriptions of values are left out, so a change
        of them charges nothing again. A language model that reads the values from the records sees
        their descriptions, which stay.
        """
        fields = self.model_dump(mode="json")
        for attribute in fields["attributes"]:
            if attribute["source"] != "llm":
                attribute.pop("descriptions", None)
        if self.text is not None:
            fields["text"] = self.text.without_lengths.model_dump(mode="json")
        return fields

    @property
    def asked_of_llm(self) -> tuple[Attribute, ...]:
        return tuple(a for a in self.attributes if a.source == "llm")

    @property
    def domain(self) -> dict[str, int]:
        """The size of each attribute's domain, in schema order."""
        return {a.name: len(a.domain) for a in self.attributes}

    def attribute(self, name: str) -> Attribute:
        """Return the attribute named `name`. Raises SchemaError for an unknown name."""
        for attribute in self.attributes:
            if attribute.name == name:
                return attribute
        raise SchemaError(f"the schema has no attribute '{name}', only {', '.join(self.names)}")

    def decode(self, codes: tuple[int, ...]) -> tuple[tuple[str, str], ...]:
        """Convert a row of codes in schema order to (name, value) pairs."""
        return tuple((a.name, a.domain[c]) for a, c in zip(self.attributes, codes, strict=True))


def _section_of(text: str, shape: Shape, section: str) -> str:
    try:
        return shape.section(text, section)
    except ValueError:  # a text of somebody else, which has no shape
        return ""


def load_schema(path: Path) -> Schema:
    """Load a schema from a YAML file. Raises SchemaError that names file and attribute.

    Every value is the text that is written, such as `01234`, `1.10`, `1e3` and `NO`. Only edges,
    spans and lengths are numbers. An empty value and `null` need quotation marks.
    """
    return schema_of(beside(_fields_of(path), path.parent), source=str(path))


def parse_schema(content: str, path: Path) -> Schema:
    """Parse the content of a schema file that will be at `path`. Raises SchemaError."""
    fields = load_written(content, numbers=_NUMBERS_OF_SCHEMA)
    return schema_of(beside(fields, path.parent), source=str(path))


def json_schema_file(path: Path, *, beside: Path) -> str | None:
    """Return the JSON Schema that a schema file names, for another schema file `beside`."""
    text = _fields_of(path).get("text")
    named = text.get("json_schema") if isinstance(text, dict) else None
    if not isinstance(named, str):
        return None
    return Path(os.path.relpath(path.parent / named, beside.parent)).as_posix()


def _fields_of(path: Path) -> dict[str, Any]:
    try:
        fields = load_written(path.read_text(encoding="utf-8"), numbers=_NUMBERS_OF_SCHEMA)
    except FileNotFoundError:
        raise SchemaError(f"{path}: not found (setting prepare.schema)") from None
    except (OSError, UnicodeDecodeError):
        raise SchemaError(f"{path}: cannot be read as UTF-8 text") from None
    except NullInList as error:
        raise SchemaError(f"{path}, line {error.line}: {error}") from None
    except Exception as error:  # not only YAMLError: an invalid date raises a ValueError
        raise SchemaError(f"{path}{yaml_fault(error)}") from None
    if not isinstance(fields, dict):
        raise SchemaError(f"{path}: expected 'subject' and 'attributes'")
    return fields


def schema_of(fields: dict[str, Any], *, source: str) -> Schema:
    """Make a schema from a mapping. Raises SchemaError that names `source` and the attribute."""
    try:
        return Schema.model_validate(fields)
    except ValidationError as error:
        raise SchemaError(_explain(source, fields, error)) from None


def _explain(source: str, fields: dict[str, Any], error: ValidationError) -> str:
    lines = []
    problems = error.errors(include_input=False, include_url=False)
    # If every item of a list is wrong, pydantic also reports that the list is too short.
    items = {problem["loc"][0] for problem in problems if len(problem["loc"]) > 1}
    for problem in problems:
        if problem["type"] == "too_short" and problem["loc"][0] in items:
            continue
        location = list(problem["loc"])
        if len(location) >= 2 and location[0] == "attributes" and isinstance(location[1], int):
            listed = fields["attributes"][location[1]]
            name = listed.get("name") if isinstance(listed, dict) else None
            location[:2] = [f"attribute '{name}'" if name else f"attribute {location[1] + 1}"]
        message = problem["msg"].removeprefix("Value error, ")
        if problem["type"] == "extra_forbidden":
            message = "is not a known setting" + _meant(str(location[-1]))
        if problem["type"] == "string_pattern_mismatch" and location[-1] == "name":
            message = "a name has letters without accents, digits and _, and begins with no digit"
        lines.append(f"{source}: {'.'.join(map(str, location))}: {message}".replace(": :", ":"))
    return "\n".join(lines)


def _meant(name: str) -> str:
    close = difflib.get_close_matches(name, Attribute.model_fields, n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _zone_kind(edge: Edge) -> tuple[Kind | None, bool]:
    """Return the kind of an edge, and whether it has a time zone."""
    return kind_of((edge,)), isinstance(edge, datetime) and edge.tzinfo is not None
