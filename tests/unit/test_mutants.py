"""Tests that every mutant can be applied to the current code."""

from __future__ import annotations

import ast

import pytest

from tests.mutants.__main__ import Mutant, changed, load
from tests.settings import ROOT


@pytest.mark.slow
@pytest.mark.parametrize("mutant", load(), ids=lambda mutant: mutant.name)
def test_a_mutant_changes_one_place_and_names_tests_that_exist(mutant: Mutant) -> None:
    text = (ROOT / mutant.file).read_text()
    after = changed(text, mutant)
    assert ast.dump(ast.parse(after)) != ast.dump(ast.parse(text))
    for test in mutant.tests:
        file, _, name = test.partition("::")
        assert (ROOT / file).exists()
        assert name.partition("[")[0] in (ROOT / file).read_text()


def test_there_are_at_least_sixty() -> None:
    assert len(load()) >= 60
