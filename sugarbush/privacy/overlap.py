"""Tests whether public texts are copies of private records.

A pool releases its texts word for word, so a pool of private texts would release these texts. A
public text counts as common if it has at least eight words (`_PHRASE` of the fingerprint), and

    its words are equal to the words of a private record, or
    at least half of its sampled phrases are in private records (with at least four sampled phrases)

Case, punctuation, spaces and invisible characters are ignored. Shorter texts, such as "ok thanks",
are equal by chance and never count. As for the fingerprint, two corpora overlap if they share about
2% of their texts, and at least five.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import nsmallest
from zlib import crc32

from sugarbush.privacy.fingerprint import ENOUGH, PHRASE, SAMPLE, Anchors, words_of

_SHARE = ENOUGH / SAMPLE  # about 2%
_PHRASES = 4  # minimum number of sampled phrases of a text that is compared by phrases
_MOST_PHRASES = 8  # the phrases of a longer text are sampled
_COMPARED_BY_PHRASES = 20_000  # texts; more texts are sampled


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
        self._anchors = Anchors()
        self._left: set[int] = set()  # hashes of the words of a text that no record has so far
        self._equal: set[int] = set()
        self._phrases: dict[int, list[int]] = {}  # the indices of the sampled texts with a phrase
        self._texts: list[int] = []
        self._missing: list[int] = []  # the number of phrases until half of them are found
        for text in every:
            words = words_of(text)
            named = hash(" ".join(words))
            if len(words) >= PHRASE and named not in self._left:
                self._left.add(named)
                if text in sample:
                    self._add_phrases(words, named)
        self._count = len(self._left)

    def _add_phrases(self, words: list[str], text: int) -> None:
        own = nsmallest(_MOST_PHRASES, {hash(p) for p in self._anchors.phrases([words])})
        if len(own) < _PHRASES:
            return
        for phrase in own:
            self._phrases.setdefault(phrase, []).append(len(self._texts))
        self._texts.append(text)
        self._missing.append((len(own) + 1) // 2)

    def compare(self, records: Sequence[str]) -> None:
        """Compare the texts of a batch of private records."""
        if not self._count:
            return
        words = [words_of(text) for text in records]
        equal = {hash(" ".join(own)) for own in words} & self._left
        self._left -= equal
        self._equal |= equal
        if self._phrases:
            for phrase in self._anchors.phrases(words):
                for index in self._phrases.pop(hash(phrase), ()):
                    self._missing[index] -= 1

    def overlap(self, records: int) -> bool:
        """Return whether the public texts and all `records` compared records overlap."""
        by_phrases = {
            text
            for text, missing in zip(self._texts, self._missing, strict=True)
            if missing <= 0 and text not in self._equal
        }
        # If the texts are sampled, each one represents several.
        sampled = max(1.0, self._count / _COMPARED_BY_PHRASES)
        common = len(self._equal) + sampled * len(by_phrases)
        enough = _SHARE * min(self._count, records)
        return len(self._equal) + len(by_phrases) >= ENOUGH and common >= enough


def _order(text: str) -> int:
    return crc32(text.encode("utf-8", "surrogatepass"))
