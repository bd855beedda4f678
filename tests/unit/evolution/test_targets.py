"""Tests of the attribute values that first texts get."""

from __future__ import annotations

import numpy as np
import pytest

from sugarbush.data.schema import Schema
from sugarbush.evolution.targets import targets_by_rows
from sugarbush.randomness import public_rng

SCHEMA = Schema.model_validate(
    {
        "subject": "letters",
        "attributes": [{"name": "n", "column": "n", "values": [str(n) for n in range(40)]}],
    }
)


@pytest.mark.parametrize("count", [1, 17, 40, 41, 100, 400])
@pytest.mark.parametrize("seed", range(3))
def test_every_row_of_the_dp_table_is_used_before_a_row_is_used_again(
    count: int, seed: int
) -> None:
    rows = np.arange(40)[:, None]
    targets = targets_by_rows(count, rows, SCHEMA, rng=public_rng(seed, "rows"))
    for start in range(0, count, 40):
        used = targets.codes[start : start + 40, 0].tolist()
        assert len(set(used)) == len(used)
    uses = np.bincount(targets.codes[:, 0], minlength=40)
    assert uses.max() - uses.min() <= 1
