"""A record that is a conversation: a list of turns, or a text with a label before each turn."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sugarbush.data.shapes.interface import Lengths, Shape, ShapeError, Span
from sugarbush.data.shapes.sections import content_spans, joined, label_key, label_of, sections_of
from sugarbush.languages import count_words

if TYPE_CHECKING:
    import pyarrow as pa

Turn = tuple[str, str]  # role and content
TURNS, WORDS_PER_TURN = "turns", "words per turn"


class ChatFormat(StrEnum):
    """How a column writes a conversation."""

    OPENAI = "openai"
    SHAREGPT = "sharegpt"
    PREFIXES = "prefixes"


KEYS = {ChatFormat.OPENAI: ("role", "content"), ChatFormat.SHAREGPT: ("from", "value")}
ROLES = {ChatFormat.OPENAI: ("user", "assistant"), ChatFormat.SHAREGPT: ("human", "gpt")}


class Conversation(Shape):
    """A column with conversations between public roles.

    >>> chat = Conversation(column="messages", roles=["customer", "agent"])
    >>> text = chat.text_of({"messages": [{"role": "customer", "content": "Hi."}]})
    >>> text, chat.parse(text)
    ('Customer: Hi.', {'messages': [{'role': 'customer', 'content': 'Hi.'}]})
    """

    def __init__(
        self,
        *,
        column: str,
        roles: Sequence[str],
        format: ChatFormat | tuple[str, str] = ChatFormat.OPENAI,
        first: str | None = None,
        alternate: bool = False,
        max_turns: int = 100,
        requested: Mapping[str, tuple[int, ...]] | None = None,
    ) -> None:
        self._column, self._roles, self._format = column, tuple(roles), format
        # The keys of a turn; None means that the conversation is one text with labels
        self._keys = KEYS.get(format) if isinstance(format, ChatFormat) else format
        self._requested = dict(requested or {})
        self._first, self._alternate, self._max_turns = first, alternate, max_turns

    @property
    def columns(self) -> Mapping[str, str]:
        return {self._column: "text.conversation.column of the schema"}

    @property
    def instruction(self) -> str:
        labels = [f'"{label_of(role)}:"' for role in self._roles]
        sentences = [
            f"Each text is a conversation of at most {self._max_turns} turns. Begin each turn on a "
            f"new line with the label of its speaker, {' or '.join(labels)}."
        ]
        if self._first is not None:
            sentences.append(f'The first turn has the label "{label_of(self._first)}:".')
        if self._alternate:
            sentences.append("Two turns in a row never have the same label.")
        return " ".join(sentences)

    @property
    def description(self) -> str:
        named = isinstance(self._format, ChatFormat)
        form = self._format if named else " and ".join(self._format)
        return (
            f"conversations in column {self._column} (format {form}, roles "
            f"{', '.join(self._roles)})"
        )

    @property
    def types(self) -> Mapping[str, pa.DataType]:
        import pyarrow as pa

        if self._keys is None:
            return {self._column: pa.string()}
        turn = pa.struct([(key, pa.string()) for key in self._keys])
        return {self._column: pa.list_(turn)}

    def text_of(self, fields: Mapping[str, Any]) -> str:
        try:
            turns = self._checked(self._turns(fields.get(self._column)))
        except ShapeError as error:
            raise ShapeError(f"column '{self._column}': {error}") from None
        return joined(turns, self._roles)

    def parse(self, text: str) -> dict[str, Any]:
        turns = self._checked(sections_of(text, self._roles))
        if self._keys is None:
            return {self._column: joined(turns, self._roles, plain=True)}
        role_key, text_key = self._keys
        return {self._column: [{role_key: role, text_key: content} for role, content in turns]}

    @property
    def sections(self) -> tuple[str, ...]:
        return self._roles

    def contents(self, text: str) -> Sequence[Turn]:
        return sections_of(text, self._roles)

    def is_contradictory(self, text: str) -> bool:
        """Return whether a turn begins with the label, or ends with the signature, of another role.

        >>> chat = Conversation(column="messages", roles=["customer", "agent"])
        >>> chat.is_contradictory("Customer: It broke.\\n- Agent")
        True
        """
        return any(
            re.match(_labels(others), content) or re.search(_signature(others), content)
            for role, content in self.contents(text)
            if (others := tuple(other for other in self._roles if other != role))
        )

    @property
    def measures(self) -> tuple[str, ...]:
        return (TURNS, WORDS_PER_TURN)

    def lengths(self, text: str) -> dict[str, int]:
        """Return the number of turns, and their mean number of words: one value of each, so that a
        conversation with many turns counts as much as one with few."""
        turns = self.contents(text)
        words = sum(count_words(content) for _, content in turns)
        return {TURNS: len(turns), WORDS_PER_TURN: round(words / max(len(turns), 1))}

    @property
    def requested(self) -> Mapping[str, tuple[int, ...]]:
        return self._requested

    def words_of(self, lengths: Lengths) -> int | None:
        numbers = dict(lengths)
        if len(numbers) < len(self.measures):
            return None
        return numbers[TURNS] * (numbers[WORDS_PER_TURN] + 1)  # a label is a word

    def length_sentence(self, lengths: Lengths) -> str:
        numbers = dict(lengths)
        turns, words = numbers.get(TURNS), numbers.get(WORDS_PER_TURN)
        if turns is None:
            return f"Write about {words} words in each turn."
        return f"Write about {turns} turns" + (
            "." if words is None else f" of about {words} words."
        )

    def spans(self, text: str) -> Sequence[Span] | None:
        return content_spans(text, self._roles)

    def _turns(self, cell: Any) -> list[Turn]:
        from sugarbush.data.reading import is_missing  # slow import

        if is_missing(cell):
            raise ShapeError("has no conversation")
        if self._keys is None:
            if not isinstance(cell, str):
                raise ShapeError(f"is not a text, as format: {ChatFormat.PREFIXES} says")
            return sections_of(cell, self._roles)
        if isinstance(cell, str):  # csv has no lists
            cell = _from_json(cell)
        if hasattr(cell, "tolist"):  # a frame from a parquet file contains arrays
            cell = cell.tolist()
        keys = self._keys
        if not isinstance(cell, list | tuple):
            raise ShapeError(f"is not a list of objects with {keys[0]} and {keys[1]}")
        if len(cell) > self._max_turns:
            raise ShapeError(f"has more turns than max_turns={self._max_turns}")
        return [self._turn(item, number, keys) for number, item in enumerate(cell, start=1)]

    def _turn(self, item: Any, number: int, keys: tuple[str, str]) -> Turn:
        if not isinstance(item, Mapping) or any(key not in item for key in keys):
            raise ShapeError(
                f"turn {number} is not an object with {keys[0]} and {keys[1]}. If turns have other "
                "keys, list them in the schema: format: [speaker, text]"
            )
        if any(value is not None for key, value in item.items() if key not in keys):
            raise ShapeError(
                f"turn {number} has more than {keys[0]} and {keys[1]}, which no release contains. "
                "Remove the rest"
            )
        role, content = (item[key] for key in keys)
        if not isinstance(content, str):
            raise ShapeError(f"turn {number}: {keys[1]} is not a text")
        if role not in self._roles:
            raise ShapeError(
                f"turn {number} has a role that is not in roles ({', '.join(self._roles)}), which "
                "--roles or the schema lists"
            )
        return role, content.strip()

    def _checked(self, turns: Sequence[Turn]) -> Sequence[Turn]:
        if not turns:
            raise ShapeError("has no turns")
        if len(turns) > self._max_turns:
            raise ShapeError(f"has more turns than max_turns={self._max_turns}")
        if self._first is not None and turns[0][0] != self._first:
            raise ShapeError(f"the first turn is not by {self._first}, as `first` says")
        for number, (role, content) in enumerate(turns, start=1):
            if not content:
                raise ShapeError(f"turn {number} is empty")
            if self._alternate and number > 1 and role == turns[number - 2][0]:
                raise ShapeError(
                    f"turns {number - 1} and {number} have the same role, but the schema says "
                    "alternate: true"
                )
        return turns


def _named(roles: tuple[str, ...]) -> str:
    return "|".join(re.escape(label_of(role)) for role in roles)


@lru_cache(maxsize=64)
def _labels(roles: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"\W*(?:{_named(roles)})[ \t]*\W{{0,2}}[:：]", re.IGNORECASE)


@lru_cache(maxsize=64)
def _signature(roles: tuple[str, ...]) -> re.Pattern[str]:
    """Return a pattern of a last line that is the name of one of the roles alone."""
    return re.compile(rf"\n[^\w\n]*(?:your |the )?(?:{_named(roles)})\W*\Z", re.IGNORECASE)


def distinct_roles(roles: Sequence[str]) -> bool:
    """Return whether all roles have different labels.

    >>> distinct_roles(["agent", "Agent"])
    False
    """
    return len({label_key(role) for role in roles}) == len(roles)


def _from_json(cell: str) -> Any:
    try:
        return json.loads(cell)
    except (ValueError, RecursionError):
        raise ShapeError("is not JSON. If it is a text with labels, set format: prefixes") from None
