"""Splits a text into utterances. An utterance is one sentence of a turn. A turn may have a
speaker."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum
from itertools import groupby

from sugarbush.examples.data_files import words

# Matches a speaker before a turn: "Agent: ", "Desk> ", "[Nurse] "
_SPEAKER = re.compile(
    r"(?:\[[A-Z][\w .]{0,20}\]|[A-Z][\w.]{0,14}(?: [A-Z0-9][\w.]{0,14})?\s?[:>])\s+"
)
_INLINE = re.compile(rf"(?<=[.!?])\s+(?={_SPEAKER.pattern})")
_SENTENCE = re.compile(r"(?:(?<=[.!?])|(?<=[.!?][\"']))\s+(?=[\"'(]?[A-Z0-9])")
_ABBREVIATION = re.compile(r"\b(?:Mr|Mrs|Ms|Dr|No|St|e\.g|i\.e|approx|vs)\.$")

_AGENT_WORDS = words(
    """agent desk support advisor rep staff doctor assistant service operator clerk shop store
    helper system nurse team"""
)


class Role(StrEnum):
    """The role of an utterance's author. A note is a text of the shop about a customer."""

    CUSTOMER = "customer"
    AGENT = "agent"
    NOTE = "note"


class Importance(IntEnum):
    """The importance of an utterance. Long texts lose their least important utterances first."""

    DETAIL = 0
    STEP = 1
    REQUIRED = 2


@dataclass(frozen=True)
class Utterance:
    """A sentence of a turn. All utterances of a turn have the turn's number and speaker."""

    turn: int
    speaker: str
    text: str
    importance: Importance = Importance.STEP


def parse(text: str) -> list[Utterance]:
    """Split a text into utterances. `render` restores the text, except for blank lines."""
    utterances = []
    lines = [piece for line in text.splitlines() for piece in _INLINE.split(line.strip()) if piece]
    for turn, line in enumerate(lines):
        match = _SPEAKER.match(line)
        speaker = match.group() if match else ""
        for sentence in _sentences(line[len(speaker) :]):
            utterances.append(Utterance(turn, speaker, sentence))
    return utterances


def render(utterances: Sequence[Utterance]) -> str:
    """Write the text with one turn per line. Neighbouring turns of one speaker are joined."""
    lines = []
    for _, turn in groupby(utterances, key=lambda said: said.speaker.strip() or said.turn):
        sentences = list(turn)
        lines.append(sentences[0].speaker + " ".join(said.text for said in sentences))
    return "\n".join(lines)


def count_words(utterances: Sequence[Utterance]) -> int:
    """Count the words of the rendered text."""
    return len(render(utterances).split())


def role_of(speaker: str, utterances: Sequence[Utterance]) -> Role:
    """Return the role of `speaker`. Without a speaker, return NOTE.

    Speakers with a word such as "desk" are agents. If no speaker has such a word, the first speaker
    is the agent. All other speakers are customers.
    """
    if not speaker.strip():
        return Role.NOTE
    if _is_agent(speaker):
        return Role.AGENT
    speakers = list(dict.fromkeys(said.speaker for said in utterances if said.speaker.strip()))
    if any(map(_is_agent, speakers)) or speakers[:1] != [speaker]:
        return Role.CUSTOMER
    return Role.AGENT


def insert(utterances: list[Utterance], index: int, text: str, importance: Importance) -> None:
    """Insert a sentence after the utterance at `index`, in the same turn."""
    utterances.insert(index + 1, replace(utterances[index], text=text, importance=importance))


def fit(
    utterances: Sequence[Utterance],
    length: int,
    *,
    more: Callable[[Sequence[Utterance]], tuple[int, str] | None],
) -> list[Utterance]:
    """Shorten or extend `utterances` to about `length` words: within 10%, or within four words.

    The least important utterances are removed first. If several utterances are equally important,
    the length decides which utterance is removed. REQUIRED utterances and the last remaining
    utterance are never removed. `more` returns a further sentence and the index of the utterance
    before it, or None.
    """
    fitted = list(utterances)
    slack = max(4, length // 10)
    while len(fitted) > 1 and (excess := count_words(fitted) - length) > slack:
        lowest = min(said.importance for said in fitted)
        if lowest is Importance.REQUIRED:
            break
        del fitted[
            min(
                (i for i, said in enumerate(fitted) if said.importance is lowest),
                key=lambda i: abs(excess - len(fitted[i].text.split())),
            )
        ]
    while length - count_words(fitted) > slack:
        addition = more(fitted)
        if addition is None:
            break
        insert(fitted, *addition, Importance.DETAIL)
    return fitted


def _is_agent(speaker: str) -> bool:
    return any(word in speaker.lower() for word in _AGENT_WORDS)


def _sentences(line: str) -> list[str]:
    sentences: list[str] = []
    for piece in _SENTENCE.split(line.strip()):
        if sentences and _ABBREVIATION.search(sentences[-1]):
            sentences[-1] += " " + piece
        elif piece.strip():
            sentences.append(piece.strip())
    return sentences
