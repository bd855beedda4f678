"""Generates labelled texts for training the redactor, without any data set.

    carriers.txt + values -> sentences -> dialogues, mails, forms, notes -> case, typos, spacing

A carrier is a sentence with slots for values. One text in eight comes from the simulator of the
embedded example, with other values in its labelled spans. One in eight has random words of other
languages. Text i depends on the seed and on i alone.
"""

from __future__ import annotations

import pydoc_data.topics as _topics
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path

from sugarbush.examples import corpus
from sugarbush.examples.corpus import ExampleRecord, example_records
from sugarbush.examples.data_files import load_yaml, words
from sugarbush.examples.grammar import Grammar, unmark
from sugarbush.examples.seeded_random import SeededRandom
from sugarbush.redactor.values import (
    ADDRESS,
    CHECKED_LOCALES,
    EMAIL,
    LISTS,
    LOCALES,
    NAME,
    NUMBER,
    PHONE,
    SlotValues,
)
from sugarbush.training.crt.recall import LabelledText

_SIMULATED = 600  # the simulator writes this number of records
_SIMULATOR_SEED = 20_260  # the embedded example has other records
_CHECKED_EVERY = 8  # one carrier in 8 occurs only in texts for choosing the thresholds
_OF_SIMULATOR = {
    "NAME": "name", "ADDRESS": "address", "PHONE": "phone",
    "ORDER_NUMBER": "id", "TRACKING_NUMBER": "id",
}  # fmt: skip
_STAFF = words(load_yaml(Path(corpus.__file__).parent / "shop" / "vocabulary.yaml")["clerks"])
_DESK_STAFF = re.compile(rf"\b(?:{'|'.join(_STAFF)})\b", re.IGNORECASE)
_SPEAKERS = (
    ("USR", "SYS"), ("Customer", "Agent"), ("A", "B"), ("Caller", "Operator"),
    ("Doctor", "Patient"), ("user", "bot"), ("CLIENT", "SUPPORT"), ("Q", "A"),
    ("", ""), ("-", "-"), (">", "<"),
)  # fmt: skip
_SIGNS = words("– — … • ™ → â€“ â€™ ג€“ &amp; \U0001f600 *** ~ | <br> ???")
_FORM_KEYS = {
    kind: LISTS[f"keys_{kind.lower() or 'plain'}"]
    for kind in (NAME, ADDRESS, PHONE, EMAIL, NUMBER, "")
}
_FORM_VALUES = {
    NAME: words("{name} {full} {first} {last} {titled}"),
    ADDRESS: words("{address} {address} {street} {postcode} {homecity}"),
    PHONE: words("{phone}"),
    EMAIL: words("{email}"),
    NUMBER: words("{id} {id} {card} {iban} {ssn} {account} {pin}"),
    "": words(
        "{date} {price} {Words} {product} {count} {decimal} {version} {plain} {time} {illness} "
        "{model}"
    ),
}


def generated_texts(seed: int, count: int, *, checked: bool = False) -> Iterator[LabelledText]:
    """Generate `count` texts with their spans of all KINDS.

    With `checked`, the texts have carriers and locales that no training text has.
    """
    for number in range(count):
        yield _text(SeededRandom(seed, "redactor", number, int(checked)), checked)


def _text(rng: SeededRandom, checked: bool) -> LabelledText:
    spoken = rng.chance(0.12)
    locale = rng.choice(CHECKED_LOCALES if checked else LOCALES)
    values = SlotValues(rng, locale, plain=_plain_sentences(), spoken=spoken)
    slots = values.slots()
    grammar = _grammar(checked)

    def sentence(*rules: str) -> str:
        return grammar.write(rng.choice(rules), rng, slots).replace("\\n", "\n").replace("¦", "|")

    makers: tuple[Callable[[], str], ...] = (
        lambda: _prose(sentence, rng),
        lambda: _prose(sentence, rng),
        lambda: _dialogue(sentence, rng, slots["name"]),
        lambda: _form(lambda t: grammar.fill(t, rng, slots), rng),
        lambda: sentence("ask", "world", "work", "care", "plain"),
        lambda: _salad(lambda t: grammar.fill(t, rng, slots), rng),
        lambda: _simulated(values, rng),
    )
    if not checked:  # the thresholds are chosen on English texts
        makers += (lambda: " ".join(sentence("foreign") for _ in range(rng.between(1, 4))),)
    text = rng.choice(makers)()
    return _restyled(text, rng, spoken=spoken)


