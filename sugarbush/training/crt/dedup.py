"""Deduplication: a mask replaces every repeated sentence.

Training on a secret in many records would learn it many times. After this step every sentence is in
one record only, so replacing a secret in it changes one record.

The theorem covers `ExactDuplicates`: whether a sentence is new depends on equal sentences alone.
It does not cover `BloomDuplicates` and `near_duplicates.NearDuplicates` (`in_theorem` is False): a
false positive depends on all earlier sentences, so one secret could change many records.

There is no record-level epsilon after this step: removing a record can make a sentence of another
record the first of its kind, so it can change two records.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Set
from typing import ClassVar, Protocol

import numpy as np

from sugarbush.errors import ParamsError
from sugarbush.training.crt.sentences import Sentence

MASK = "<MASK>"  # the same mask for a duplicate and for a redacted span


class Duplicates(Protocol):
    """A memory of sentences: exact, of fixed size, or by similarity."""

    in_theorem: ClassVar[bool]

    def seen(self, sentence: str) -> bool:
        """Whether `sentence` occurred before; then remember it."""
        ...


class ExactDuplicates:
    """Memory by SHA-256: no false positive, about 100 bytes per distinct sentence."""

    in_theorem: ClassVar[bool] = True

    def __init__(self) -> None:
        self._digests: set[bytes] = set()

    def seen(self, sentence: str) -> bool:
        digest = _digest(sentence)
        if digest in self._digests:
            return True
        self._digests.add(digest)
        return False


class BloomDuplicates:
    """A Bloom filter of fixed size, for a corpus with more digests than fit into memory.

    With at most `capacity` distinct sentences, a new one counts as a duplicate with probability at
    most `false_positives` (Bloom 1970). It is outside the theorem.
    """

    in_theorem: ClassVar[bool] = False

    def __init__(self, *, capacity: int, false_positives: float) -> None:
        if capacity < 1 or not 0 < false_positives < 1:
            raise ParamsError(
                f"a Bloom filter needs a capacity of at least 1 and a false positive rate between "
                f"0 and 1 (got {capacity} and {false_positives})"
            )
        self._bits = math.ceil(-capacity * math.log(false_positives) / math.log(2) ** 2)
        self._hashes = max(1, round(self._bits / capacity * math.log(2)))
        self._field = np.zeros(self._bits // 8 + 1, dtype=np.uint8)

    def seen(self, sentence: str) -> bool:
        digest = _digest(sentence)
        first, second = int.from_bytes(digest[:8]), int.from_bytes(digest[8:16]) | 1
        known = True
        # All other hashes follow from two: Kirsch and Mitzenmacher 2006.
        for number in range(self._hashes):
            place, bit = divmod((first + number * second) % self._bits, 8)
            known = known and bool(self._field[place] >> bit & 1)
            self._field[place] |= 1 << bit
        return known


def mask_duplicates(
    documents: Iterable[list[Sentence]],
    duplicates: Duplicates,
    *,
    known: Set[str] = frozenset(),
) -> Iterator[list[Sentence]]:
    """The documents, in order and one at a time, with a mask for each sentence that occurred
    before.

    White space, empty sentences and every sentence of `known` stay: known sentences are public word
    for word, so they contain no secret.
    """
    for sentences in documents:
        yield [
            Sentence(MASK, sentence.space)
            if sentence.text and sentence.text not in known and duplicates.seen(sentence.text)
            else sentence
            for sentence in sentences
        ]


def _digest(sentence: str) -> bytes:
    return hashlib.sha256(sentence.encode("utf-8", "surrogatepass")).digest()
