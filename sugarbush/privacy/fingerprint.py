"""Tests whether two corpora are about the same people, by keyed samples of their values.

A corpus has one name in the ledger, and therefore one budget. The ledger recognises a known corpus
under a new name if the two share about 2% of their distinct texts, phrases, users or ids. Case,
punctuation, spaces and invisible characters are ignored. The ledger also recognises a corpus after
changes of a few words in each text, and after most records were replaced.

The ledger does not recognise a corpus if the common fraction is smaller than about 2%, or if fewer
than `ENOUGH` values are common. Without a user column, these changes also prevent recognition:

    translated or rewritten texts
    a change of every sixth word
    look-alike letters

Numeric ids are ignored, because many tables number their rows from 1. So the same records with
another text column are not recognised if their ids are numbers and there are no users. Two
unrelated corpora can match by mistake if

    both number their users from 1
    both have ids such as row-1 and row-2
    both are small and have many equal short answers

The check prevents mistakes, not intended evasion.
"""

from __future__ import annotations

import hmac
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b, sha512
from heapq import nsmallest
from itertools import compress
from typing import NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from sugarbush.privacy.users import normalised_user

SAMPLE = 256
# Minimum number of common values, among 256, of two corpora that match. If two corpora share 1/10
# of their values, 26 common values are expected, and P[fewer than 5] < 1e-6. If two corpora share
# no value, P[any equal hashes] = 2e-5.
ENOUGH = 5
PHRASE = 8  # words in a phrase
_EVERY = 4  # a hash of the first word chooses one phrase in four
_OF_0_2, _MINIMA, _ENOUGH_OF_0_2 = "m", 64, 3
_HEXADECIMAL = frozenset("0123456789abcdef")
_NOT_A_WORD = re.compile(r"[\W_]+")
_ASCII_WORDS = "".join(c.lower() if c.isalnum() else " " for c in map(chr, range(128)))
_WORDS_IN_MEMORY, _TEXTS_AT_A_TIME = 2**20, 2**12
_NUMBER = re.compile(r"\d{1,12}(\.0)?")


class FingerprintState(NamedTuple):
    """The samples of some records: the smallest keyed hashes by kind, and the values of 0.2."""

    samples: dict[str, list[bytes]]
    minima: NDArray[np.uint64]

    def joined(self, other: FingerprintState) -> FingerprintState:
        """Return the samples of the records of both."""
        samples = {
            kind: nsmallest(SAMPLE, {*digests, *other.samples[kind]})
            for kind, digests in self.samples.items()
        }
        return FingerprintState(samples, np.minimum(self.minima, other.minima))


class FingerprintBuilder:
    """Computes `make_dataset_fingerprint` for a corpus that is read in batches.

    `of_0_2` adds values that match ledger entries of versions 0.1 and 0.2. Most state folders have
    no such entry. For these folders, `of_0_2=False` saves a quarter of the time.
    """

    def __init__(self, *, key: bytes, of_0_2: bool = True) -> None:
        self._key, self._of_0_2 = key, of_0_2
        self._samples = {kind: _Sample(kind, key=key) for kind in "tpui"}
        self._minima = np.full(_MINIMA, 2**64 - 1, dtype=np.uint64)
        self._anchors = Anchors()

    def add(
        self, texts: Sequence[str], *, users: Iterable[str] = (), ids: Iterable[str] = ()
    ) -> None:
        words = [words_of(text) for text in texts]
        self._samples["t"].add(" ".join(each) for each in words)
        self._samples["p"].add(self._anchors.phrases(words))
        self._samples["u"].add(normalised_user(user) for user in users)
        self._samples["i"].add(_plain(i) for i in ids if not _NUMBER.fullmatch(str(i)))
        for start in range(0, len(texts) if self._of_0_2 else 0, _TEXTS_AT_A_TIME):
            minima = _minima_of_0_2(texts[start : start + _TEXTS_AT_A_TIME], key=self._key)
            np.minimum(self._minima, minima, out=self._minima)

    def state(self) -> FingerprintState:
        """Return what `merge` needs of the added records."""
        samples = {kind: sample.smallest() for kind, sample in self._samples.items()}
        return FingerprintState(samples, self._minima)

    def merge(self, state: FingerprintState) -> None:
        """Add the records of another builder with the same key."""
        for kind, digests in state.samples.items():
            self._samples[kind].merge(digests)
        np.minimum(self._minima, state.minima, out=self._minima)

    def values(self) -> tuple[str, ...]:
        """Return the fingerprint of all added records."""
        values, corpus = [], b""  # the prefix `corpus` makes the padding of each corpus different
        for kind, sample in self._samples.items():
            smallest = sample.smallest()
            corpus = corpus or b"".join(smallest)
            smallest += [corpus + i.to_bytes(2, "big") for i in range(SAMPLE - len(smallest))]
            values += sorted(_hidden(kind, each, key=self._key) for each in smallest)
        minima = self._minima if self._of_0_2 else ()
        return (*values, *(f"{_OF_0_2}{int(value):016x}" for value in minima))


