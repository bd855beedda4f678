"""Tests of partitions: disjoint parts by the record alone, and one charge for one draw on each."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import sugarbush as sb
from sugarbush.errors import InvariantError, ParamsError, PrivacyError
from sugarbush.privacy import mechanisms
from sugarbush.privacy.events import DiscreteGaussian, Event, GaussianDp
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.mechanisms import noisy_histogram, noisy_sum
from sugarbush.privacy.session import PrivacySession
from sugarbush.privacy.shards import Shards, map_shards
from sugarbush.privacy.unit import Unit

SIZE, BINS, NORM = 4, 3, 5
records = st.integers(0, 10**6)
corpora = st.lists(records, max_size=12)
# Corpora with duplicates and crowded parts
crowded = st.lists(st.integers(0, 7), max_size=12)


def in_shards(elements: Sequence[Any], sizes: Sequence[int]) -> Shards:
    """Elements that are read shard by shard."""
    ends = [min(end, len(elements)) for end in accumulate(sizes)] + [len(elements)]
    slices = tuple(zip([0, *ends[:-1]], ends, strict=True))
    return Shards(
        shards=slices,
        sizes=tuple(end - start for start, end in slices),
        read=lambda shard: np.asarray(elements, dtype=np.int64)[slice(*shard)],
        map_shards=map_shards,
    )


KINDS: dict[str, Callable[[list[int]], Any]] = {
    "list": list,
    "array": lambda elements: np.array(elements, dtype=np.int64),
    "parts": lambda elements: in_shards(elements, [2, 0, 5]),
}


def bin_of(batch: Any) -> NDArray[np.int64]:
    return np.asarray(batch, dtype=np.int64) % SIZE


def elements_of(private: sb.Private[Any]) -> list[int]:
    found = private._per_unit
    return [int(each) for each in (found.elements() if isinstance(found, Shards) else found)]


def user_session(records_per_unit: int = 1, **changes: Any) -> PrivacySession:
    ledger = mock.create_autospec(Ledger, instance=True)
    ledger.charge.return_value = "id"
    ledger.unit = Unit.USER
    return PrivacySession(
        ledger=ledger, stage="s", run="r", records_per_unit=records_per_unit, **changes
    )


def histograms(elements: list[int], kind: str, *, m: int = 1) -> NDArray[np.int64]:
    """Return the outputs of all parts, concatenated, without noise."""
    parts = sb.Private(KINDS[kind](elements)).partition(bin_of, size=SIZE)
    draws = user_session(m).parallel(DiscreteGaussian(stddev=9.0, sensitivity=m), parts)
    with mock.patch.object(mechanisms, "discrete_gaussian", lambda counts, **_: counts):
        return np.concatenate([
            noisy_histogram(
                part.map_batch(lambda batch: np.asarray(batch, dtype=np.int64) // 7 % BINS),
                size=BINS, stddev=9.0, session=draws,
            ).value
            for part in parts
        ])  # fmt: skip


def sums(elements: list[int], kind: str, *, m: int = 1) -> NDArray[np.int64]:
    """Return noiseless sums of rows of norm `NORM`, which depend on the part, concatenated."""
    parts = sb.Private(KINDS[kind](elements)).partition(bin_of, size=SIZE)
    event = DiscreteGaussian(stddev=9.0, sensitivity=NORM * m)
    draws = user_session(m).parallel(event, parts)
    found = []
    with mock.patch.object(mechanisms, "discrete_gaussian", lambda counts, **_: counts):
        for number, part in enumerate(parts):

            def rows(block: NDArray[Any], sign: int = 1 - 2 * (number % 2)) -> list[NDArray[Any]]:
                return [np.where(block[:, None] % 2, [[3, 4]], [[0, 5 * sign]]).astype(np.int64)]

            found.append(
                noisy_sum(
                    part, scores=rows, size=2, record_l2_sensitivity=NORM, stddev=9.0, session=draws
                ).value
            )
    return np.concatenate(found)


# The parts


@given(st.one_of(corpora, crowded), st.sampled_from(sorted(KINDS)))
def test_parts_are_disjoint_and_contain_every_record_once(elements: list[int], kind: str) -> None:
    parts = sb.Private(KINDS[kind](elements)).partition(bin_of, size=SIZE)
    for number, part in enumerate(parts):
        assert elements_of(part) == [e for e in elements if e % SIZE == number]


@given(corpora, records, st.integers(0, 12), st.sampled_from(sorted(KINDS)))
def test_one_more_record_changes_its_own_part_alone(
    elements: list[int], more: int, position: int, kind: str
) -> None:
    longer = [*elements[:position], more, *elements[position:]]
    before, after = (
        [elements_of(p) for p in sb.Private(KINDS[kind](e)).partition(bin_of, size=SIZE)]
        for e in (elements, longer)
    )
    changed = [n for n in range(SIZE) if before[n] != after[n]]
    assert changed == [more % SIZE]
    assert len(after[more % SIZE]) == len(before[more % SIZE]) + 1


@given(corpora, st.sampled_from(sorted(KINDS)), st.sampled_from(sorted(KINDS)))
def test_private_bins_give_the_same_parts_as_a_function(
    elements: list[int], kind: str, kind_of_bins: str
) -> None:
    bins = sb.Private(KINDS[kind_of_bins]([e % SIZE for e in elements]))
    whole = sb.Private(KINDS[kind](elements))
    by_bins, by_function = (whole.partition(b, size=SIZE) for b in (bins, bin_of))
    assert list(map(elements_of, by_bins)) == list(map(elements_of, by_function))


@pytest.mark.parametrize(
    "use", [len, iter, bool, list, hash, copy.copy, copy.deepcopy, pickle.dumps, vars]
)
def test_the_records_of_a_part_cannot_be_counted(use: Callable[[object], object]) -> None:
    for part in sb.Private([1, 2, 3]).partition(bin_of, size=SIZE):
        with pytest.raises(TypeError):
            use(part)
        assert str(part) == repr(part) == "Private(...)"
        assert str(part.block) in {f"block {number}" for number in range(SIZE)}


@pytest.mark.parametrize("bins", [[0, 4, 1], [-1, 0, 0], [0.0, 1.0, 1.0], [[0], [1], [2]]])
def test_a_record_without_a_bin_is_our_fault_and_shows_no_value(bins: list[Any]) -> None:
    with pytest.raises(InvariantError) as fault:
        sb.Private([7, 8, 9]).partition(sb.Private(bins), size=SIZE)
    assert str(fault.value) == "every record must have one bin between 0 and size-1"


def test_bins_of_other_records_are_refused() -> None:
    with pytest.raises(ValueError, match="same units"):
        sb.Private([1, 2, 3]).partition(sb.Private([0, 1]), size=2)
    with pytest.raises(ParamsError):
        sb.Private([1]).partition(sb.Private([0]), size=0)


def test_a_part_is_not_combined_with_other_records_even_if_their_numbers_are_equal() -> None:
    """Otherwise the elements of a part would depend on records of other parts."""
    first, second = sb.Private([1, 2]).partition(sb.Private([0, 1]), size=2)
    for other in (second, sb.Private([5]), sb.Private([1]).partition(bin_of, size=4)[1]):
        with pytest.raises(ValueError, match="same units"):
            first.zip_batch(other, lambda a, b: list(zip(a, b, strict=True)))
        with pytest.raises(ValueError, match="same units"):
            first.map_batch(lambda batch: [(each,) for each in batch]).joined_by(other)
    assert first.zip_batch(first, lambda a, b: a).block is first.block
    joined = first.map_batch(lambda batch: [(each,) for each in batch]).joined_by(first)
    assert joined.block is first.block


# The sensitivity of all outputs together


@settings(max_examples=60)
@given(
    st.one_of(corpora, crowded), records, st.sampled_from(sorted(KINDS)),
    st.sampled_from([(histograms, 1), (sums, NORM)]),
)  # fmt: skip
def test_one_record_moves_the_outputs_of_all_parts_by_the_sensitivity_of_one(
    elements: list[int], more: int, kind: str, mechanism: Any
) -> None:
    outputs, norm = mechanism
    difference = outputs([*elements, more], kind) - outputs(elements, kind)
    assert np.linalg.norm(difference) == norm


@pytest.mark.slow
@settings(max_examples=80)
@given(
    crowded, st.lists(st.integers(0, 10), min_size=1, max_size=6), st.sampled_from(sorted(KINDS)),
    st.sampled_from([(histograms, 1), (sums, NORM)]),
)  # fmt: skip
def test_a_user_with_records_in_several_parts_moves_all_outputs_by_at_most_m_times_as_much(
    elements: list[int], own: list[int], kind: str, mechanism: Any
) -> None:
    outputs, norm = mechanism
    m = len(own)
    difference = outputs([*elements, *own], kind, m=m) - outputs(elements, kind, m=m)
    in_part = np.bincount(bin_of(own), minlength=SIZE)
    by_part = np.linalg.norm(difference.reshape(SIZE, -1), axis=1)
    assert (by_part <= in_part * norm + 1e-9).all()
    assert np.linalg.norm(difference) <= m * norm + 1e-9


def test_the_bound_for_a_user_is_reached_if_all_records_are_in_one_bin() -> None:
    difference = histograms([4, 4, 4, 1], "list", m=3) - histograms([1], "list", m=3)
    assert np.linalg.norm(difference) == 3


# The charge


def ledger_in(state: Path, **changes: Any) -> Ledger:
    fields = {
        "dataset": "d", "purpose": "release", "unit": Unit.RECORD, "cap": math.inf, "delta": 1e-6,
    }  # fmt: skip
    return Ledger(state, **(fields | changes))


def test_draws_on_all_parts_cost_one_event(tmp_path: Path) -> None:
    ledger = ledger_in(tmp_path)
    session = PrivacySession(ledger=ledger, stage="s", run="r")
    parts = sb.Private(list(range(40))).partition(bin_of, size=SIZE)
    event = DiscreteGaussian(stddev=9.0, count=2)
    draws = session.parallel(event, parts)
    ids = {
        noisy_histogram(part, size=40, stddev=9.0, session=draws).ledger_ids
        for _ in range(2)
        for part in parts
    }
    (entry,) = ledger.entries()
    assert (entry.event, ids) == (event, {(entry.id,)})
    assert ledger.total() == sb.epsilon([event], delta=1e-6)


def test_every_part_has_its_own_draws(tmp_path: Path) -> None:
    session = PrivacySession(ledger=ledger_in(tmp_path), stage="s", run="r")
    parts = sb.Private([1, 2, 3]).partition(bin_of, size=SIZE)
    draws = session.parallel(DiscreteGaussian(stddev=9.0), parts[:3])
    noisy_histogram(parts[0], size=9, stddev=9.0, session=draws)
    with (
        mock.patch.object(mechanisms, "discrete_gaussian") as noise,
        pytest.raises(PrivacyError, match="on block 0 are spent"),
    ):
        noisy_histogram(parts[0], size=9, stddev=9.0, session=draws)
    noise.assert_not_called()
    noisy_histogram(parts[1], size=9, stddev=9.0, session=draws)


def test_draws_on_other_records_are_refused(tmp_path: Path) -> None:
    """All records, a part that was not charged, and an equal part of another partition."""
    session = PrivacySession(ledger=ledger_in(tmp_path), stage="s", run="r")
    whole = sb.Private([1, 2, 3])
    parts, again = (whole.partition(bin_of, size=SIZE) for _ in range(2))
    draws = session.parallel(DiscreteGaussian(stddev=9.0), parts[:2])
    for other in (whole, parts[3], again[0], parts[0].partition(bin_of, size=SIZE)[0]):
        with (
            mock.patch.object(mechanisms, "discrete_gaussian") as noise,
            pytest.raises(PrivacyError, match="other private values"),
        ):
            noisy_histogram(other, size=9, stddev=9.0, session=draws)
        noise.assert_not_called()
    with pytest.raises(PrivacyError, match="other private values"):
        draws.charge(DiscreteGaussian(stddev=9.0))


def test_parts_that_may_share_a_record_are_refused(tmp_path: Path) -> None:
    ledger = ledger_in(tmp_path)
    session = PrivacySession(ledger=ledger, stage="s", run="r")
    whole = sb.Private([1, 2, 3])
    parts, again = (whole.partition(bin_of, size=SIZE) for _ in range(2))
    halves = parts[0].map_batch(list), parts[0]
    for given_parts in (
        (), (whole,), (parts[0], whole), (parts[0], again[1]), halves, (whole, whole),
    ):  # fmt: skip
        with pytest.raises(ParamsError, match="distinct blocks"):
            session.parallel(DiscreteGaussian(stddev=9.0), given_parts)
    assert not ledger.entries()


@pytest.mark.parametrize(
    ("event", "records_per_unit", "is_valid"),
    [
        (DiscreteGaussian(stddev=9.0, sensitivity=3), 3, True),
        (GaussianDp(mu=0.1), 1, True),
        (GaussianDp(mu=0.1), 3, False),  # one record of a user may cost as much as three
        (DiscreteGaussian(stddev=9.0, sensitivity=1), 3, False),
    ],
)
def test_only_events_that_scale_with_the_records_of_a_user_cover_several_parts(
    event: Event, records_per_unit: int, is_valid: bool
) -> None:
    session = user_session(records_per_unit)
    parts = sb.Private([1, 2, 3]).partition(bin_of, size=SIZE)
    if is_valid:
        session.parallel(event, parts)
        return
    with pytest.raises(ParamsError):
        session.parallel(event, parts)
    session.ledger.charge.assert_not_called()  # type: ignore[attr-defined]