def _prose(sentence: Callable[..., str], rng: SeededRandom) -> str:
    rule = rng.choice(("ask", "work", "care", "world"))
    pieces = [
        sentence("plain") if rng.chance(0.4) else sentence(rule) for _ in range(rng.between(1, 6))
    ]
    return rng.choice((" ", " ", "\n", "\n\n")).join(pieces)


def _dialogue(sentence: Callable[..., str], rng: SeededRandom, name: object) -> str:
    speakers = rng.choice(_SPEAKERS)
    if rng.chance(0.15) and callable(name):
        speakers = (str(name()), str(name()))
    turns = []
    for turn in range(rng.between(2, 8)):
        said = (
            sentence("plain")
            if rng.chance(0.35)
            else sentence("ask", "ask", "care", "work", "world")
        )
        tag = speakers[turn % 2]
        turns.append(f"{tag}: {said}" if tag.strip("-<>") else f"{tag} {said}".strip())
    return "\n".join(turns)


def _form(fill: Callable[[str], str], rng: SeededRandom) -> str:
    joint = rng.choice((": ", ": ", ": ", " : ", " = ", "\t", " - ", ":\n", " ", '": "'))
    lines = []
    for _ in range(rng.between(1, 7)):
        kind = rng.choice((NAME, NAME, ADDRESS, PHONE, EMAIL, NUMBER, "", ""))
        key = rng.choice(_FORM_KEYS[kind])
        lines.append(f"{key}{joint}{fill(rng.choice(_FORM_VALUES[kind]))}")
    return rng.choice(("\n", "\n", "; ", ", ", " | ", '", "')).join(lines)


def _salad(fill: Callable[[str], str], rng: SeededRandom) -> str:
    kinds = words(
        "{word} {word} {word} {words} {name} {address} {phone} {id} {count} {org} {city} {Words} "
        "{first} {plain}"
    )
    return rng.choice((" ", " ", ", ")).join(
        fill(rng.choice(kinds)) for _ in range(rng.between(2, 12))
    )


def _simulated(values: SlotValues, rng: SeededRandom) -> str:
    """Return a text of the simulator with other values, because the example contains the
    simulator's names."""
    text, spans = rng.choice(_simulator_texts())
    written, position = [], 0
    slots = values.slots()
    for start, end, label in spans:
        slot = slots[_OF_SIMULATOR[label]]
        written += [text[position:start], slot if isinstance(slot, str) else slot()]
        position = end
    return "".join([*written, text[position:]])


def _restyled(marked: str, rng: SeededRandom, *, spoken: bool) -> LabelledText:
    """Change the style of a text: its case, typos, punctuation or spaces."""
    text, spans = unmark(marked)
    pieces: list[tuple[str, str]] = []
    position = 0
    for span in spans:
        pieces += [(text[position : span.start], ""), (span.value, span.label)]
        position = span.end
    pieces.append((text[position:], ""))
    changes: list[Callable[[str], str]] = []
    case = rng.uniform()
    if spoken or case < 0.25:
        changes.append(str.lower)
    elif case < 0.28:
        changes.append(str.upper)
    if spoken and rng.chance(0.7):
        changes.append(lambda piece: re.sub(r"[.,;:!?](?=\s|$)", "", piece))
    if rng.chance(0.08):
        changes.append(
            lambda piece: re.sub(r"(?<=\w)(?=[.,!?](?:\s|$))|(?<=\w)(?='\w)", " ", piece)
        )
    if rng.chance(0.12):
        changes.append(lambda piece: _typos(piece, rng))
    if rng.chance(0.06):  # signs and broken encodings are not names
        sign = rng.choice(_SIGNS)
        changes.append(
            lambda piece: re.sub(
                r" (?:- )?", lambda m: f" {sign} " if rng.chance(0.1) else m[0], piece
            )
        )
    if rng.chance(0.1):  # with masks, the redactor learns to give a mask the kind of its secret
        pieces = [
            ("<MASK>", label) if label and rng.chance(0.4) else (piece, label)
            for piece, label in pieces
        ]
    for change in changes:
        pieces = [(change(piece), label) for piece, label in pieces]
    return joined_pieces(pieces)


