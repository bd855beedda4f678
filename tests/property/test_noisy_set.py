"""Tests of the sensitivity, the threshold and the charge of counts of values that nobody listed."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sugarbush.errors import BudgetExceededError, InvariantError
from sugarbush.privacy import mechanisms
from sugarbush.privacy.data_types import Private
from sugarbush.privacy.events import DiscreteGaussian, ThresholdedGaussian
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.mechanisms import noisy_counts, noisy_set, set_threshold
from sugarbush.privacy.session import PrivacySession
from sugarbush.privacy.unit import Unit

WORDS = [f"w{number}" for number in range(9)]
K = 3
RECORD = st.lists(st.sampled_from(WORDS), max_size=K, unique=True).map(tuple)
CELLS = st.lists(st.integers(0, 8), min_size=0, max_size=K, unique=True).map(
    lambda cells: [*cells, *[-1] * (K - len(cells))]
)


def a_ledger(state: Path, cap: float = 50.0, unit: Unit = Unit.RECORD) -> Ledger:
    return Ledger(state, dataset="d", purpose="release", unit=unit, cap=cap, delta=1e-6)


def session_of(ledger: Ledger, **changes: int) -> PrivacySession:
    return PrivacySession(ledger=ledger, stage="s", run="r", **changes)


def exact_counts(rows: list[tuple[str, ...]]) -> Counter[str]:
    """Return the counts that the mechanism computes before the noise."""
    seen: list[np.ndarray] = []
    ledger = mock.create_autospec(Ledger, instance=True)
    ledger.charge.return_value = "id"

    def record(counts: np.ndarray, **_: object) -> np.ndarray:
        seen.append(counts)
        return np.full(len(counts), 10**9)  # every item is released

    with mock.patch.object(mechanisms, "discrete_gaussian", record):
        released = noisy_set(
            Private(rows), items_per_record=K, stddev=5.0, delta=1e-9, session=session_of(ledger)
        )
    return Counter(dict(zip(released.value, seen[0].tolist(), strict=True)))


@pytest.mark.slow
@settings(max_examples=60)
@given(st.lists(RECORD, max_size=20), RECORD)
def test_one_record_more_changes_at_most_k_counts_by_one(
    rows: list[tuple[str, ...]], more: tuple[str, ...]
) -> None:
    before, after = exact_counts(rows), exact_counts([*rows, more])
    changes = [after[word] - before[word] for word in WORDS]
    assert sum(change**2 for change in changes) <= K
    assert set(changes) <= {0, 1}


@pytest.mark.slow
@settings(max_examples=60)
@given(st.lists(CELLS, max_size=20), CELLS)
def test_one_record_more_changes_at_most_k_cells_by_one(
    rows: list[list[int]], more: list[int]
) -> None:
    def counts(of: list[list[int]]) -> np.ndarray:
        ledger = mock.create_autospec(Ledger, instance=True)
        ledger.charge.return_value = "id"
        with mock.patch.object(mechanisms, "discrete_gaussian", lambda counts, **_: counts):
            return noisy_counts(
                Private(np.array(of, dtype=np.int32).reshape(len(of), K)),
                size=9,
                cells_per_record=K,
                stddev=1.0,
                session=session_of(ledger),
            ).value

    change = counts([*rows, more]) - counts(rows)
    assert (change**2).sum() <= K
    assert set(change.tolist()) <= {0, 1}


def tail(stddev: int, least: int) -> Fraction:
    """Compute a lower bound of P(N_Z >= least), in exact arithmetic of rounded-down weights."""
    scale = 10**30
    weights = {
        j: int(math.exp(-j * j / (2 * stddev**2)) * scale) for j in range(-30 * stddev, 30 * stddev)
    }
    return Fraction(sum(w for j, w in weights.items() if j >= least), sum(weights.values()) + 10**3)


@pytest.mark.parametrize("units", [1, 3])
@pytest.mark.parametrize("stddev", [1, 4, 20])
@pytest.mark.parametrize("delta", [1e-4, 1e-9])
def test_an_item_of_one_unit_is_released_with_probability_delta_at_most(
    stddev: int, delta: float, units: int
) -> None:
    """The worst unit has items with equal counts c that add up to k*m."""

    def worst(threshold: int) -> float:
        return max(
            float((K * units // c) * tail(stddev, threshold - c)) for c in range(1, units + 1)
        )

    found = set_threshold(
        stddev=float(stddev), delta=delta, items_per_record=K, records_per_unit=units
    )
    assert worst(found) <= delta * (1 + 1e-6)
    assert worst(found - 1) > 0.6 * delta  # 0.6, because k*m/c may be no whole number


def test_rare_items_are_released_as_often_as_the_proof_says(tmp_path: Path) -> None:
    """Release 30,000 items of one record each, k = 1, delta = 0.01.

    The count of released items is binomial with the exact probability. False-alarm rate 1e-9 (six
    standard deviations). A threshold that is lower by one doubles the rate at stddev 1.
    """
    n, delta, stddev = 30_000, 0.01, 1.0
    session = session_of(a_ledger(tmp_path, cap=math.inf))
    rows = [(f"item {number}",) for number in range(n)]
    released = noisy_set(
        Private(rows), items_per_record=1, stddev=stddev, delta=delta, session=session
    )
    threshold = set_threshold(stddev=stddev, delta=delta, items_per_record=1)
    expected = float(tail(1, threshold - 1))
    assert expected <= delta
    spread = math.sqrt(n * expected * (1 - expected))
    assert abs(len(released.value) - n * expected) < 6 * spread


def test_the_charge_is_on_disk_before_the_noise(tmp_path: Path) -> None:
    ledger = a_ledger(tmp_path)
    event = ThresholdedGaussian(stddev=5.0, delta=1e-9, count=2)

    def die(*_: object, **__: object) -> None:
        assert [entry.event for entry in a_ledger(tmp_path).entries()] == [event]
        raise KeyboardInterrupt

    with mock.patch.object(mechanisms, "discrete_gaussian", die), pytest.raises(KeyboardInterrupt):
        noisy_set(
            Private([("a", "b")]),
            items_per_record=2,
            stddev=5.0,
            delta=1e-9,
            session=session_of(ledger),
        )


def test_a_user_with_several_records_is_charged_for_all(tmp_path: Path) -> None:
    ledger = Ledger(
        tmp_path, dataset="d", purpose="release", unit=Unit.USER, cap=50.0, delta=1e-6,
        user_column="writer",
    )  # fmt: skip
    session = session_of(ledger, records_per_unit=4)
    noisy_set(Private([("a",)]), items_per_record=1, stddev=9.0, delta=1e-9, session=session)
    noisy_counts(
        Private(np.array([[0]], dtype=np.int32)),
        size=2,
        cells_per_record=1,
        stddev=9.0,
        session=session,
    )
    events = [entry.event for entry in ledger.entries()]
    assert events == [
        ThresholdedGaussian(stddev=9.0, delta=1e-9, sensitivity=4),
        DiscreteGaussian(stddev=9.0, sensitivity=4),
    ]


@pytest.mark.parametrize("row", [("a", "b", "c"), ("a", "a")])
def test_a_record_with_too_many_or_repeated_items_is_refused(
    row: tuple[str, ...], tmp_path: Path
) -> None:
    ledger = a_ledger(tmp_path)
    with pytest.raises(InvariantError, match="at most 2 distinct items") as error:
        noisy_set(
            Private([row]), items_per_record=2, stddev=5.0, delta=1e-9, session=session_of(ledger)
        )
    assert "'a'" not in str(error.value)
    assert not ledger.entries()


@pytest.mark.parametrize("row", [[0, 0], [0, 5], [-2, 0], [0, 1, 2]])
def test_wrong_cells_are_refused_before_the_charge(row: list[int], tmp_path: Path) -> None:
    ledger = a_ledger(tmp_path)
    with pytest.raises(InvariantError, match="cells"):
        noisy_counts(
            Private(np.array([row], dtype=np.int32)),
            size=5,
            cells_per_record=2,
            stddev=5.0,
            session=session_of(ledger),
        )
    assert not ledger.entries()


def test_a_set_beyond_the_cap_is_refused_before_anything_is_counted(tmp_path: Path) -> None:
    ledger = a_ledger(tmp_path, cap=0.01)
    with (
        mock.patch.object(mechanisms, "_counts_of_items", side_effect=AssertionError),
        pytest.raises(BudgetExceededError),
    ):
        noisy_set(
            Private([("a",)]),
            items_per_record=1,
            stddev=2.0,
            delta=1e-9,
            session=session_of(ledger),
        )
    assert not ledger.entries()


@settings(max_examples=40)
@given(st.permutations(WORDS), st.integers(0, 2**32 - 1))
def test_the_order_of_released_items_does_not_depend_on_the_order_of_records(
    words: list[str], seed: int
) -> None:
    """The noise makes every item frequent enough, so nothing but the order can differ."""
    rows = [(word,) for word in words] + [tuple(words[:K])]
    np.random.default_rng(seed).shuffle(rows)
    ledger = mock.create_autospec(Ledger, instance=True)
    ledger.charge.return_value = "id"
    with mock.patch.object(mechanisms, "discrete_gaussian", lambda counts, **_: counts + 10**9):
        released = noisy_set(
            Private(rows), items_per_record=K, stddev=5.0, delta=1e-9, session=session_of(ledger)
        )
    assert list(released.value) == sorted(WORDS)
