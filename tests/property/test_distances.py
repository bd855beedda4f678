"""Tests of the sensitivity, the charge and the noise of distances from public histograms."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sugarbush.errors import BudgetExceededError, InvariantError
from sugarbush.privacy import distances
from sugarbush.privacy.data_types import Private
from sugarbush.privacy.distances import noisy_histogram_distances
from sugarbush.privacy.events import DiscreteGaussian
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.session import PrivacySession
from sugarbush.privacy.unit import Unit

SIZES = (2, 5, 3, 7)  # cells of four histograms, in three queries
QUERIES = ((0,), (1,), (2, 3))
ROW = st.tuples(*(st.integers(-1, size - 1) for size in SIZES))
COUNTS = st.tuples(
    *(st.lists(st.integers(0, 1000), min_size=size, max_size=size).filter(any) for size in SIZES)
)


def queries_of(counts: tuple[list[int], ...]) -> list[list[NDArray[np.int64]]]:
    return [[np.array(counts[i], dtype=np.int64) for i in query] for query in QUERIES]


def cells(rows: list[tuple[int, ...]]) -> Private[NDArray[np.int32]]:
    return Private(np.array(rows, dtype=np.int32).reshape(-1, len(SIZES)))


def session_of(records: int = 1) -> PrivacySession:
    ledger = mock.create_autospec(Ledger, instance=True)
    ledger.charge.return_value = "id"
    ledger.unit = Unit.USER
    return PrivacySession(ledger=ledger, stage="s", run="r", records_per_unit=records)


def exact(rows: list[tuple[int, ...]], counts: tuple[list[int], ...]) -> NDArray[np.int64]:
    """Return the numbers that the mechanism computes before the noise."""
    with mock.patch.object(distances, "discrete_gaussian", lambda numbers, **_: numbers):
        released = noisy_histogram_distances(
            cells(rows), queries=queries_of(counts), counted=True, stddev=5.0, session=session_of()
        )
    return released.value


@settings(max_examples=150, deadline=None)
@given(st.lists(ROW, max_size=25), ROW, COUNTS)
def test_one_record_more_changes_each_number_by_at_most_one(
    rows: list[tuple[int, ...]], more: tuple[int, ...], counts: tuple[list[int], ...]
) -> None:
    change = np.abs(exact([*rows, more], counts) - exact(rows, counts))
    assert change[0] == 1
    assert change.max() <= 1


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(st.lists(ROW, max_size=25), st.lists(ROW, min_size=1, max_size=4), COUNTS)
def test_a_user_with_m_records_changes_each_number_by_at_most_m(
    rows: list[tuple[int, ...]], user: list[tuple[int, ...]], counts: tuple[list[int], ...]
) -> None:
    change = np.abs(exact([*rows, *user], counts) - exact(rows, counts))
    assert change.max() <= len(user)


@settings(max_examples=60, deadline=None)
@given(st.lists(ROW, min_size=1, max_size=25), COUNTS)
def test_the_numbers_are_records_to_move(
    rows: list[tuple[int, ...]], counts: tuple[list[int], ...]
) -> None:
    found = exact(rows, counts)
    apart = []
    for place, size in enumerate(SIZES):
        own = [row[place] for row in rows if row[place] >= 0]
        share = np.array(counts[place]) / sum(counts[place])
        apart.append(np.abs(np.bincount(own, minlength=size) - len(own) * share).sum() / 2)
    wanted = [len(rows), apart[0], apart[1], (apart[2] + apart[3]) / 2]
    assert all(w - 1 - 1e-9 <= f <= w + 1e-9 for f, w in zip(found, wanted, strict=True))


@pytest.mark.parametrize("records", [1, 3])
def test_the_charge_has_one_count_of_sensitivity_m_for_each_number(records: int) -> None:
    session = session_of(records)
    noisy_histogram_distances(
        cells([(0, 0, 0, 0)]),
        queries=queries_of(([1, 1], [1] * 5, [1] * 3, [1] * 7)),
        counted=True,
        stddev=7.0,
        session=session,
    )
    (event,), _ = session.ledger.charge.call_args  # type: ignore[attr-defined]
    assert event == DiscreteGaussian(stddev=7.0, sensitivity=records, count=4)


def test_every_number_has_noise(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, dataset="d", purpose="release", unit=Unit.RECORD, cap=1e3, delta=1e-6)
    session = PrivacySession(ledger=ledger, stage="s", run="r")
    rows = cells([(0, 1, 2, 3)] * 50)
    counts = queries_of(([1, 1], [1] * 5, [1] * 3, [1] * 7))
    drawn = np.array(
        [
            noisy_histogram_distances(
                rows, queries=counts, counted=True, stddev=40.0, session=session
            ).value
            for _ in range(40)
        ]
    )
    assert (drawn.std(axis=0) > 25).all() and (drawn.std(axis=0) < 58).all()
    assert len(ledger.entries()) == 40


def test_a_cap_refuses_before_anything_is_counted(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, dataset="d", purpose="release", unit=Unit.RECORD, cap=0.1, delta=1e-6)
    session = PrivacySession(ledger=ledger, stage="s", run="r")
    wrong: Private[NDArray[np.int32]] = Private(np.full((3, 1), 99, dtype=np.int32))
    with pytest.raises(BudgetExceededError):
        noisy_histogram_distances(
            wrong, queries=[[np.array([1, 2])]], counted=True, stddev=1.0, session=session
        )
    assert not ledger.entries()


@pytest.mark.parametrize(
    ("rows", "histogram", "said"),
    [
        ([[2]], [1, 1], "one cell of each histogram"),
        ([[-2]], [1, 1], "one cell of each histogram"),
        ([[0, 0]], [1, 1], "1 cells"),
        ([[0]], [0, 0], "positive sum"),
        ([[0]], [3, -1], "negative"),
    ],
)
def test_wrong_cells_and_histograms_are_refused(
    rows: list[list[int]], histogram: list[int], said: str
) -> None:
    private: Private[NDArray[np.int32]] = Private(np.array(rows, dtype=np.int32))
    session = session_of()
    with pytest.raises(InvariantError, match=said):
        noisy_histogram_distances(
            private, queries=[[np.array(histogram)]], counted=False, stddev=5.0, session=session
        )
    session.ledger.charge.assert_not_called()  # type: ignore[attr-defined]
