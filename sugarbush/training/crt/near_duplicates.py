"""Sentences that are nearly equal, by MinHash. Outside the theorem of CRT."""

from __future__ import annotations

from typing import Any, ClassVar

from sugarbush.errors import ParamsError

_CHARACTERS = 5  # characters of a shingle
_PERMUTATIONS = 64


class NearDuplicates:
    """A sentence is a duplicate if its character 5-grams probably have a Jaccard similarity of at
    least `similarity` to those of an earlier sentence.

    The search is datasketch's locality-sensitive hashing, with a fixed seed. Outside the theorem:
    the result depends on which sentences came before.
    """

    in_theorem: ClassVar[bool] = False

    def __init__(self, *, similarity: float) -> None:
        if not 0 < similarity <= 1:
            raise ParamsError(f"similarity={similarity} is not above 0 and at most 1")
        try:
            import datasketch
        except ImportError:
            raise ParamsError(
                "near-duplicates need the package datasketch: pip install 'sugarbush[redaction]'"
            ) from None
        self._minhash: Any = datasketch.MinHash
        self._index: Any = datasketch.MinHashLSH(threshold=similarity, num_perm=_PERMUTATIONS)
        self._count = 0

    def seen(self, sentence: str) -> bool:
        minhash = self._minhash(num_perm=_PERMUTATIONS)
        minhash.update_batch(
            [shingle.encode("utf-8", "surrogatepass") for shingle in _shingles(sentence)]
        )
        if self._index.query(minhash):
            return True
        self._index.insert(self._count, minhash)
        self._count += 1
        return False


def _shingles(sentence: str) -> set[str]:
    text = " ".join(sentence.lower().split())
    last = max(1, len(text) - _CHARACTERS + 1)
    return {text[start : start + _CHARACTERS] for start in range(last)}
