"""Tests of vectors of length 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sugarbush.embedding.vectors import unit

ROWS = np.random.default_rng(1).normal(size=(64, 384)).astype(np.float32)
Layout = Callable[[NDArray[Any]], NDArray[Any]]


@pytest.mark.parametrize(
    "layout",
    [
        np.asfortranarray,
        lambda rows: np.repeat(rows, 2, axis=1)[:, ::2],
        lambda rows: np.repeat(rows, 2, axis=0)[::2],
        lambda rows: rows[:, ::-1].copy()[:, ::-1],
        lambda rows: rows.astype(">f4"),
    ],
    ids=["by columns", "every second column", "every second row", "backwards", "big-endian"],
)
def test_a_vector_of_length_one_has_the_same_bits_in_every_layout_of_the_batch(
    layout: Layout,
) -> None:
    alone = np.concatenate([unit(ROWS[row : row + 1]) for row in range(len(ROWS))])
    assert unit(layout(ROWS)).tobytes() == alone.tobytes()
    assert unit(layout(ROWS[:7])).tobytes() == alone[:7].tobytes()
