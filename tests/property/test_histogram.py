"""Tests of the sensitivity of a histogram of units, through the mechanism that releases it."""

from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sugarbush.errors import BudgetExceededError, InvariantError
from sugarbush.privacy import mechanisms
from sugarbush.privacy.data_types import Private
from sugarbush.privacy.events import DiscreteGaussian, NonPrivate
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.mechanisms import exact_histogram, noisy_histogram
from sugarbush.privacy.session import PrivacySession
from sugarbush.privacy.unit import Unit


def a_ledger(state: Path, cap: float = 50.0, unit: Unit = Unit.RECORD) -> Ledger:
    return Ledger(state, dataset="d", purpose="release", unit=unit, cap=cap, delta=1e-6)


def session_of(ledger: Ledger, **changes: int) -> PrivacySession:
    return PrivacySession(ledger=ledger, stage="s", run="r", **changes)


def counts_behind(bins: list[int], size: int) -> np.ndarray:
    """Return the counts that the mechanism computes, without noise and without a charge."""
    ledger = mock.create_autospec(Ledger, instance=True)
    ledger.charge.return_value = "id"
    with mock.patch.object(mechanisms, "discrete_gaussian", lambda counts, **_: counts):
        released = noisy_histogram(
            Private(np.array(bins, dtype=np.int64)),
            size=size,
            stddev=1.0,
            session=session_of(ledger),
        )
    return released.value


@pytest.mark.slow
@settings(max_examples=60)
@given(st.lists(st.integers(0, 6), max_size=30), st.integers(0, 6))
def test_one_unit_more_moves_the_histogram_by_one_in_l2(bins: list[int], more: int) -> None:
    difference = counts_behind([*bins, more], 7) - counts_behind(bins, 7)
    assert np.linalg.norm(difference) == 1


def test_the_charge_is_on_disk_before_the_noise(tmp_path: Path) -> None:
    ledger = a_ledger(tmp_path)

    def die(*_: object, **__: object) -> None:
        assert [e.event for e in a_ledger(tmp_path).entries()] == [DiscreteGaussian(stddev=5.0)]
        raise KeyboardInterrupt

    with (
        mock.patch.object(mechanisms, "discrete_gaussian", die),
        pytest.raises(KeyboardInterrupt),
    ):
        noisy_histogram(
            Private(np.array([0, 1])),
            size=2,
            stddev=5.0,
            session=session_of(ledger),
        )
    assert len(ledger.entries()) == 1


def test_a_unit_of_several_records_is_charged_and_confirmed_as_such(tmp_path: Path) -> None:
    ledger = a_ledger(tmp_path, unit=Unit.USER)
    with mock.patch.object(
        mechanisms, "discrete_gaussian", wraps=mechanisms.discrete_gaussian
    ) as draw:
        noisy_histogram(
            Private(np.array([0, 1])),
            size=2,
            stddev=15.0,
            session=session_of(ledger, records_per_unit=3),
        )
    assert draw.call_args.kwargs == {"stddev": 15.0, "sensitivity": 3.0}
    (entry,) = ledger.entries()
    assert entry.event == DiscreteGaussian(stddev=15.0, sensitivity=3)


def test_a_refused_charge_adds_no_noise(tmp_path: Path) -> None:
    with (
        mock.patch.object(mechanisms, "discrete_gaussian") as draw,
        pytest.raises(BudgetExceededError),
    ):
        noisy_histogram(
            Private(np.array([0])),
            size=1,
            stddev=0.5,
            session=session_of(a_ledger(tmp_path, cap=1.0)),
        )
    draw.assert_not_called()


@pytest.mark.parametrize("bins", [[-1], [2], [[0]]])
def test_a_unit_outside_every_bin_is_our_fault_and_shows_no_value(
    tmp_path: Path, bins: list[object]
) -> None:
    with pytest.raises(InvariantError) as fault:
        noisy_histogram(
            Private(np.array(bins)),
            size=2,
            stddev=5.0,
            session=session_of(a_ledger(tmp_path)),
        )
    assert "every record must have one bin" in str(fault.value)


def test_an_empty_corpus_gives_noise_around_zero(tmp_path: Path) -> None:
    released = noisy_histogram(
        Private(np.array([], dtype=np.int64)),
        size=3,
        stddev=5.0,
        session=session_of(a_ledger(tmp_path)),
    )
    assert released.value.shape == (3,)
    assert len(released.ledger_ids) == 1


def test_counts_without_noise_are_charged_as_such_before_they_are_made(tmp_path: Path) -> None:
    ledger = a_ledger(tmp_path, cap=float("inf"))
    bins = Private(np.array([0, 2, 2], dtype=np.int64))
    released = exact_histogram(
        bins,
        size=4,
        session=session_of(ledger),
    )
    assert released.value.tolist() == [1, 0, 2, 0]
    (entry,) = ledger.entries()
    assert entry.event == NonPrivate()
    assert released.ledger_ids == (entry.id,)
    assert ledger.total() == float("inf")


def test_no_ledger_with_a_cap_admits_counts_without_noise(tmp_path: Path) -> None:
    with pytest.raises(BudgetExceededError):
        exact_histogram(
            Private(np.array([0], dtype=np.int64)),
            size=1,
            session=session_of(a_ledger(tmp_path)),
        )
    assert not a_ledger(tmp_path).entries()
