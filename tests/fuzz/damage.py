"""How inputs are damaged: bytes, values of JSON, and words that parsers stumble over."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from hypothesis import strategies as st

CANARY = "Kanarie7731x"
SECRET = "Passwort4242y"
"""The canary of files that are public but for a password in an address."""

NASTY = (
    b"\x00", b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\r",
    b"\n", b"\r\n",
    b'"', b'""', b"'", b",", b";", b"\t", b"\\", b"{", b"}", b"[", b"]", b":", b"#", b"- ", b"? ",
    b"&a ", b"*a",
    b"!!binary ", b"!!float x", b"!!int ''", b"!!timestamp x", b"!!set ", b"<<: ",
    b"%YAML 9.9\n---\n", b"---\n", b"...",
    b"NaN", b"-Infinity", b"Infinity", b"1e308", b"1e999", b"-0", b"1" * 400, b"9" * 5000, b".inf",
    b".nan", b"0o9",
    b"2020-99-99", b"2020-01-01T99:99:99Z", b"12:30:45", b"null", b"true", b"~", b"0x", b"1_000",
    b'"\\ud800"', b"\\u0000", "\u2028".encode(), "\x85".encode(), "\u202e".encode(),
    "\U0001f600".encode(),
    b"[" * 3000, b"{\"a\":" * 3000, b"- " * 3000, b"(" * 99, b"x" * 70000,
    gzip.compress(b"text\nhello\n"), b"PAR1",
)  # fmt: skip

KINDS = ("insert", "replace", "delete", "cut", "repeat", "exchange")
junk = st.one_of(st.sampled_from(NASTY), st.binary(max_size=12))
edit = st.tuples(
    st.sampled_from(KINDS),
    st.floats(0, 1, exclude_max=True),
    st.integers(1, 40),
    junk,
)


def damaged(content: bytes, edits: Sequence[tuple[str, float, int, bytes]]) -> bytes:
    """`content` after the edits, each at a share of its length."""
    for kind, share, length, piece in edits:
        at = int(share * (len(content) + 1))
        end = at + length
        content = {
            "insert": content[:at] + piece + content[at:],
            "replace": content[:at] + piece + content[end:],
            "delete": content[:at] + content[end:],
            "cut": content[:at],
            "repeat": content[:end] + content[at:],
            "exchange": content[end:] + content[:end],
        }[kind]
    return content


def bytes_like(*bases: bytes, most: int = 4) -> st.SearchStrategy[bytes]:
    """One of `bases` with up to `most` edits, or nothing but junk."""
    edited = st.builds(damaged, st.sampled_from(bases), st.lists(edit, max_size=most))
    return st.one_of(edited, edited, edited, st.lists(junk, max_size=6).map(b"".join))


def more_damaged(content: bytes, rng: Random) -> bytes:
    """`content` after one to three edits."""
    return damaged(content, [random_edit(rng) for _ in range(rng.choice((1, 1, 2, 3)))])


def random_edit(rng: Random) -> tuple[str, float, int, bytes]:
    piece = rng.choice(NASTY) if rng.random() < 0.5 else rng.randbytes(rng.randrange(1, 6))
    return rng.choice(KINDS), rng.random(), rng.randint(1, 40), piece


WORDS = (
    ["", " ", "\t", CANARY, f"a {CANARY}\nb", "1", "1.0", "nan", "1e999", "-1", "lamp", "LAMP",
     "other", "\x00", "\ud800", "\udfff\ud800", "é", "İ", "ﬃ", "\u202e", "a\x1fb", "x" * 3000,
     "true", "2020-01-01", "१२", "\ufeff", "ß" * 40]
)  # fmt: skip
NUMBERS = (
    [0, 1, -1, 0.0, -0.0, 0.5, 1e308, -1e308, 5e-324, float("nan"), float("inf"), float("-inf"),
     10**400, -(10**400), 2**31, 2**63, 2**64, True, False]
)  # fmt: skip
words, numbers = st.sampled_from(WORDS), st.sampled_from(NUMBERS)
scalars = st.one_of(st.none(), numbers, words, st.integers(), st.floats(), st.text(max_size=8))


def nested(depth: int) -> Any:
    """A list in a list in a list."""
    value: Any = CANARY
    for _ in range(depth):
        value = [value]
    return value


NESTED: tuple[Any, ...] = (nested(2), nested(60), [], {}, [{}], {"a": {"b": [1]}})
values = st.one_of(
    scalars,
    scalars,
    st.lists(scalars, max_size=3),
    st.dictionaries(st.one_of(words, st.text(max_size=3)), scalars, max_size=3),
    st.sampled_from(NESTED),
)


def odd_value(rng: Random) -> Any:
    kind = rng.randrange(5)
    if kind == 4:
        return rng.choice(
            (rng.getrandbits(70) - 2**69, rng.uniform(-9, 9), chr(rng.randrange(2**16)))
        )
    return rng.choice((WORDS, NUMBERS, (None,), NESTED)[kind])


def with_damage(value: Any, rng: Random, odd: Callable[[Random], Any] = odd_value) -> Any:
    """A value of JSON of which one part, at any depth, is replaced, missing or added."""
    deeper = rng.random() < 0.8
    if isinstance(value, dict) and value and deeper:
        name = rng.choice(list(value))
        if rng.random() < 0.1:
            return {key: kept for key, kept in value.items() if key != name}
        if rng.random() < 0.1:
            name = rng.choice(WORDS)
        return {**value, name: with_damage(value.get(name), rng, odd)}
    if isinstance(value, list) and value and deeper:
        place = rng.randrange(len(value))
        if rng.random() < 0.1:
            return [*value, value[place]]
        return [*value[:place], with_damage(value[place], rng, odd), *value[place + 1 :]]
    if isinstance(value, str) and rng.random() < 0.5:
        edited = more_damaged(value.encode("utf-8", "surrogatepass"), rng)
        return edited.decode("utf-8", "surrogateescape")
    return odd(rng)


def fields_like(
    base: dict[str, Any], others: st.SearchStrategy[Any] = values
) -> st.SearchStrategy[dict[str, Any]]:
    """`base` with some of its fields replaced, missing or added."""
    changes = st.dictionaries(st.sampled_from([*base, "more"]), others, max_size=3)
    gone = st.sets(st.sampled_from(sorted(base)), max_size=1)
    return st.builds(
        lambda new, missing: {k: v for k, v in {**base, **new}.items() if k not in missing},
        changes,
        gone,
    )
