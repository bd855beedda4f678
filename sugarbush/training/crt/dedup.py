"""Replaces every repeated sentence by a mask.

If many records contained a secret, training would read the secret many times. After deduplication
each sentence is in one record only. So replacing a secret in a sentence changes one record.

Sentences are compared by SHA-256, with about 100 bytes of memory per distinct sentence. Only an
equal sentence makes a sentence a duplicate, as the theorem requires. A Bloom filter has false
positives, which depend on all earlier sentences. So with a Bloom filter, one secret could change
many records. A search for similar sentences has the same problem.

There is no record-level epsilon after deduplication. If a record is removed, a masked sentence of a
second record may become the first occurrence. So one removal may change two records.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Set

from sugarbush.training.crt.sentences import Sentence

MASK = "<MASK>"  # duplicates and redacted spans have the same mask


def mask_duplicates(
    documents: Iterable[list[Sentence]], *, known: Set[str] = frozenset()
) -> Iterator[list[Sentence]]:
    """Yield each document in order, with a mask for each sentence that occurred before.

    White space, empty sentences and the sentences of `known` stay. Known sentences are public word
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
