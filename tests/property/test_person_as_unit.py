"""Tests that adding or removing a user changes only the rows of this user."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sugarbush.data.records import Record
from sugarbush.data.split import ContributionBounder, SplitRecords, Splitter
from sugarbush.errors import InputError
from sugarbush.privacy.data_types import Private
from tests.settings import params
from tests.splits import split

SETTINGS = params(prepare__min_records=2, prepare__heldout_share=0.3).prepare
KEY = bytes(32)

corpora = st.lists(st.sampled_from([f"person {i}" for i in range(12)]), min_size=12, max_size=60)


def records_of(users: list[str]) -> list[Record]:
    return [
        Record(number=i, id=f"r{i}", text=f"text {i}", raw=(), user=user)
        for i, user in enumerate(users)
    ]


def splits_of(records: list[Record], at_most: int) -> SplitRecords:
    try:
        bound = ContributionBounder(records=at_most, key=KEY)
        return split(records, SETTINGS, bound=bound)[0]
    except InputError:  # too few records remain
        assume(False)
        raise


@settings(max_examples=80)
@given(corpora, st.integers(1, 5), st.integers(0, 11))
def test_a_person_takes_away_their_own_rows_and_no_others(
    users: list[str], at_most: int, who: int
) -> None:
    records, person = records_of(users), f"person {who}"
    with_them = splits_of(records, at_most)
    without = splits_of([r for r in records if r.user != person][::-1], at_most)
    for name in ("train", "heldout"):
        others = {r.id for r in with_them[name] if r.user != person}
        assert others == {r.id for r in without[name]}


@settings(max_examples=80)
@given(corpora, st.integers(1, 5))
def test_a_person_has_at_most_so_many_rows_and_all_of_them_in_one_split(
    users: list[str], at_most: int
) -> None:
    splits = splits_of(records_of(users), at_most)
    train, heldout = ([r.user for r in split] for split in splits.values())
    assert not set(train) & set(heldout)
    for user in set(users):
        assert (train + heldout).count(user) == min(at_most, users.count(user))


@settings(max_examples=60)
@given(corpora, st.integers(1, 5), st.integers(0, 11), st.integers(0, 2**16))
def test_a_person_moves_a_histogram_of_records_by_at_most_the_bound_in_l2(
    users: list[str], at_most: int, who: int, seed: int
) -> None:
    """The bound holds for any bins, also if all records of a user are in one bin."""
    bins = np.random.default_rng(seed).integers(0, 3, len(users))
    records = records_of(users)

    def counted(kept: list[Record]) -> np.ndarray:
        train = splits_of(kept, at_most)["train"]
        return np.bincount([bins[record.number] for record in train], minlength=3)

    moved = counted(records) - counted([r for r in records if r.user != f"person {who}"])
    assert np.linalg.norm(moved) <= at_most


@settings(max_examples=60)
@given(st.lists(st.integers(0, 6), max_size=40), st.integers(0, 6))
def test_joined_by_their_owners_a_person_is_one_element(owners: list[int], who: int) -> None:
    def joined(kept: list[int]) -> list[tuple[int, ...]]:
        elements = Private([(place,) for place in kept])
        units = elements.joined_by(Private([owners[place] for place in kept]))
        return list(units._per_unit)

    everybody = range(len(owners))
    mine = tuple(place for place in everybody if owners[place] == who)
    without = joined([place for place in everybody if owners[place] != who])
    assert sorted(joined(list(everybody))) == sorted(without + [mine] * bool(mine))


@pytest.mark.parametrize("second", [["b", "a"], ["a"], ["a", "b", "c"]])
def test_a_file_that_changes_between_the_two_passes_is_refused(second: list[str]) -> None:
    """Otherwise records of one person beyond the bound could take the kept places."""
    bound = ContributionBounder(records=1, key=KEY)
    bound.add(records_of(["a", "b"]))
    splitter = Splitter(SETTINGS, public=(), bound=bound.chosen()[0])
    with pytest.raises(InputError, match="changed while it was read"):
        splitter.split(records_of(second), source="letters.jsonl")
        splitter.require_complete(source="letters.jsonl")