def make_dataset_fingerprint(
    texts: Iterable[str], *, key: bytes, users: Iterable[str] = (), ids: Iterable[str] = ()
) -> tuple[str, ...]:
    """Compute the fingerprint of a corpus: 256 keyed hashes each of its texts, phrases, users, ids.

    Each sample is a bottom-k sketch of the distinct values (Cohen and Kaplan 2007). The hashes are
    keyed with `key`, so only somebody with the key can test whether the corpus contains a text or
    user. A second hash and padding to 256 values hide how many values there are.

    >>> key = bytes(32)
    >>> one = make_dataset_fingerprint([f"Letter {i}." for i in range(99)], key=key)
    >>> same = make_dataset_fingerprint([f" letter {i}" for i in range(0, 99, 9)], key=key)
    >>> other = make_dataset_fingerprint([f"parcel {i}" for i in range(99)], key=key)
    >>> is_same_dataset(one, same), is_same_dataset(one, other), len(one) == len(same)
    (True, False, True)
    """
    builder = FingerprintBuilder(key=key)
    builder.add(tuple(texts), users=users, ids=ids)
    return builder.values()


def is_same_dataset(fingerprint: tuple[str, ...], stored: tuple[str, ...]) -> bool:
    """Return whether a fingerprint matches the fingerprint `stored` of a ledger."""
    if stored and stored[0][0] in _HEXADECIMAL:
        minima = [value[1:] for value in fingerprint if value[0] == _OF_0_2]
        return sum(a == b for a, b in zip(minima, stored, strict=False)) >= _ENOUGH_OF_0_2
    common = [value[0] for value in set(fingerprint) & set(stored)]
    return any(common.count(kind) >= ENOUGH for kind in set(common))


def is_comparable(fingerprint: tuple[str, ...], stored: tuple[str, ...]) -> bool:
    """Return whether `is_same_dataset` can compare `fingerprint` with `stored`.

    If `stored` comes from version 0.2, `fingerprint` needs the values of version 0.2.
    """
    of_0_2 = bool(stored) and stored[0][0] in _HEXADECIMAL
    return not of_0_2 or any(value[0] == _OF_0_2 for value in fingerprint)


def stored_values(fingerprint: tuple[str, ...]) -> tuple[str, ...]:
    """Return the values that a ledger entry stores: all except the values of version 0.2.

    The values of version 0.2 would reveal the approximate number of records.
    """
    return tuple(value for value in fingerprint if value[0] != _OF_0_2)


class _Sample:
    """The `SAMPLE` smallest keyed hashes of distinct values."""

    def __init__(self, kind: str, *, key: bytes) -> None:
        self._hash = blake2b(key=key[:64], person=kind.encode())
        self._digests: set[bytes] = set()
        self._largest = b"\xff" * 65

    def add(self, values: Iterable[str]) -> None:
        copy, largest = self._hash.copy, self._largest
        for value in values:
            if not value:
                continue
            hasher = copy()
            hasher.update(value.encode("utf-8", "surrogatepass"))
            digest = hasher.digest()
            if digest < largest:
                self._digests.add(digest)
                if len(self._digests) >= 2 * SAMPLE:
                    largest = self._shrink()

    def merge(self, digests: Iterable[bytes]) -> None:
        self._digests.update(digests)
        self._shrink()

    def smallest(self) -> list[bytes]:
        return nsmallest(SAMPLE, self._digests)

    def _shrink(self) -> bytes:
        smallest = self.smallest()
        self._digests = set(smallest)
        if len(smallest) == SAMPLE:
            self._largest = smallest[-1]
        return self._largest


def _hidden(kind: str, value: bytes, *, key: bytes) -> str:
    """Hash a sampled value again.

    The smallest of many hashes is smaller than the smallest of few hashes. The first hash would
    therefore reveal the approximate number of values.
    """
    return kind + hmac.digest(key, kind.encode() + value, "sha256").hex()[:8]


def _minima_of_0_2(texts: Sequence[str], *, key: bytes) -> NDArray[np.uint64]:
    """Compute the first 8 bytes of the 64 keyed minima that versions 0.1 and 0.2 stored."""
    blocks = [bytes([block]) for block in range(_MINIMA // 4)]
    plain = (" ".join(text.lower().split()) for text in texts)
    digests = (hmac.digest(key, text.encode("utf-8", "surrogatepass"), "sha256") for text in plain)
    hashes = b"".join([sha512(digest + block).digest() for digest in digests for block in blocks])
    numbers = np.frombuffer(hashes, dtype=">u8").reshape(len(texts), _MINIMA, 2)
    minima: NDArray[np.uint64] = numbers[:, :, 0].min(axis=0).astype(np.uint64)
    return minima


def words_of(text: str) -> list[str]:
    """Split a text into lower-case words without punctuation and invisible characters."""
    if text.isascii():
        return text.translate(_ASCII_WORDS).split()
    plain = unicodedata.normalize("NFKC", text).casefold()
    plain = "".join(c for c in plain if unicodedata.category(c) != "Cf")
    return [word for word in _NOT_A_WORD.split(plain) if word]


class Anchors(dict[str, bool]):
    """Maps a word to True if phrases that start with the word are used (one word in `_EVERY`)."""

    def __missing__(self, word: str) -> bool:
        if len(self) >= _WORDS_IN_MEMORY:
            self.clear()
        self[word] = used = crc32(word.encode("utf-8", "surrogatepass")) % _EVERY == 0
        return used

    def phrases(self, texts: Iterable[list[str]]) -> Iterator[str]:
        for words in texts:
            used = compress(range(len(words) - PHRASE + 1), map(self.__getitem__, words))
            yield from [" ".join(words[start : start + PHRASE]) for start in used]


def _plain(value: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", str(value)).casefold().split())
