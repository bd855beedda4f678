"""Vectors of length 1, and the text for tests of encoders."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sugarbush.errors import InvariantError, PrivacyError

PROBE = "A short text of several public words, which every encoder can read."


def unit(vectors: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
    """Scale each row to length 1. A row of zeros becomes the first unit vector.

    Guarantee: row i depends on `vectors[i]` alone, bit for bit.
    """
    if not np.isfinite(vectors).all():
        raise InvariantError("the embedding model returned a vector that is not finite")
    # For rows that are not contiguous, NumPy adds squares in an order that depends on the rows.
    vectors = np.array(vectors, dtype=np.float32, order="C")
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors[lengths[:, 0] == 0, 0] = 1
    return np.asarray(vectors / np.where(lengths == 0, 1, lengths))


def well_formed(text: str) -> str:
    """Replace lone surrogates, because tokenizers refuse them."""
    return text.encode("utf-8", "replace").decode("utf-8")


def require_float32(device: str) -> None:
    """Raise PrivacyError if matrix products on `device` have less than float32 precision."""
    from sugarbush.float32 import float32_problem

    if (problem := float32_problem(device)) is not None:
        raise PrivacyError(f"the encoder needs full precision, but {problem}.")
