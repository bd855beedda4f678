"""A text as parts: sentences, each in a turn (or a line) that may have a speaker."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum, IntEnum
from itertools import groupby

# "Agent: ", "Desk> ", "[Nurse] ": what stands before a turn.
_SPEAKER = re.compile(
    r"(?:\[[A-Z][\w .]{0,20}\]|[A-Z][\w.]{0,14}(?: [A-Z0-9][\w.]{0,14})?\s?[:>])\s+"
)
_INLINE = re.compile(rf"(?<=[.!?])\s+(?={_SPEAKER.pattern})")
_SENTENCE = re.compile(r"(?:(?<=[.!?])|(?<=[.!?][\"']))\s+(?=[\"'(]?[A-Z0-9])")
_ABBREVIATION = re.compile(r"\b(?:Mr|Mrs|Ms|Dr|No|St|e\.g|i\.e|approx|vs)\.$")

_AGENT_WORDS = (
    "agent", "desk", "support", "advisor", "rep", "staff", "doctor", "assistant", "service",
    "operator", "clerk", "shop", "store", "helper", "system", "nurse", "team",
)  # fmt: skip


class Voice(Enum):
    """Who speaks in a part."""

    CUSTOMER = "customer"
    AGENT = "agent"
    NOTE = "note"


class Need(IntEnum):
    """How much a text needs a part. What is least needed goes first when it is too long."""

    DETAIL = 0
    STEP = 1
    WISHED = 2


@dataclass(frozen=True)
class Part:
    """A sentence or so of one turn. Parts of a turn have its number and its speaker."""

    turn: int
    speaker: str
    text: str
    need: Need = Need.STEP


def parse(text: str) -> list[Part]:
    """The parts of any text. `render` gives it back but for blank lines and the like."""
    parts = []
    lines = [piece for line in text.splitlines() for piece in _INLINE.split(line.strip()) if piece]
    for turn, line in enumerate(lines):
        found = _SPEAKER.match(line)
        speaker = found.group() if found else ""
        for sentence in _sentences(line[len(speaker) :]):
            parts.append(Part(turn, speaker, sentence))
    return parts


def render(parts: Sequence[Part]) -> str:
    """The text, one turn a line. Turns of one speaker that have come to meet are one turn."""
    lines = []
    for _, turn in groupby(parts, key=lambda part: part.speaker.strip() or part.turn):
        said = list(turn)
        lines.append(said[0].speaker + " ".join(part.text for part in said))
    return "\n".join(lines)


def count_words(parts: Sequence[Part]) -> int:
    """Words of the rendered text."""
    return len(render(parts).split())


def voice_of(speaker: str, parts: Sequence[Part]) -> Voice:
    """Whether `speaker` talks like an agent, like a customer, or nobody speaks.

    The speaker's name tells; where it does not, whoever is not an agent by name is the customer,
    and where nobody is, the first to speak is the agent.
    """
    if not speaker.strip():
        return Voice.NOTE
    if _is_agent(speaker):
        return Voice.AGENT
    speakers = list(dict.fromkeys(part.speaker for part in parts if part.speaker.strip()))
    if any(map(_is_agent, speakers)) or speakers[:1] != [speaker]:
        return Voice.CUSTOMER
    return Voice.AGENT


def _is_agent(speaker: str) -> bool:
    return any(word in speaker.lower() for word in _AGENT_WORDS)


def insert(parts: list[Part], place: int, text: str, need: Need) -> None:
    """Put a sentence right after `place`, into the same turn."""
    parts.insert(place + 1, replace(parts[place], text=text, need=need))


def fit(
    parts: Sequence[Part], words: int, *, more: Callable[[Sequence[Part]], tuple[int, str] | None]
) -> list[Part]:
    """`parts` brought to about `words` words, within a tenth or four words.

    What is least needed goes first, and of that what brings the length nearest; what is WISHED
    stays, and so does the last part. `more` says what to add after which part, None when it has
    nothing left to say.
    """
    fitted = list(parts)
    slack = max(4, words // 10)
    while len(fitted) > 1 and (excess := count_words(fitted) - words) > slack:
        needless = [i for i, part in enumerate(fitted) if part.need < Need.WISHED]
        if not needless:
            break
        lowest = min(fitted[i].need for i in needless)
        del fitted[
            min(
                (i for i in needless if fitted[i].need == lowest),
                key=lambda i: abs(excess - len(fitted[i].text.split())),
            )
        ]
    while words - count_words(fitted) > slack:
        addition = more(fitted)
        if addition is None:
            break
        insert(fitted, *addition, Need.DETAIL)
    return fitted


def _sentences(line: str) -> list[str]:
    sentences: list[str] = []
    for piece in _SENTENCE.split(line.strip()):
        if sentences and _ABBREVIATION.search(sentences[-1]):
            sentences[-1] += " " + piece
        elif piece.strip():
            sentences.append(piece.strip())
    return sentences
