"""Tests of planned draws: one charge pays for exactly the draws that it names, and for no other."""

from __future__ import annotations

import copy
import json
import math
import multiprocessing
import pickle
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Barrier
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sugarbush as sb
from sugarbush.errors import BudgetExceededError, ParamsError, PrivacyError
from sugarbush.privacy import mechanisms
from sugarbush.privacy.events import (
    DiscreteGaussian,
    Event,
    GaussianDp,
    NonPrivate,
    PlannedEvents,
    PoissonGaussian,
)
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.mechanisms import exact_histogram, noisy_histogram, noisy_sum
from sugarbush.privacy.reservation import Reservation
from sugarbush.privacy.session import PlannedDraws, PrivacySession
from sugarbush.privacy.unit import Unit
from sugarbush.report.statements import describe

DELTA = 1e-6
BINS = sb.Private(np.array([0, 2, 2]))
stddevs = st.sampled_from([0.9, 1.5, 4.0])  # few, because each needs its own PLD


def ledger_in(state: Path, **changes: Any) -> Ledger:
    fields = {"dataset": "d", "purpose": "release", "unit": Unit.RECORD, "cap": 50, "delta": DELTA}
    return Ledger(state, **(fields | changes))


def session_of(ledger: Ledger, **changes: Any) -> PrivacySession:
    return PrivacySession(ledger=ledger, stage="s", run="r", **changes)


def draw(draws: Any, *, stddev: float = 9.0, bins: Any = BINS) -> sb.Released[Any]:
    return noisy_histogram(bins, size=4, stddev=stddev, session=draws)


# The cost


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(st.sampled_from([1, 2, 12]), stddevs, st.integers(1, 3), st.booleans())
def test_planned_draws_cost_exactly_what_single_charges_of_one_plan_cost(
    count: int, stddev: float, sensitivity: int, has_other: bool
) -> None:
    """Both are one group, so the total is the epsilon of the composed PLDs."""
    single = DiscreteGaussian(stddev=stddev, sensitivity=sensitivity)
    whole = DiscreteGaussian(stddev=stddev, sensitivity=sensitivity, count=count)
    other = (GaussianDp(mu=0.1),) * has_other
    plan = PlannedEvents(id="p", events=(*other, whole))
    totals = []
    for events in ([*other, whole], [*other, *[single] * count]):
        with TemporaryDirectory() as state:
            session = session_of(ledger_in(Path(state), cap=math.inf), plan=plan)
            for event in events:
                session.charge(event)
            totals.append(session.ledger.total())
    assert totals[0] == totals[1] == sb.epsilon([*other, *[single] * count], delta=DELTA)


def test_the_entry_is_on_disk_before_the_first_draw_and_names_all_draws(tmp_path: Path) -> None:
    draws = session_of(ledger_in(tmp_path)).planned(DiscreteGaussian(stddev=9.0, count=3))
    (entry,) = ledger_in(tmp_path).entries()
    assert entry.event == DiscreteGaussian(stddev=9.0, count=3)
    assert [draw(draws).ledger_ids for _ in range(3)] == [(entry.id,)] * 3
    assert len(ledger_in(tmp_path).entries()) == 1
    assert describe(entry.event).startswith("3 planned draws of integer counts")


def test_draws_that_are_left_are_lost_and_a_new_run_charges_all_again(tmp_path: Path) -> None:
    for _ in range(2):
        draw(session_of(ledger_in(tmp_path)).planned(DiscreteGaussian(stddev=9.0, count=3)))
    assert [entry.event.count for entry in ledger_in(tmp_path).entries()] == [3, 3]  # type: ignore[attr-defined]


def test_the_cap_counts_all_draws_before_the_first(tmp_path: Path) -> None:
    ledger = ledger_in(tmp_path, cap=1.0)
    session_of(ledger).check([DiscreteGaussian(stddev=9.0)])
    with pytest.raises(BudgetExceededError):
        session_of(ledger).planned(DiscreteGaussian(stddev=9.0, count=800))
    assert not ledger.entries()


def test_a_check_before_a_charge_refuses_planned_draws(tmp_path: Path) -> None:
    def refuse() -> None:
        raise PrivacyError("the encoder fails")

    with pytest.raises(PrivacyError, match="encoder"):
        session_of(ledger_in(tmp_path, before_charge=refuse)).planned(DiscreteGaussian(stddev=9.0))
    assert not ledger_in(tmp_path).entries()


# Refused draws


@pytest.mark.parametrize(
    "use",
    [
        lambda draws: draw(draws, stddev=8.999),
        lambda draws: draw(draws, stddev=9.001),
        lambda draws: exact_histogram(BINS, size=4, session=draws),
        lambda draws: noisy_sum(
            BINS, scores=lambda rows: [rows], size=4, record_l2_sensitivity=2, stddev=9.0,
            session=draws,
        ),
        lambda draws: draws.charge(GaussianDp(mu=1 / 9.0)),
        lambda draws: draws.charge(DiscreteGaussian(stddev=9.0, count=2)),
        lambda draws: draws.check([DiscreteGaussian(stddev=9.0)] * 4),
    ],
    ids=["less noise", "more noise", "no noise", "sensitivity", "kind", "two at once", "too many"],
)  # fmt: skip
def test_a_draw_that_was_not_planned_is_refused_before_its_noise(
    tmp_path: Path, use: Callable[[PlannedDraws], object]
) -> None:
    draws = session_of(ledger_in(tmp_path)).planned(DiscreteGaussian(stddev=9.0, count=3))
    with (
        mock.patch.object(mechanisms, "discrete_gaussian") as noise,
        pytest.raises(PrivacyError, match="planned draws"),
    ):
        use(draws)
    noise.assert_not_called()
    for _ in range(3):  # a refused draw spends nothing
        draw(draws)


