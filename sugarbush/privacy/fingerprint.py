"""Tests whether two corpora are about the same people, by keyed samples of their values.

A corpus has one name in the ledger, and so one budget. If it gets another name, it is recognised if
it shares about 2% of its distinct texts, phrases, users or ids with a known corpus. So it is
recognised after changes of case, punctuation, spaces and invisible characters, after changes of a
few words in each text or of most records, and if it contains another month of the same users.

It is not recognised if the common share is smaller, or if there are fewer than `_ENOUGH` common
values. Without a user column, it is not recognised either if the texts are translated or rewritten,
if every sixth word is changed, or if letters are replaced by look-alike ones. Ids that are numbers
are ignored, because every table may count from 1. Unrelated corpora are recognised by mistake if
their users are numbered from 1, if their ids are row-1, row-2, ..., or if they are small and have
many equal short answers. The rule protects against mistakes. It does not stop somebody who wants to
break it.
"""

from __future__ import annotations

import hmac
import re
import unicodedata
import zlib
from collections.abc import Iterable, Iterator
from hashlib import blake2b, sha512
from heapq import nsmallest

_SAMPLE = 256
# The number of common values among 256. If two corpora have a tenth in common, 26 are expected, and
# fewer than 5 occur with probability below 1e-6. Two corpora without a common value have equal
# hashes with probability 2e-5.
_ENOUGH = 5
_PHRASE = 8  # words in a phrase
_EVERY = 4  # one phrase in four is used; a hash of its first word decides
_OF_0_2, _MINIMA, _ENOUGH_OF_0_2 = "m", 64, 3
_HEXADECIMAL = frozenset("0123456789abcdef")
_NOT_A_WORD = re.compile(r"[\W_]+")
_NUMBER = re.compile(r"\d{1,12}(\.0)?")


def make_dataset_fingerprint(
    texts: Iterable[str], *, key: bytes, users: Iterable[str] = (), ids: Iterable[str] = ()
) -> tuple[str, ...]:
    """Compute the fingerprint of a corpus: 256 values for each of texts, phrases, users and ids.

    Each kind is a sample of its distinct values, chosen and hidden by `key` (the bottom-k sketch of
    Cohen and Kaplan 2007; its values are hashed again). Without the key nobody can test whether a
    text or user is in the corpus, or how many there are: the values are uniform, and a sample of
    fewer than 256 values is filled up with values that match nothing.

    >>> key = bytes(32)
    >>> one = make_dataset_fingerprint([f"Letter {i}." for i in range(99)], key=key)
    >>> same = make_dataset_fingerprint([f" letter {i}" for i in range(0, 99, 9)], key=key)
    >>> other = make_dataset_fingerprint([f"parcel {i}" for i in range(99)], key=key)
    >>> is_same_dataset(one, same), is_same_dataset(one, other), len(one) == len(same)
    (True, False, True)
    """
    texts = tuple(texts)
    words = [_words(text) for text in texts]
    kinds: dict[str, Iterable[str]] = {
        "t": (" ".join(each) for each in words),
        "p": (phrase for each in words for phrase in _phrases(each)),
        "u": (_plain(user) for user in users),
        "i": (_plain(i) for i in ids if not _NUMBER.fullmatch(str(i))),
    }
    values, corpus = [], b""  # `corpus` makes the filling values of two corpora different
    for kind, found in kinds.items():
        sample = _sample(kind, found, key=key)
        corpus = corpus or b"".join(sample)
        sample += [corpus + i.to_bytes(2, "big") for i in range(_SAMPLE - len(sample))]
        values += sorted(_hidden(kind, each, key=key) for each in sample)
    return (*values, *_fingerprint_of_0_2(texts, key=key))


def is_same_dataset(fingerprint: tuple[str, ...], known: tuple[str, ...]) -> bool:
    """Whether a fingerprint has enough values in common with `known`, which a ledger entry
    stores."""
    if known and known[0][0] in _HEXADECIMAL:
        own = [value[1:] for value in fingerprint if value[0] == _OF_0_2]
        return sum(a == b for a, b in zip(own, known, strict=False)) >= _ENOUGH_OF_0_2
    common = [value[0] for value in set(fingerprint) & set(known)]
    return any(common.count(kind) >= _ENOUGH for kind in set(common))


def stored_part(fingerprint: tuple[str, ...]) -> tuple[str, ...]:
    """Return what an entry stores: all values except those that recognise entries of version 0.2.

    Those values show roughly how many records there are.
    """
    return tuple(value for value in fingerprint if value[0] != _OF_0_2)


def _sample(kind: str, values: Iterable[str], *, key: bytes) -> list[bytes]:
    """Return the smallest keyed hashes of the distinct values, at most `_SAMPLE`."""
    small = key[:64]
    hashes = {
        blake2b(value.encode("utf-8", "surrogatepass"), key=small, person=kind.encode()).digest()
        for value in values
        if value
    }
    return nsmallest(_SAMPLE, hashes)


def _hidden(kind: str, value: bytes, *, key: bytes) -> str:
    """A second hash of a sampled value. The first hash alone would show roughly how many values
    there are."""
    return kind + hmac.digest(key, kind.encode() + value, "sha256").hex()[:8]


def _fingerprint_of_0_2(texts: Iterable[str], *, key: bytes) -> tuple[str, ...]:
    """The 64 keyed minima that versions 0.1 and 0.2 stored, to recognise corpora in their
    ledgers."""
    minima = [b"\xff" * 16] * _MINIMA
    for text in texts:
        plain = " ".join(text.lower().split())
        digest = hmac.digest(key, plain.encode("utf-8", "surrogatepass"), "sha256")
        for block in range(_MINIMA // 4):
            wide = sha512(digest + bytes([block])).digest()
            for part in range(4):
                value, place = wide[16 * part : 16 * part + 16], 4 * block + part
                minima[place] = min(minima[place], value)
    return tuple(_OF_0_2 + value[:8].hex() for value in minima)


def _words(text: str) -> list[str]:
    """The words of a text without case, punctuation and invisible characters."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    if not plain.isascii():
        plain = "".join(c for c in plain if unicodedata.category(c) != "Cf")
    return [word for word in _NOT_A_WORD.split(plain) if word]


def _phrases(words: list[str]) -> Iterator[str]:
    for place in range(len(words) - _PHRASE + 1):
        if zlib.crc32(words[place].encode("utf-8", "surrogatepass")) % _EVERY == 0:
            yield " ".join(words[place : place + _PHRASE])


def _plain(value: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", str(value)).casefold().split())
