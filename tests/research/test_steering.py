"""Tests of the files of steering vectors. `tests/examples` tests the method."""

from pathlib import Path

import numpy as np

import sugarbush as sb
from research.steering import load, save


def test_saved_vectors_keep_their_layers_and_ledger_ids(tmp_path: Path):
    vectors = {5: np.arange(3, dtype=np.float32), 2: np.ones(3, np.float32)}
    save(sb.Released(vectors, ("spent",)), tmp_path / "steering.npz")
    found = load(tmp_path / "steering.npz")
    assert found.ledger_ids == ("spent",)
    assert sorted(found.value) == [2, 5]
    for layer, vector in vectors.items():
        np.testing.assert_array_equal(found.value[layer], vector)