def test_a_draw_beyond_the_count_is_refused_before_anything_is_counted(tmp_path: Path) -> None:
    draws = session_of(ledger_in(tmp_path)).planned(DiscreteGaussian(stddev=9.0, count=2))
    for _ in range(2):
        draw(draws)
    with (
        mock.patch.object(mechanisms, "discrete_gaussian") as noise,
        mock.patch.object(mechanisms, "_counts") as counts,
        pytest.raises(PrivacyError, match="are spent"),
    ):
        draw(draws)
    counts.assert_not_called()
    with pytest.raises(PrivacyError, match="are spent"):
        draws.charge(DiscreteGaussian(stddev=9.0))
    noise.assert_not_called()


def test_two_threads_spend_no_draw_twice(tmp_path: Path) -> None:
    """All threads have checked before the first one charges."""
    count, threads = 60, 8
    draws = session_of(ledger_in(tmp_path)).planned(DiscreteGaussian(stddev=9.0, count=count))
    start = Barrier(threads)
    made = []

    class Slow(dict):  # type: ignore[type-arg]
        """Gives another thread time between the read and the write of a counter."""

        def __setitem__(self, key: object, value: object) -> None:
            time.sleep(1e-4)
            super().__setitem__(key, value)

    draws._left = Slow(draws._left)

    def spend(_: int) -> None:
        start.wait()
        for _ in range(count):
            try:
                made.append(draws.charge(DiscreteGaussian(stddev=9.0)))
            except PrivacyError:
                return

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(spend, range(threads)))
    assert len(made) == count


@pytest.mark.parametrize("use", [copy.copy, copy.deepcopy, pickle.dumps])
def test_planned_draws_cannot_be_copied(tmp_path: Path, use: Callable[[object], object]) -> None:
    draws = session_of(ledger_in(tmp_path)).planned(DiscreteGaussian(stddev=9.0))
    with pytest.raises(TypeError, match="spent twice"):
        use(draws)


def _draw_in_a_fork(draws: PlannedDraws, out: Any) -> None:
    try:
        draw(draws)
        out.put("drawn")
    except PrivacyError as error:
        out.put(str(error))


# JAX, which other tests import, warns of every fork. The child here does not use it.
@pytest.mark.filterwarnings(r"ignore:os\.fork\(\) was called:RuntimeWarning")
def test_a_forked_process_cannot_spend_the_draws_again(tmp_path: Path) -> None:
    draws = session_of(ledger_in(tmp_path)).planned(DiscreteGaussian(stddev=9.0))
    with mock.patch("os.getpid", return_value=-1), pytest.raises(PrivacyError, match="process"):
        draw(draws)
    context = multiprocessing.get_context("fork")
    out = context.Queue()
    process = context.Process(target=_draw_in_a_fork, args=(draws, out))
    process.start()
    assert "process that charged them" in out.get(timeout=60)
    process.join()


@pytest.mark.parametrize(
    "event",
    [
        NonPrivate(),
        PoissonGaussian(noise_multiplier=1.0, rate=0.1, count=3),
        DiscreteGaussian(stddev=9.0, sensitivity=4),
    ],
)
def test_events_that_cannot_be_planned_are_refused_without_a_charge(
    tmp_path: Path, event: Event
) -> None:
    ledger = ledger_in(tmp_path, unit=Unit.USER, cap=math.inf)
    with pytest.raises(ParamsError):
        session_of(ledger, records_per_unit=3).planned(event)
    assert not ledger.entries()


def test_the_draws_of_users_have_the_sensitivity_of_all_their_records(tmp_path: Path) -> None:
    session = session_of(ledger_in(tmp_path, unit=Unit.USER), records_per_unit=3)
    draw(session.planned(DiscreteGaussian(stddev=9.0, sensitivity=3)))


# Reservations


@pytest.mark.parametrize(("comes_last", "has_steep"), [(True, False), (False, True)])
def test_a_charge_of_many_draws_uses_the_reservation_of_these_draws(
    comes_last: bool, has_steep: bool
) -> None:
    require_only_its_reservation(3, 9.0, comes_last, has_steep)


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(st.sampled_from([2, 3, 7]), stddevs, st.booleans(), st.booleans())
def test_a_charge_of_any_draws_uses_the_reservation_of_these_draws(
    count: int, stddev: float, comes_last: bool, has_steep: bool
) -> None:
    require_only_its_reservation(count, stddev, comes_last, has_steep)


def require_only_its_reservation(
    count: int, stddev: float, comes_last: bool, has_steep: bool
) -> None:
    """The rest of the reservation stays, and the total is that of single charges."""
    whole = DiscreteGaussian(stddev=stddev, count=count)
    others: tuple[Event, ...] = (GaussianDp(mu=0.2), *[DiscreteGaussian(stddev=0.97)] * has_steep)
    plan = PlannedEvents(id="p", events=(*others, whole) if comes_last else (whole, *others))
    with TemporaryDirectory() as state, Reservation() as own:
        ledger = ledger_in(Path(state), reservation=own, cap=200)
        ledger.check(plan.events, plan=plan)
        assert own.path is not None
        session = session_of(ledger, plan=plan)
        session.planned(whole)
        left = [fields["event"]["kind"] for fields in json.loads(own.path.read_text())]
        assert len(left) == len(others)
        for event in others:
            session.charge(event)
        assert own.path is None
        charged = [entry.event for entry in ledger.entries()]
        assert charged == [whole, *others]
        assert ledger.total() == sb.epsilon(charged, delta=DELTA)
        assert len({entry.group for entry in ledger.entries()}) == 1
