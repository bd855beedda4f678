"""The declaration of a shape in the schema file, under the key `text`.

    text:
      fields: [subject, body]            # several text columns
      optional: [subject]                # columns that may be empty
      words: {body: [40, 80, 150]}       # optional: quantiles of the requested lengths

    text:
      conversation:
        column: messages
        format: openai                   # or sharegpt, prefixes, or the keys [speaker, text]
        roles: [customer, agent]
        first: customer                  # optional: who begins
        alternate: true                  # optional: two turns in a row have different roles
        other_turns: drop                # optional: or join, or one of roles; default: refuse
        max_turns: 12
        turns: [4, 6, 9]                 # optional: quantiles of the requested numbers of turns
        words_per_turn: [8, 15, 30]      # optional

    text:
      json_schema: ticket.schema.json    # a file beside the schema
      column: record                     # optional: without it, each property is a column

    text:
      history:                         # the rows of a person become one record
        person: customer               # prepare.user_column
        by: opened_on                  # the order of the records
        column: text
        type: date                     # or datetime, integer
        label: ticket                  # what a record is called in texts
        most: 10                       # the earliest records that are used
        records: [1, 2, 4]             # optional: quantiles of the requested numbers of records
        words_per_record: [8, 15, 30]  # optional

All names of columns, roles and properties are public, and so are the numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from sugarbush.data.quantities import Kind
from sugarbush.data.shapes.conversation import (
    ROLES,
    TURNS,
    WORDS_PER_TURN,
    ChatFormat,
    Conversation,
    OtherTurns,
    distinct_roles,
)
from sugarbush.data.shapes.fields import Fields
from sugarbush.data.shapes.history import (
    COUNT,
    DAYS,
    PERSON,
    RECORD,
    WORDS_PER_RECORD,
    History,
)
from sugarbush.data.shapes.interface import WORDS_OF, Shape
from sugarbush.data.shapes.json_record import JsonRecord
from sugarbush.data.shapes.json_schema import check_json_schema, read_json_schema
from sugarbush.data.shapes.one_text import TEXT

_LABEL = r"^[^\W_][\w .\-]{0,31}$"
_Name = Annotated[str, Field(pattern=_LABEL)]
_Column = Annotated[str, Field(min_length=1, max_length=64)]
_Count = Annotated[int, Field(ge=1, le=100_000)]
_Words = Annotated[tuple[Annotated[int, Field(ge=0, le=100_000)], ...], Field(min_length=1)]
_STRICT = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class ConversationForm(BaseModel):
    """A column with conversations."""

    model_config = _STRICT

    column: _Column = "messages"
    """The column with the conversations."""
    format: ChatFormat | tuple[str, str] = ChatFormat.OPENAI
    """openai: a list of {role, content}; sharegpt: a list of {from, value}; prefixes: a text with a
    label such as `Agent:` before each turn. Two names are other keys of a turn: of its role and its
    text."""
    roles: tuple[_Name, ...] = ()
    """The public names of the speakers; empty: the usual names of the format."""
    first: str | None = None
    """The role of the first turn; null: any."""
    alternate: bool = False
    """Whether two turns in a row have different roles."""
    max_turns: Annotated[int, Field(ge=1, le=1000)] = 100
    """The largest number of turns; a longer conversation is a bad row."""
    other_turns: str = OtherTurns.REFUSE.value
    """What happens to a turn that is not one of `roles` and a text. refuse: the conversation is a
    bad row; drop: it is left out; join: its text is joined to the next turn; one of `roles`: it has
    this role. All except refuse also drop further keys of a turn, parts without a text, and turns
    without a text."""
    turns: tuple[_Count, ...] = ()
    """Quantiles of the numbers of turns that prompts request; empty: any number."""
    words_per_turn: tuple[_Count, ...] = ()
    """Quantiles of the words of a turn that prompts request; empty: any number."""

    @field_validator("format", mode="before")
    @classmethod
    def _is_format_or_keys(cls, given: object) -> object:
        if isinstance(given, list | tuple):
            are_names = all(isinstance(key, str) and key for key in given)
            is_valid = len(given) == 2 and are_names and given[0] != given[1]
        else:
            is_valid = given in list(ChatFormat)
        if not is_valid:
            raise ValueError(
                f"expected {', '.join(ChatFormat)}, or the two keys of a turn, such as "
                "[speaker, text]"
            )
        return given

    @model_serializer(mode="wrap")
    def _without_default(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields: dict[str, Any] = handler(self)
        if self.other_turns == OtherTurns.REFUSE:
            del fields["other_turns"]  # keys of results that were drawn before this setting
        return fields

    @model_validator(mode="after")
    def _roles_are_known(self) -> ConversationForm:
        if max(self.turns, default=0) > self.max_turns:
            raise ValueError("turns has a number above max_turns")
        if not self.all_roles:
            raise ValueError("roles is empty. List the labels, such as roles: [customer, agent]")
        if not distinct_roles(self.all_roles):
            raise ValueError("roles repeats a name; case and underscores do not count")
        if self.first is not None and self.first not in self.all_roles:
            raise ValueError("first is none of roles")
        policies = [*OtherTurns, *self.all_roles]
        if self.other_turns not in policies:
            raise ValueError(f"other_turns: expected {', '.join(OtherTurns)}, or one of roles")
        if self.format == ChatFormat.PREFIXES and self.other_turns != OtherTurns.REFUSE:
            raise ValueError("other_turns: needs a list of turns, and not format: prefixes")
        return self

    @property
    def all_roles(self) -> tuple[str, ...]:
        return self.roles or (
            ROLES.get(self.format, ()) if isinstance(self.format, ChatFormat) else ()
        )


class HistoryForm(BaseModel):
    """The rows of a person, which are one record."""

    model_config = _STRICT

    person: _Column
    """The column with the person: `prepare.user_column`."""
    by: _Column
    """The column with the order of a person's records."""
    column: _Column = TEXT
    """The column with the text of a record."""
    type: Kind = Kind.DATE
    """What `by` contains: date, datetime or integer. An integer gives no gaps."""
    format: str | None = None
    """How `by` writes a date, such as "%d/%m/%Y"; null: as 2024-01-31."""
    label: _Name = "record"
    """What a record is called in texts, such as ticket or visit."""
    most: Annotated[int, Field(ge=1, le=1000)] = 10
    """The earliest records of a person that are used."""
    records: tuple[_Count, ...] = ()
    """Quantiles of the numbers of records that prompts request; empty: any number."""
    words_per_record: tuple[_Count, ...] = ()
    """Quantiles of the words of a record that prompts request; empty: any number."""

    @model_validator(mode="after")
    def _columns_differ(self) -> HistoryForm:
        if len({self.person, self.by, self.column}) < 3:
            raise ValueError("person, by and column must be different columns")
        if self.type is Kind.NUMBER:
            raise ValueError("type must be date, datetime or integer")
        if self.format is not None and not self.type.is_time:
            raise ValueError("format needs type: date or datetime")
        if taken := {self.by, self.column} & {PERSON, RECORD, DAYS}:
            raise ValueError(f"a released record has another column {min(taken)}. Rename yours")
        if max(self.records, default=0) > self.most:
            raise ValueError("records has a number above most")
        return self


