"""A record that is a conversation: a list of turns, or a text with a label before each turn."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sugarbush.data.formats.rows import ABSENT, flattened, value_at
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


class OtherTurns(StrEnum):
    """What happens to a turn that is not a role of the schema and a text. A role of the schema is
    an answer, too: turns of other speakers then have this role."""

    REFUSE = "refuse"
    DROP = "drop"
    JOIN = "join"


KEYS = {ChatFormat.OPENAI: ("role", "content"), ChatFormat.SHAREGPT: ("from", "value")}
_OF_OTHERS = "turns of other speakers"
_NO_TEXT, _PARTS, _KEYS = (
    "turns without a text: dropped",
    "parts of a turn without a text, such as an image: dropped",
    "turns with more than a speaker and a text: the rest is dropped",
)
_OMITTED = ("turns ", "parts of a turn ")
_POLICY = (
    "Or say what to do with such turns: other_turns (--other-turns) drop, join or one of roles"
)
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
        other_turns: str = OtherTurns.REFUSE,
        requested: Mapping[str, tuple[int, ...]] | None = None,
    ) -> None:
        self._column, self._roles, self._format = column, tuple(roles), format
        self._other_turns = other_turns
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
            turns = self._checked(self._turns(fields.get(self._column), Counter()))
        except ShapeError as error:
            raise ShapeError(f"column '{self._column}': {error}") from None
        return joined(turns, self._roles)

    def omitted(self, fields: Mapping[str, Any]) -> Mapping[str, int]:
        found = Counter[str]()
        if self._other_turns != OtherTurns.REFUSE:
            self._turns(fields.get(self._column), found)
        return found

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

    @property
    def limits(self) -> Mapping[str, int]:
        return {TURNS: self._max_turns}

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

    def _turns(self, cell: Any, omitted: Counter[str]) -> list[Turn]:
        from sugarbush.data.reading import is_missing  # slow import

        if is_missing(cell):
            raise ShapeError("has no conversation")
        if self._keys is None:
            if not isinstance(cell, str):
                raise ShapeError(f"is not a text, as format: {ChatFormat.PREFIXES} says")
            return sections_of(cell, self._roles)
        if isinstance(cell, str):  # csv has no lists
            cell = _from_json(cell)
        cell = _as_list(cell)
        keys = self._keys
        if not isinstance(cell, list | tuple):
            raise ShapeError(f"is not a list of objects with {keys[0]} and {keys[1]}")
        if self._other_turns != OtherTurns.REFUSE:
            return self._plain_turns(cell, keys, omitted)
        if len(cell) > self._max_turns:
            raise ShapeError(f"has more turns than max_turns={self._max_turns}")
        return [self._turn(item, number, keys) for number, item in enumerate(cell, start=1)]

    def _turn(self, item: Any, number: int, keys: tuple[str, str]) -> Turn:
        if not isinstance(item, Mapping):
            raise ShapeError(_not_a_turn(number, keys))
        if any(value_at(item, key) is ABSENT for key in keys):
            raise ShapeError(f"{_not_a_turn(number, keys)}. {_POLICY}")
        if _has_more(item, keys):
            raise ShapeError(
                f"turn {number} has more than {keys[0]} and {keys[1]}, which no release contains. "
                f"Remove the rest. {_POLICY}"
            )
        role, content = (value_at(item, key) for key in keys)
        if not isinstance(content, str):
            raise ShapeError(f"turn {number}: {keys[1]} is not a text. {_POLICY}")
        if role not in self._roles:
            raise ShapeError(
                f"turn {number} has a role that is not in roles ({', '.join(self._roles)}), which "
                f"--roles or the schema lists. {_POLICY}"
            )
        return role, content.strip()

    def _plain_turns(
        self, items: Sequence[Any], keys: tuple[str, str], omitted: Counter[str]
    ) -> list[Turn]:
        """Return the turns with a text. Turns of other speakers are dropped, joined to the next
        turn (the last ones to the turn before), or have the role `other_turns`."""
        turns, waiting = list[Turn](), list[str]()
        strange = [n for n, item in enumerate(items, start=1) if not isinstance(item, Mapping)]
        no_roles = items and not strange and all(value_at(i, keys[0]) is ABSENT for i in items)
        if strange or no_roles:
            raise ShapeError(_not_a_turn(min(strange, default=1), keys))
        for item in items:
            role, content = (value_at(item, key) for key in keys)
            text, left_out = _text_in(content)
            omitted[_PARTS] += left_out
            omitted[_KEYS] += _has_more(item, keys)
            if not isinstance(role, str) or role not in self._roles:
                omitted[self._of_others] += 1
                if self._other_turns == OtherTurns.JOIN and text:
                    waiting.append(text)
                if self._other_turns in list(OtherTurns):
                    continue
                role = self._other_turns
            if text:
                turns.append((role, "\n".join([*waiting, text])))
                waiting = []
            else:
                omitted[_NO_TEXT] += 1
        if waiting and turns:
            role, text = turns[-1]
            turns[-1] = role, "\n".join([text, *waiting])
        return turns

    @property
    def _of_others(self) -> str:
        done = {OtherTurns.DROP: "dropped", OtherTurns.JOIN: "joined to the next turn"}
        return f"{_OF_OTHERS}: " + next(
            (words for policy, words in done.items() if policy == self._other_turns),
            f"kept as {self._other_turns}",
        )

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


def is_omitted(reason: str) -> bool:
    """Return whether a reason of `Conversation.omitted` is about turns, and not about a row."""
    return reason.startswith(_OMITTED)


def _not_a_turn(number: int, keys: tuple[str, str]) -> str:
    return (
        f"turn {number} is not an object with {keys[0]} and {keys[1]}. If turns have other keys, "
        "name them with --turn-keys, or in the schema: format: [speaker, text]"
    )


def _has_more(item: Mapping[str, Any], keys: tuple[str, str]) -> bool:
    values = {name: value for name, value in item.items() if name not in keys}
    return any(value is not None and name not in keys for name, value in flattened(values))


def _as_list(cell: Any) -> Any:
    return cell.tolist() if hasattr(cell, "tolist") else cell  # parquet as a frame has arrays


def _text_in(content: Any) -> tuple[str, int]:
    """Return the text of a turn, and the number of its parts without one.

    A list of parts has texts and objects with a `text`, as chat programs write them. Texts between
    objects, as in Telegram, are pieces of a sentence; other parts are paragraphs.

    >>> _text_in(["See ", {"type": "link", "text": "the page"}, "."])
    ('See the page.', 0)
    >>> _text_in([{"type": "text", "text": "Look:"}, {"type": "image_url", "image_url": {}}])
    ('Look:', 1)
    """
    content = _as_list(content)
    if isinstance(content, str):
        return content.strip(), 0
    if not isinstance(content, list | tuple):
        return "", 0
    found = [part.get("text") if isinstance(part, Mapping) else part for part in content]
    texts = [text for text in found if isinstance(text, str)]
    between = "" if any(isinstance(part, str) for part in content) else "\n"
    return between.join(texts).strip(), len(found) - len(texts)


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
