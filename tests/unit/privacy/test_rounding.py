"""Tests that stored results are found on a CPU that rounds the noise of a plan differently."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sugarbush.privacy.events import DiscreteGaussian, GaussianDp
from sugarbush.privacy.fingerprint import make_dataset_fingerprint
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.results import ResultStore, open_result_store
from sugarbush.privacy.rounding import as_charged, charged_numbers, keys_rounded_otherwise
from sugarbush.privacy.unit import Unit

MUS = st.floats(min_value=1e-3, max_value=30)


@given(mu=MUS, sensitivity=st.integers(1, 20), count=st.integers(1, 50), ulps=st.integers(-9, 9))
def test_mu_is_found_from_the_noise_that_was_charged(
    mu: float, sensitivity: int, count: int, ulps: int
) -> None:
    charged = sensitivity * math.sqrt(count) / mu
    here = mu * (1 + ulps * 1e-13)
    assert mu in {here, *as_charged(here, frozenset({charged}))}


@given(mu=MUS, charged=st.frozensets(st.one_of(MUS, st.floats()), max_size=20))
def test_all_roundings_of_a_mu_are_nearly_equal(mu: float, charged: frozenset[float]) -> None:
    assert all(math.isclose(mu, other, rel_tol=2e-9) for other in as_charged(mu, charged))


@given(mu=MUS, change=st.sampled_from([1 - 1e-6, 1 + 1e-8, 1.0003]))
def test_a_mu_that_differs_by_more_is_not_found(mu: float, change: float) -> None:
    assert mu not in {*as_charged(mu * change, frozenset({mu}))}


def test_other_values_of_a_key_never_change() -> None:
    key = {"version": 3, "names": ["mu", None, True], "settings": {"share": 0.25}, "mu": 0.5}
    keys = list(keys_rounded_otherwise(key, frozenset({0.5 * (1 + 1e-12), 0.7})))
    assert keys == [key, {**key, "mu": 0.5 * (1 + 1e-12)}]


@pytest.mark.parametrize(
    ("change", "found"), [(1.0, True), (1 + 1e-12, True), (1 - 1e-12, True), (1 + 1e-6, False)]
)
@pytest.mark.parametrize("event", [GaussianDp(mu=0.3), DiscreteGaussian(stddev=1 / 0.3, count=1)])
def test_a_result_is_found_again_if_only_the_rounding_differs(
    tmp_path: Path, event: Any, change: float, found: bool
) -> None:
    ledger = Ledger(tmp_path, dataset="d", purpose="release", unit=Unit.RECORD, cap=5.0, delta=1e-6)
    ledger.charge(
        event, stage="s", run="r", dataset_fingerprint=make_dataset_fingerprint(["a"], key=b"k")
    )
    with (
        open_result_store(
            tmp_path, dataset="release-d", stage="s", key={"mu": 0.3, "a": "b"}, forced=False
        ) as store,
        store.writing("votes"),
    ):
        first = store.digest
    with open_result_store(
        tmp_path, dataset="release-d", stage="s", key={"mu": 0.3 * change, "a": "b"}, forced=False
    ) as store:
        assert (store.finished("votes") is not None) is found
        assert (store.digest == first) is found


def opened(state: Path, mu: float) -> AbstractContextManager[ResultStore]:
    return open_result_store(state, dataset="release-d", stage="s", key={"mu": mu}, forced=False)


def test_only_finished_results_are_used(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, dataset="d", purpose="release", unit=Unit.RECORD, cap=5.0, delta=1e-6)
    here, there, fingerprint = 0.3, 0.3 * (1 + 1e-12), make_dataset_fingerprint(["a"], key=b"k")
    ledger.charge(GaussianDp(mu=there), stage="s", run="r", dataset_fingerprint=fingerprint)
    with opened(tmp_path, there) as store:
        other = store.folder  # a run that was killed before its first result
        (other / "draws-1").touch()
        (other / ".votes.1").mkdir()
    with opened(tmp_path, here) as store:
        assert store.folder != other  # the own folder exists from now on
    with opened(tmp_path, there) as store, store.writing("votes"):
        pass
    with opened(tmp_path, here) as store:
        assert store.folder == other


def test_a_damaged_ledger_line_hides_no_other_line(tmp_path: Path) -> None:
    ledger = tmp_path / "ledgers" / "release" / "d.jsonl"
    ledger.parent.mkdir(parents=True)
    ledger.write_text(
        '{"event": {"mu": 0.5}}\n{"event": \n[1]\n"text"\n{"event": {"stddev": 2.5}}\n'
    )
    (ledger.parent / "e.jsonl").write_bytes(b"\xff\xfe")
    assert charged_numbers(tmp_path) == {0.5, 2.5}