class TextForm(BaseModel):
    """The declaration of one shape: `fields`, `conversation`, `json_schema` or `history`.

    >>> TextForm(fields=["subject", "body"]).shape.description
    'text fields subject, body'
    """

    model_config = _STRICT

    fields: tuple[_Name, ...] = ()
    """The text columns, in the order of a prompt."""
    optional: tuple[str, ...] = ()
    """The columns of `fields` that may be empty."""
    conversation: ConversationForm | None = None
    """A column with conversations."""
    json_schema: dict[str, Any] | None = None
    """A JSON Schema, or the path of its file."""
    column: _Column | None = None
    """The column with JSON records; null: each property is a column."""
    history: HistoryForm | None = None
    words: dict[str, _Words] = {}
    """Quantiles of the words that prompts request for a field or a property of `json_schema`."""

    @field_validator("json_schema", mode="before")
    @classmethod
    def _read(cls, schema: object) -> object:
        return read_json_schema(Path(schema)) if isinstance(schema, str | Path) else schema

    @field_validator("json_schema")
    @classmethod
    def _fits_columns(cls, schema: dict[str, Any] | None) -> dict[str, Any] | None:
        if schema is not None:
            check_json_schema(schema)
        return schema

    @model_validator(mode="after")
    def _one_shape(self) -> TextForm:
        others = (self.conversation, self.json_schema, self.history)
        if bool(self.fields) + sum(form is not None for form in others) != 1:
            raise ValueError("needs exactly one of fields, conversation, json_schema, history")
        if self.column is not None and self.json_schema is None:
            raise ValueError("column belongs to json_schema")
        if self.fields and not distinct_roles(self.fields):
            raise ValueError("fields repeats a name; case and underscores do not count")
        if not set(self.optional) <= set(self.fields):
            raise ValueError("optional names a column that is not in fields")
        if self.words and self._numbers is not None:
            *_, key = self._numbers
            raise ValueError(f"words belongs to fields and json_schema; see {key}")
        if strange := sorted(set(self.words) - set(self.shape.sections)):
            raise ValueError(f"words names {strange[0]}, which is no section with free text")
        return self

    @property
    def kind(self) -> str:
        """The key of the shape: fields, conversation, json_schema or history."""
        for key in ("conversation", "history"):
            if getattr(self, key) is not None:
                return key
        return "fields" if self.fields else "json_schema"

    @cached_property
    def shape(self) -> Shape:
        """The shape that is declared."""
        if self.conversation is not None:
            form = self.conversation
            return Conversation(
                column=form.column,
                roles=form.all_roles,
                format=form.format,
                first=form.first,
                alternate=form.alternate,
                max_turns=form.max_turns,
                other_turns=form.other_turns,
                requested=_requested(form, self._numbers),
            )
        if self.history is not None:
            own = self.history
            return History(
                person=own.person,
                by=own.by,
                column=own.column,
                label=own.label,
                kind=own.type,
                format=own.format,
                most=own.most,
                requested=_requested(own, self._numbers),
            )
        requested = {WORDS_OF + name: numbers for name, numbers in self.words.items()}
        if self.json_schema is not None:
            return JsonRecord(self.json_schema, column=self.column, requested=requested)
        return Fields(self.fields, optional=self.optional, requested=requested)

    @property
    def _numbers(self) -> Mapping[str, str] | None:
        """The keys of the requested numbers of a conversation or a history, with their measures."""
        if self.conversation is not None:
            return {"turns": TURNS, "words_per_turn": WORDS_PER_TURN}
        if self.history is not None:
            return {"records": COUNT, "words_per_record": WORDS_PER_RECORD}
        return None

    @model_serializer(mode="wrap")
    def _without_no_history(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out `history` of other shapes, so that their cache keys do not change."""
        fields: dict[str, Any] = serialize(self)
        return {name: value for name, value in fields.items() if name != "history" or value}

    @property
    def without_lengths(self) -> TextForm:
        """The declaration without the numbers that prompts request."""
        return self.with_lengths({})

    def with_lengths(self, requested: Mapping[str, tuple[int, ...]]) -> TextForm:
        """Return the declaration with numbers to request for some of `shape.measures`."""
        fields = self.model_dump()  # a copy would share the shape
        if self._numbers is not None:
            fields[self.kind] |= {
                key: requested.get(name, ()) for key, name in self._numbers.items()
            }
        else:
            fields["words"] = {name.removeprefix(WORDS_OF): n for name, n in requested.items()}
        return TextForm.model_validate(fields)


def _requested(form: BaseModel, numbers: Mapping[str, str] | None) -> dict[str, tuple[int, ...]]:
    """Return the requested numbers of a form by measure, without empty ones."""
    return {name: own for key, name in (numbers or {}).items() if (own := getattr(form, key))}


def refuse_taken_names(
    shape: Shape,
    columns_of_attributes: Mapping[str, str | None],
    taken: Collection[str],
    prefixes: tuple[str, ...],
) -> None:
    """Raise ValueError if a released column of the text has the name of another column.

    `columns_of_attributes` maps the name of each attribute to its column. `taken` and `prefixes`
    are the other columns of a release.
    """
    released = set(shape.types)
    if further := shape.further_columns & set(columns_of_attributes):
        raise ValueError(f"attribute '{min(further)}' has the name of a released column. Rename it")
    names = {name for name in released if name.startswith(prefixes)} | (released & set(taken))
    if names := names - {TEXT}:
        raise ValueError(
            "text: a release has other columns with these names or beginnings: "
            + ", ".join(sorted(names))
        )
    for name in sorted(released & set(columns_of_attributes)):
        if columns_of_attributes[name] != name or name in shape.text_columns:
            raise ValueError(f"attribute '{name}' has the name of a column of the text. Rename it")


def beside(fields: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the fields of a schema file in `folder`, with the path of its JSON Schema complete."""
    text = fields.get("text")
    if isinstance(text, dict) and isinstance(text.get("json_schema"), str):
        return {**fields, "text": {**text, "json_schema": str(folder / text["json_schema"])}}
    return fields