def joined_pieces(pieces: Sequence[tuple[str, str]]) -> LabelledText:
    """Join (piece, label) pairs to a text. A piece without a label is not a span."""
    spans, position = [], 0
    for piece, label in pieces:
        if label and piece:
            spans.append((position, position + len(piece), label))
        position += len(piece)
    return LabelledText(text="".join(piece for piece, _ in pieces), spans=tuple(spans))


def _typos(piece: str, rng: SeededRandom) -> str:
    letters = list(piece)
    for index in range(len(letters) - 1):
        if letters[index].isalpha() and letters[index + 1].isalpha() and rng.chance(0.02):
            kind = rng.below(3)
            if kind == 0:
                letters[index], letters[index + 1] = letters[index + 1], letters[index]
            else:
                letters[index] = "" if kind == 1 else letters[index] * 2
    return "".join(letters)


@lru_cache(maxsize=2)
def _grammar(checked: bool) -> Grammar:
    rules: dict[str, list[str]] = {}
    rule: list[str] = []
    for line in (Path(__file__).parent / "carriers.txt").read_text(encoding="utf-8").splitlines():
        if re.fullmatch(r"# \w+", line):
            rule = rules.setdefault(line[2:], [])
        elif line and not line.startswith("# "):
            rule.append(line)
    chosen = {
        name: [line for i, line in enumerate(lines) if (i % _CHECKED_EVERY == 3) == checked]
        for name, lines in rules.items()
    }
    return Grammar(chosen)


@lru_cache(maxsize=1)
def _simulator_texts() -> tuple[tuple[str, tuple[tuple[int, int, str], ...]], ...]:
    """Return texts and spans. The example does not label the names of staff, so this function adds
    spans for them."""
    records = islice(example_records(_SIMULATOR_SEED), _SIMULATED)
    return tuple((record["text"], _with_staff(record)) for record in records)


def _with_staff(record: ExampleRecord) -> tuple[tuple[int, int, str], ...]:
    spans = [(s["start"], s["end"], s["label"]) for s in record["spans"]]
    staff = ((m.start(), m.end(), NAME) for m in _DESK_STAFF.finditer(record["text"]))
    spans += [
        (a, b, k) for a, b, k in staff if not any(a < end and b > start for start, end, _ in spans)
    ]
    return tuple(sorted(spans))


@lru_cache(maxsize=1)
def _plain_sentences() -> tuple[str, ...]:
    """Return sentences without a secret, from Python's own manual and from the simulator."""
    manual = (
        " ".join(sentence.split())
        for topic in _topics.topics.values()
        for sentence in re.split(r"(?<=[.!?])\s+", topic)
    )
    sentences = [s[:-1] for s in manual if re.fullmatch(r"[A-Z][a-z ,'A-Z-]{20,140}[.]", s)]
    for text, spans in _simulator_texts():
        hidden = "".join(
            "\0" if any(a <= i < b for a, b, _ in spans) else c for i, c in enumerate(text)
        )
        sentences += [
            s.strip().rstrip(".") for s in re.split(r"(?<=[.!?])\s|\n|: ", hidden)
            if "\0" not in s and 12 < len(s) < 120 and not _DESK_STAFF.search(s)
        ]  # fmt: skip
    return tuple(dict.fromkeys(sentences))
