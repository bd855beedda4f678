"""Tests that one record of each unit is read, and that a unit does not decide about others."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sugarbush.privacy.data_types import Private


def exact(values: Private[Any]) -> list[int]:
    return [int(each) for each in values._per_unit]


owners = st.lists(st.integers(0, 6), min_size=1, max_size=40)


@settings(max_examples=150, deadline=None)
@given(owners, st.randoms(use_true_random=False))
def test_one_record_of_each_user_is_chosen_by_its_key_alone(
    users: list[int], random: Random
) -> None:
    keys = np.array([random.randrange(9) for _ in users], dtype=np.int64)
    rows = Private(np.arange(len(users)))
    chosen = exact(rows.one_of_each(Private(users), keys=Private(keys)))
    assert sorted({users[i] for i in chosen}) == sorted(set(users))
    assert len(chosen) == len(set(users))
    for i in chosen:
        own = [keys[j] for j in range(len(users)) if users[j] == users[i]]
        assert keys[i] == min(own)


@settings(max_examples=150, deadline=None)
@given(owners, st.integers(0, 6), st.randoms(use_true_random=False))
def test_a_user_who_is_taken_away_changes_no_other_choice(
    users: list[int], who: int, random: Random
) -> None:
    keys = np.array([random.randrange(9) for _ in users], dtype=np.int64)
    rows = np.arange(len(users))
    kept = np.array([user != who for user in users])
    both = [
        exact(
            Private(rows[mask]).one_of_each(
                Private([u for u, keep in zip(users, mask, strict=True) if keep]),
                keys=Private(keys[mask]),
            )
        )
        for mask in (np.ones(len(users), dtype=bool), kept)
        if mask.any()
    ]
    others = [i for i in both[0] if users[i] != who]
    assert (both[1] if len(both) > 1 else []) == others
