"""Deduplication: a mask replaces every repeated sentence.

Training on a secret in many records would learn it many times. After this step every sentence is in
one record only, so replacing a secret in it changes one record.

Sentences are compared by SHA-256, about 100 bytes a distinct one: whether a sentence is new depends
on equal sentences alone, as the theorem needs. A Bloom filter or a search for similar sentences
would not do: a false positive depends on all earlier sentences, so one secret could change many
records.

There is no record-level epsilon after this step: removing a record can make a sentence of another
record the first of its kind, so it can change two records.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Set

from sugarbush.training.crt.sentences import Sentence

MASK = "<MASK>"  # the same mask for a duplicate and for a redacted span


def mask_duplicates(
    documents: Iterable[list[Sentence]], *, known: Set[str] = frozenset()
) -> Iterator[list[Sentence]]:
    """The documents, in order and one at a time, with a mask for each sentence that occurred
    before.

    White space, empty sentences and every sentence of `known` stay: known sentences are public word
    for word, so they contain no secret.
    """
    digests: set[bytes] = set()
    for sentences in documents:
        masked = []
        for sentence in sentences:
            digest = hashlib.sha256(sentence.text.encode("utf-8", "surrogatepass")).digest()
            repeated = sentence.text and sentence.text not in known and digest in digests
            masked.append(Sentence(MASK, sentence.space) if repeated else sentence)
            digests.add(digest)
        yield masked
