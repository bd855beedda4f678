"""Private elements in shards are the same as private elements in one list."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sugarbush.errors import LedgerError
from sugarbush.privacy.data_types import Private
from sugarbush.privacy.events import DiscreteGaussian
from sugarbush.privacy.fingerprint import make_dataset_fingerprint
from sugarbush.privacy.key import state_key
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.session import PrivacySession
from sugarbush.privacy.shards import Shards, map_shards
from sugarbush.privacy.unit import Unit


def shards_of(sizes: list[int]) -> Shards:
    """Numbers 0, 1, ... in shards of these sizes."""
    ends = list(accumulate(sizes))
    ranges = tuple(zip([0, *ends], ends, strict=False))
    return Shards(
        shards=ranges,
        sizes=tuple(sizes),
        read=lambda shard: np.arange(*shard),
        map_shards=map_shards,
    )


def elements_of(private: Private[int]) -> NDArray[np.int64]:
    shards = private._per_unit
    found = [np.asarray(shards.read(shard), dtype=np.int64) for shard in shards.shards]
    return np.concatenate([np.empty(0, dtype=np.int64), *found])


@given(st.lists(st.integers(0, 5), max_size=8))
def test_every_record_of_a_shard_keeps_its_own_value(sizes: list[int]) -> None:
    count = sum(sizes)
    own = np.random.default_rng(count).permutation(count)
    zipped = Private[int](shards_of(sizes)).zip_batch(
        Private(own), lambda numbers, values: numbers * 1000 + values
    )
    assert elements_of(zipped).tolist() == (np.arange(count) * 1000 + own).tolist()


@pytest.mark.parametrize("lose", [lambda rows: rows[1:], lambda rows: [*rows, 0]])
def test_a_function_that_loses_or_adds_a_record_is_refused_in_each_shard(lose: object) -> None:
    mapped = Private[int](shards_of([3, 4])).map_batch(lose)  # type: ignore[arg-type]
    for shard in mapped._per_unit.shards:
        with pytest.raises(ValueError, match="one element per unit"):
            mapped._per_unit.read(shard)


@pytest.mark.parametrize("elements", [shards_of([2, 1]), [1, 2, 3]])
@pytest.mark.parametrize("other", [[1, 2], [1, 2, 3, 4], []])
def test_values_of_other_units_are_not_combined(elements: object, other: list[int]) -> None:
    with pytest.raises(ValueError, match="the same units"):
        Private[int](elements).zip_batch(Private(other), lambda own, _: own)  # type: ignore[arg-type]


def test_a_session_refuses_a_known_corpus_before_any_charge(tmp_path: Path) -> None:
    """A session that checked only the cap would refuse the corpus at its first charge."""

    def session_of(dataset: str, count: int) -> PrivacySession:
        ledger = Ledger(
            tmp_path, dataset=dataset, purpose="release", unit=Unit.RECORD, cap=9.0, delta=1e-6
        )
        texts = [f"letter number {i}" for i in range(count)]
        found = make_dataset_fingerprint(texts, key=state_key(tmp_path))
        return PrivacySession(ledger=ledger, stage="s", run="r", dataset_fingerprint=found)

    event = DiscreteGaussian(stddev=9.0)
    session_of("letters", 300).charge(event)
    session_of("letters", 301).check([event])
    with pytest.raises(LedgerError, match="letters"):
        session_of("fresh", 301).check([event])
