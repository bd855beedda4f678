"""Tests whether public texts are copies of private records.

A pool releases its texts word for word, so a pool of private texts would release these texts. A
public text counts as common if

    its words are equal to the words of a private record, and are at least eight words,
    at least half of its phrases of eight words are in one private record, or
    one private record has at least half of its phrases of eight words in this text

Texts with fewer than four phrases, which have up to ten words, are compared by the first rule only.
Phrases of many public texts, such as a signature, are ignored. So are case, punctuation, spaces and
invisible characters. In scripts without spaces, each character is a word, and texts of fewer than
16 words are not compared. Short texts, such as "ok thanks", are equal by chance and never count. As
for the fingerprint, two corpora overlap if they share about 2% of their texts, and at least five.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from heapq import nsmallest
from typing import NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from sugarbush.privacy.fingerprint import ENOUGH, PHRASE, SAMPLE, words_of

_SHARE = ENOUGH / SAMPLE  # about 2%
_PHRASES = 4  # minimum number of phrases of a text that is compared by phrases
_COMPARED_BY_PHRASES = 20_000  # texts; more texts are sampled
_MOST_PHRASES = 256  # the first phrases of a longer public text are compared
_MOST_TEXTS = 20  # a phrase of more public texts, or of more than 1% of them and three, is ignored
_COMMON_SHARE, _FEW_TEXTS = 0.01, 3
_WORDS_IN_MEMORY = 2**18
_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # odd, so the hash of a phrase depends on every word
# Thai, Lao, Myanmar, Khmer, Kana, and Chinese characters.
_UNSPACED = re.compile(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\U00020000-\U0003ffff])"
)

Hashes = NDArray[np.uint64]
TextIndices = NDArray[np.int64]


class OverlapState(NamedTuple):
    """The public texts that are in some records: hashes of their words, and indices of texts with
    common phrases."""

    equal: set[int]
    common: TextIndices

    def joined(self, other: OverlapState) -> OverlapState:
        """Return the texts that are in the records of one or the other."""
        return OverlapState(self.equal | other.equal, np.union1d(self.common, other.common))


class PublicTexts:
    """Counts the public texts that are also in the private records.

    >>> texts = [f"the parcel number {i} of my order has not arrived yet" for i in range(9)]
    >>> public = PublicTexts([*texts, "ok thanks"])
    >>> public.compare([text.upper() for text in texts[:4]] + ["ok thanks"])
    >>> public.overlap(5)
    False
    >>> public.compare(texts[4:6])
    >>> public.overlap(7)
    True
    """

    def __init__(self, texts: Iterable[str]) -> None:
        every = tuple(texts)
        sample = set(nsmallest(_COMPARED_BY_PHRASES, every, key=_order))
        self._left: set[int] = set()  # hashes of the words of a text that no record has so far
        self._equal: set[int] = set()
        self._texts: list[int] = []  # hashes of the words of the texts that have phrases
        phrases: list[Hashes] = []
        for text in every:
            words = _words(text)
            named = _hash(" ".join(words))
            if _is_long(words) and named not in self._left:
                self._left.add(named)
                if text in sample and len(words) >= PHRASE + _PHRASES - 1:
                    hashes, _ = _phrases([words])
                    phrases.append(np.unique(hashes[:_MOST_PHRASES]))
                    self._texts.append(named)
        self._count = len(self._left)
        self._index(phrases)
        self._common = np.zeros(len(self._texts), dtype=bool)

    def _index(self, phrases: Sequence[Hashes]) -> None:
        """Sort the phrases of all texts, without the phrases of many texts."""
        of_text = np.repeat(np.arange(len(phrases)), [len(hashes) for hashes in phrases])
        every = np.concatenate([*phrases, np.zeros(0, dtype=np.uint64)])
        order = np.argsort(every, kind="stable")
        values, counts = np.unique(every, return_counts=True)
        most = max(_FEW_TEXTS, min(_MOST_TEXTS, int(_COMMON_SHARE * len(phrases))))
        used = np.repeat(counts <= most, counts)
        self._values: Hashes = values[counts <= most]
        self._counts: TextIndices = counts[counts <= most]
        self._starts: TextIndices = np.cumsum(self._counts) - self._counts
        self._of_text: TextIndices = of_text[order][used]
        self._sizes: TextIndices = np.bincount(self._of_text, minlength=len(phrases))

    def compare(self, records: Sequence[str]) -> None:
        """Compare the texts of a batch of private records."""
        if not self._count:
            return
        words = [_words(text) for text in records]
        equal = {_hash(" ".join(text_words)) for text_words in words} & self._left
        self._left -= equal
        self._equal |= equal
        if len(self._values):
            self._compare_phrases([text_words for text_words in words if len(text_words) >= PHRASE])

    def state(self) -> OverlapState:
        """Return what `merge` needs of the compared records."""
        return OverlapState(self._equal, np.flatnonzero(self._common))

    def merge(self, state: OverlapState) -> None:
        """Add the comparisons of another object with the same public texts."""
        self._left -= state.equal
        self._equal |= state.equal
        self._common[state.common] = True

    def _compare_phrases(self, words: Sequence[list[str]]) -> None:
        phrases, of_record = _phrases(words)
        order = np.lexsort((phrases, of_record))
        phrases, of_record = phrases[order], of_record[order]
        is_new = np.ones(len(phrases), dtype=bool)  # a record that repeats a phrase has it once
        is_new[1:] = (phrases[1:] != phrases[:-1]) | (of_record[1:] != of_record[:-1])
        phrases, of_record = phrases[is_new], of_record[is_new]
        sizes = np.bincount(of_record, minlength=len(words))
        index = np.minimum(np.searchsorted(self._values, phrases), len(self._values) - 1)
        is_listed = self._values[index] == phrases
        index, of_record = index[is_listed], of_record[is_listed]
        counts = self._counts[index]
        pairs = (
            np.repeat(of_record, counts) * len(self._texts)
            + self._of_text[
                np.repeat(self._starts[index] - np.cumsum(counts) + counts, counts)
                + np.arange(counts.sum())
            ]
        )
        pair, times = np.unique(pairs, return_counts=True)
        record, text = np.divmod(pair, len(self._texts))
        in_record, in_text = sizes[record], self._sizes[text]
        is_part = (in_text >= _PHRASES) & (2 * times >= in_text)
        is_whole = (in_record >= _PHRASES) & (2 * times >= in_record)
        self._common[text[is_part | is_whole]] = True

    def overlap(self, records: int) -> bool:
        """Return whether the public texts and all `records` compared records overlap."""
        by_phrases = {self._texts[i] for i in np.flatnonzero(self._common)} - self._equal
        # If the texts are sampled, each one represents several.
        sampled = max(1.0, self._count / _COMPARED_BY_PHRASES)
        number = len(self._equal) + sampled * len(by_phrases)
        enough = _SHARE * min(self._count, records)
        return len(self._equal) + len(by_phrases) >= ENOUGH and number >= enough


def _words(text: str) -> list[str]:
    words = words_of(text)
    if text.isascii():
        return words
    return [piece for word in words for piece in _UNSPACED.sub(r" \1 ", word).split()]


def _is_long(words: Sequence[str]) -> bool:
    """Return whether equal texts of this length are copies, and not equal by chance."""
    if len(words) >= 2 * PHRASE:
        return True
    return len(words) >= PHRASE and not any(map(_UNSPACED.fullmatch, words))


def _phrases(texts: Sequence[list[str]]) -> tuple[Hashes, TextIndices]:
    """Hash every phrase of eight words of texts with at least eight words.

    Returns the hashes, and the index of the text of each phrase.
    """
    values = np.array([_word_hashes[word] for words in texts for word in words], dtype=np.uint64)
    lengths = np.array([len(words) for words in texts], dtype=np.int64)
    of_text = np.repeat(np.arange(len(texts)), lengths)
    number = max(len(values) - PHRASE + 1, 0)
    whole = np.zeros(number, dtype=np.uint64)
    for offset in range(PHRASE):
        whole = whole * _FACTOR + values[offset : offset + number]
    inside = of_text[:number] == of_text[PHRASE - 1 :][:number]
    return whole[inside], of_text[:number][inside]


def _hash(text: str) -> int:
    """Return 64 bits that are the same in every process, unlike Python's `hash`."""
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest())


class _WordHashes(dict[str, int]):
    """The hashes of the last words."""

    def __missing__(self, word: str) -> int:
        if len(self) >= _WORDS_IN_MEMORY:
            self.clear()
        self[word] = hashed = _hash(word)
        return hashed


_word_hashes = _WordHashes()


def _order(text: str) -> int:
    return crc32(text.encode("utf-8", "surrogatepass"))
