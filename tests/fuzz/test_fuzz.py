"""A few cases of every target of `make fuzz`."""

from __future__ import annotations

import pytest

from tests.fuzz.__main__ import TARGETS, fuzz


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_inputs_are_accepted_or_refused_cleanly(name: str) -> None:
    if name == "xlsx":
        pytest.importorskip("openpyxl")
    done, _ = fuzz(name, cases=60, first_seed=2026)
    assert done >= 60
