"""From the second occurrence on, a sentence is a mask.

Training learns a secret that stands in many records as often as it stands there. After this pass
every natural sentence stands in one record only, so replacing the secret in it moves one record.

`ExactDuplicates` is what the theorem is about: whether a sentence is new depends on equal
sentences alone. `BloomDuplicates` and `near_duplicates.NearDuplicates` are outside of it
(`in_theorem` is False): a false positive depends on all the sentences before it, so a single
secret could change many records.

No record-level epsilon holds after this pass: taking one record away makes another record's
sentence the first one, so it can move two.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Set
from typing import ClassVar, Protocol

import numpy as np

from sugarbush.errors import ParamsError
from sugarbush.training.crt.sentences import Sentence

MASK = "<MASK>"  # the same for a duplicate and for a redacted span


class Duplicates(Protocol):
    """Remembers sentences: exactly, within a fixed memory, or by likeness."""

    in_theorem: ClassVar[bool]

    def seen(self, sentence: str) -> bool:
        """Whether `sentence` came before; it has from now on."""
        ...


class ExactDuplicates:
    """By SHA-256: no false positive, about 100 bytes a distinct sentence."""

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
    """A Bloom filter of fixed size, for a corpus whose digests do not fit into memory.

    With at most `capacity` distinct sentences one that is new is taken for a duplicate with
    probability `false_positives` at most (Bloom 1970). Outside the theorem.
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
        # Two hashes give all others: Kirsch and Mitzenmacher 2006.
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
    """The documents, in order and one at a time, with a mask for each sentence seen before.

    White space stays, empty sentences too, and so does every sentence of `known`: those are public
    word for word, so a secret in one of them is none.
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
