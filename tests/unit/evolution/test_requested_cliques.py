"""Requests name attributes whose joint values were measured, in the shares of the DP table."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sugarbush.data.schema import Attribute, Schema
from sugarbush.evolution.inputs import MetadataRelease, ReleaseSettings
from sugarbush.evolution.population import NO_CODE
from sugarbush.evolution.prompts import Prompts
from sugarbush.evolution.settings import PromptContent
from sugarbush.evolution.starts import FromTable
from sugarbush.evolution.targets import Targets
from sugarbush.randomness import public_rng

NAMES = ("a", "b", "c", "d", "e")
SCHEMA = Schema(
    subject="letters",
    attributes=tuple(Attribute(name=n, column=n, values=("x", "y", "z")) for n in NAMES),
)
ROWS = np.random.default_rng(1).choice(4, size=(500, 5), p=[0.5, 0.3, 0.15, 0.05])
START = FromTable(Prompts(content=PromptContent.METADATA, examples=0, candidates=100))
Cliques = tuple[tuple[str, ...], ...]


def targets(
    cliques: Cliques, *, count: int, seed: int = 1, follows: bool = True, **changes: Any
) -> Targets:
    metadata = MetadataRelease(rows=changes.get("rows", ROWS), cliques=cliques, record_count=500.0)
    public: Any = SimpleNamespace(
        metadata=metadata, schema=SCHEMA, follows_requests=follows, asked=changes.get("asked")
    )
    return START.targets(public, count=count, seed=seed).value


def named(codes: NDArray[np.int64]) -> set[tuple[str, ...]]:
    """Return the different sets of attributes that requests name."""
    return {tuple(np.array(NAMES)[row != NO_CODE]) for row in codes}


covers = st.lists(st.sets(st.sampled_from(NAMES), min_size=1), min_size=1, max_size=8).map(
    lambda sets: tuple(tuple(sorted(some)) for some in [*sets, *({n} for n in NAMES)])
)


@given(covers, st.integers(1, 60), st.integers(0, 2))
def test_no_request_names_a_pair_of_attributes_that_no_clique_contains(
    cliques: Cliques, count: int, seed: int
) -> None:
    codes = targets(cliques, count=count, seed=seed).codes
    assert codes.shape == (count, 5)
    assert named(codes) <= set(cliques)


@given(covers, st.integers(1, 60), st.integers(0, 2))
def test_a_request_has_the_values_of_one_row_of_the_table(
    cliques: Cliques, count: int, seed: int
) -> None:
    """Values of two rows together would be as independent as an unmeasured pair."""
    codes = targets(cliques, count=count, seed=seed).codes
    rows = targets((), count=count, seed=seed).codes
    assert ((codes == rows) | (codes == NO_CODE)).all()


@pytest.mark.parametrize(
    "cliques",
    [
        (("a", "b", "c"), ("d",), ("e",)),
        (("a", "b"), ("b", "c"), ("c", "d"), ("d", "e")),
        tuple((name,) for name in NAMES),
    ],
)
def test_requested_values_have_the_shares_of_the_table(cliques: Cliques) -> None:
    """4,000 requests: a share of 1/2 among 800 has a standard error of .018 (5 of them: .09)."""
    codes = targets(cliques, count=4000).codes
    for column in range(5):
        asked = codes[codes[:, column] != NO_CODE, column]
        found = np.bincount(asked, minlength=4) / len(asked)
        assert found == pytest.approx(np.bincount(ROWS[:, column], minlength=4) / 500, abs=0.09)
    for some in (clique for clique in cliques if len(clique) > 1):
        places = [NAMES.index(name) for name in some[:2]]
        asked = codes[(codes[:, places] != NO_CODE).all(axis=1)][:, places]
        cells = np.ravel_multi_index(tuple(asked.T), (4, 4))
        table = np.ravel_multi_index(tuple(ROWS[:, places].T), (4, 4))
        expected = np.bincount(table, minlength=16) / 500
        assert np.bincount(cells, minlength=16) / len(cells) == pytest.approx(expected, abs=0.09)


@pytest.mark.parametrize("count", [1, 7, 40, 100])
def test_every_clique_is_requested_before_a_clique_is_requested_again(count: int) -> None:
    """So each attribute of disjoint cliques is requested equally often."""
    cliques = (("a", "b", "c"), ("d",), ("e",))
    codes = targets(cliques, count=count).codes
    uses = [int((codes[:, NAMES.index(clique[0])] != NO_CODE).sum()) for clique in cliques]
    assert sum(uses) == count
    assert max(uses) - min(uses) <= 1


def test_a_clique_of_all_attributes_changes_no_request() -> None:
    whole = targets((NAMES,), count=700)
    rows = targets((), count=700)
    assert np.array_equal(whole.codes, rows.codes)


def test_a_generator_that_does_not_follow_requests_searches_by_whole_rows() -> None:
    """A pool finds existing texts, so it writes no contradiction, and a row says more."""
    cliques = tuple((name,) for name in NAMES)
    found = targets(cliques, count=50, follows=False).codes
    assert np.array_equal(found, targets((), count=50).codes)


def test_more_requests_begin_with_the_same_requests() -> None:
    """Further requests of a run must not repeat the earlier ones in another order."""
    cliques = (("a", "b"), ("c",), ("d", "e"))
    assert np.array_equal(targets(cliques, count=90).codes[:50], targets(cliques, count=50).codes)


def test_values_of_other_attributes_are_left_out_as_well() -> None:
    shown = Targets(
        codes=np.zeros((4, 2), dtype=np.int64),
        labels=np.zeros(4, dtype=np.int64),
        values=np.full((4, 2), 7.0),
    ).within([[0], [1]], rng=public_rng(1))
    assert np.array_equal(np.isnan(shown.values), shown.codes == NO_CODE)


def test_an_attribute_outside_the_table_stays_open() -> None:
    rows = ROWS.copy()
    rows[:, 4] = NO_CODE
    codes = targets((("a", "b"), ("c",), ("d",)), count=30, rows=rows).codes
    assert (codes[:, 4] == NO_CODE).all()


def test_each_request_of_a_mix_names_its_attributes_in_the_chosen_shares() -> None:
    metadata = MetadataRelease(rows=ROWS)
    mix = metadata.mix_of(ReleaseSettings(mix={"e": {"x": 0.25, "z": 0.75}}), SCHEMA)
    codes = targets((("a", "b"), ("c",), ("d",)), count=80, asked=mix).codes
    assert np.bincount(codes[:, 4], minlength=4).tolist() == [20, 0, 60, 0]
    assert named(codes) == {("a", "b", "e"), ("c", "e"), ("d", "e")}
