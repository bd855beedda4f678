"""Tests that one record changes the sums of scores by at most RESOLUTION in L2."""

import math
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sugarbush.errors import BudgetExceededError, InvariantError
from sugarbush.evolution import kernel_scores
from sugarbush.evolution.kernel_scores import FAST, FINE, RESOLUTION, Grid, KernelScores, scores_of
from sugarbush.evolution.parts import Candidates, Records, Scorer, Scores
from sugarbush.evolution.scorers import KernelScorer
from sugarbush.privacy import mechanisms
from sugarbush.privacy.data_types import Private
from sugarbush.privacy.events import DiscreteGaussian, NonPrivate
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.mechanisms import exact_sum, noisy_sum
from sugarbush.privacy.unit import Unit
from sugarbush.randomness import public_rng
from tests.property.test_histogram import a_ledger, session_of
from tests.property.test_vote_sensitivity import corpus


def unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def sums_behind(
    records: NDArray[np.float32], candidates: NDArray[np.float32], width: float
) -> NDArray[np.int64]:
    """Return the sums that the mechanism computes, without noise and without a charge."""
    ledger = mock.create_autospec(Ledger, instance=True)
    ledger.charge.return_value = "id"
    public = Records.without_codes(candidates)
    with mock.patch.object(mechanisms, "discrete_gaussian", lambda sums, **_: sums):
        return (
            KernelScorer(width=width)
            .total(
                Private(Records.without_codes(records)),
                Candidates(public.embeddings, public.codes, public.labels),
                stddev=1.0,
                session=session_of(ledger),
            )
            .value
        )


@pytest.mark.slow
@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 60),
    m=st.integers(1, 40),
    which=st.integers(0, 59),
    width=st.sampled_from([0.005, 0.2, 3.0]),
)
def test_one_record_takes_its_own_scores_along_and_nothing_else(
    seed: int, n: int, m: int, which: int, width: float
) -> None:
    kinds = 1 + seed % 4
    records, candidates = unit(corpus(seed, n, kinds)), unit(corpus(seed, m, kinds))
    less = np.delete(records, which % n, axis=0)
    difference = sums_behind(records, candidates, width) - sums_behind(less, candidates, width)
    alone = scores_of(records[[which % n]], candidates, width=width)[0]
    assert difference.tolist() == alone.tolist()
    assert 0.8 * RESOLUTION < np.linalg.norm(difference) <= RESOLUTION


def test_scores_do_not_depend_on_the_records_beside_them() -> None:
    rng = public_rng(1, "beside")
    records = unit(rng.standard_normal((700, 384), dtype=np.float32))
    candidates = unit(rng.standard_normal((300, 384), dtype=np.float32))
    together = scores_of(records, candidates, width=0.2)
    for start, stop in ((0, 1), (3, 5), (17, 700)):
        own = scores_of(records[start:stop], candidates, width=0.2)
        assert np.array_equal(own, together[start:stop])


def slow_scores(
    records: NDArray[np.float32], candidates: NDArray[np.float32], *, grid: Grid, width: float
) -> list[list[int]]:
    """The scores with sums and quotients of Python's integers, which are exact."""
    a, b = (
        [[round(float(grid.dtype(x) * grid.dtype(grid.steps))) for x in row] for row in vectors]
        for vectors in (records, candidates)
    )
    step, found = grid.dtype(2**14 / grid.steps**2), []
    for record in a:
        products = [sum(x * y for x, y in zip(record, other, strict=True)) for other in b]
        below = [int(grid.dtype(max(products) - product) * step) for product in products]
        weights = [round(float(np.exp(-np.float64(k) / 2**14 / width)) * 2**20) for k in below]
        norm = math.isqrt(sum(w * w for w in weights) - 1) + 1
        found.append([w * RESOLUTION // norm for w in weights])
    return found


@pytest.mark.parametrize("dim", [3, 384, 1500])
@pytest.mark.parametrize("width", [0.02, 0.2])
def test_scores_are_those_of_exact_integers(dim: int, width: float) -> None:
    rng = public_rng(dim, "exact")
    records = unit(rng.standard_normal((6, dim), dtype=np.float32))
    noise = rng.standard_normal((50, dim), dtype=np.float32)
    candidates = unit(records[rng.integers(0, 6, 50)] + noise / (2 * dim))
    found = {
        grid: KernelScores(candidates, width=width, grid=grid)(records) for grid in (FAST, FINE)
    }
    for grid, scores in found.items():
        assert scores.tolist() == slow_scores(records, candidates, grid=grid, width=width)
    assert np.abs(found[FAST] - found[FINE]).max() <= 4e-4 / width * RESOLUTION


@pytest.mark.parametrize("grid", [FAST, FINE], ids=["FAST", "FINE"])
@pytest.mark.parametrize("dim", [1, 2, 384, 1536])
def test_sums_of_products_on_a_grid_are_exact_in_any_order(grid: Grid, dim: int) -> None:
    """Else the sum depends on the order of a matrix product, and so on the other records."""
    rng = public_rng(dim, "order")
    spread = rng.standard_normal((40, dim), dtype=np.float32)
    ones = np.ones((1, dim), dtype=np.float32)
    vectors = unit(np.concatenate([spread, ones, np.abs(spread)]))
    whole = kernel_scores._on_grid(vectors, grid)
    exact = [[sum(x * y for x, y in zip(a, b, strict=True)) for b in whole] for a in whole[:3]]
    numbers = whole.astype(np.int64)
    assert [[int(x) for x in row] for row in exact] == (numbers[:3] @ numbers.T).tolist()
    for _ in range(5):
        order = rng.permutation(dim)
        assert np.array_equal(whole[:, order] @ whole[:, order].T, numbers @ numbers.T)


@pytest.mark.parametrize("grid", [FAST, FINE], ids=["FAST", "FINE"])
def test_the_largest_sum_on_a_grid_has_an_exact_float(grid: Grid) -> None:
    """By Cauchy-Schwarz, no sum of some of the products of two vectors is larger."""
    largest = math.ceil(kernel_scores._LONGEST * grid.steps**2)
    assert largest < 2 ** (np.finfo(grid.dtype).nmant + 1)


@pytest.mark.parametrize("dim", [1, 2, 1000, 4000])
def test_vectors_whose_sums_of_products_might_not_be_exact_are_refused(dim: int) -> None:
    """A sum over 2^24 would be rounded in float32, and so depend on the order of its terms."""
    longest = math.isqrt(2**24 // dim)
    vectors = np.full((1, dim), (longest + 1) / 4000, dtype=np.float32)
    with pytest.raises(InvariantError, match="not a unit vector"):
        scores_of(vectors, vectors, width=0.2)
    accepted = np.full((2, dim), math.floor(0.99 * longest) / 4000, dtype=np.float32)
    assert len(scores_of(accepted, accepted, width=0.2)) == 2


def test_more_candidates_than_squares_are_summed_at_a_time_score_alike() -> None:
    candidates = unit(np.ones((2**13 + 3, 2), dtype=np.float32))
    scores = scores_of(candidates[:1], candidates, width=0.2)
    assert set(scores[0].tolist()) == {RESOLUTION // math.ceil(math.sqrt(2**13 + 3))}


def test_a_narrow_kernel_is_a_vote_for_the_nearest() -> None:
    candidates = unit(corpus(3, 20, 20))
    scores = scores_of(candidates[:5], candidates, width=0.005)
    assert scores.argmax(axis=1).tolist() == [0, 1, 2, 3, 4]


def test_a_norm_is_rounded_up_so_that_no_score_is_rounded_over_the_bound() -> None:
    """The record is near to one candidate and far from another. If the norm were rounded down, its
    scores would be 4096 and 1, which exceed the bound."""
    candidates = np.eye(2, dtype=np.float32)
    for angle in np.linspace(0.70, 0.72, 200):
        record = np.array([[np.cos(angle), np.sin(angle)]], dtype=np.float32)
        (scores,) = scores_of(record, candidates, width=0.015)
        assert (scores**2).sum() <= RESOLUTION**2


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf, 1e3, 3e38])
@pytest.mark.parametrize("user_column", ["record", "candidate"])
def test_a_vector_that_is_not_of_unit_length_is_refused_and_costs_nothing(
    tmp_path: Path, number: float, user_column: str
) -> None:
    """Inner products of vectors longer than 1 would not be exact, so they could depend on other
    records.
    """
    records, candidates = unit(corpus(1, 600, 3)), unit(corpus(2, 5, 3))
    (records if user_column == "record" else candidates)[-1, 0] = number
    ledger = a_ledger(tmp_path)
    with pytest.raises(InvariantError, match="not a unit vector"):
        noisy_sum(
            Private(records),
            scores=lambda rows: [scores_of(rows, candidates, width=0.2)],
            size=5,
            record_l2_sensitivity=RESOLUTION,
            stddev=9.0 * RESOLUTION,
            session=session_of(ledger),
        )
    assert not ledger.entries()


def test_a_record_of_zeros_scores_all_alike() -> None:
    scores = scores_of(np.zeros((1, 16), dtype=np.float32), unit(corpus(1, 4, 4)), width=0.2)
    assert scores.tolist() == [[RESOLUTION // 2] * 4]


def test_scores_need_candidates_of_the_same_length() -> None:
    records = np.zeros((1, 3), dtype=np.float32)
    for shape in ((0, 3), (2, 4)):
        with pytest.raises(InvariantError, match="candidates"):
            scores_of(records, np.zeros(shape, dtype=np.float32), width=0.2)


BROKEN: list[tuple[Any, str]] = [
    (lambda n: [np.full((n, 2), 3)], "above the bound"),
    (lambda n: [np.full((n - 1, 2), 2), np.full((1, 2), 3)], "above the bound"),
    # the square overflows to 0 in 64 bits
    (lambda n: [np.full((n, 2), 2**32)], "above the bound"),
    (lambda n: [np.full((n, 2), -(2**63))], "above the bound"),
    (lambda n: [np.full((n, 2), 2**31 - 1, dtype=np.int32)], "above the bound"),
    (lambda n: [np.full((n, 2), np.nan)], "integers"),
    (lambda n: [np.full((n, 2), 2, dtype=np.uint64)], "integers"),
    (lambda n: [np.full((n, 3), 1)], "integers"),
    (lambda n: [np.full(2, 2)], "integers"),  # broadcasting would accept it silently
    (lambda n: [np.full((1, 2), 2)], "one row per record"),
    (lambda n: [np.full((n, 2), 2)] * 2, "one row per record"),
    (lambda n: [], "one row per record"),
]


@pytest.mark.parametrize(("rows", "message"), BROKEN)
def test_scores_that_are_no_bounded_row_of_each_record_are_refused(
    tmp_path: Path, rows: Any, message: str
) -> None:
    ledger = a_ledger(tmp_path)
    with pytest.raises(InvariantError, match=message):
        noisy_sum(
            Private(np.ones((3, 2), dtype=np.float32)),
            size=2,
            record_l2_sensitivity=4,
            stddev=9.0,
            scores=lambda block: rows(len(block)),
            session=session_of(ledger),
        )
    assert not ledger.entries()


class BrokenScorer(Scorer):
    """A scorer of another package. Its rows are not what it states."""

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    @property
    def unit(self) -> int:
        return 4

    def scores(self, candidates: Candidates) -> Scores:
        return lambda records: self.rows(len(records))


@pytest.mark.parametrize("stddev", [9.0, None])
@pytest.mark.parametrize(("rows", "message"), BROKEN)
def test_a_broken_scorer_is_refused_before_a_charge(
    tmp_path: Path, rows: Any, message: str, stddev: float | None
) -> None:
    ledger = a_ledger(tmp_path, cap=math.inf)
    public = Records.without_codes(np.ones((2, 2), dtype=np.float32))
    with pytest.raises(InvariantError, match=message):
        BrokenScorer(rows).total(
            Private(Records.without_codes(np.ones((3, 2), dtype=np.float32))),
            Candidates(public.embeddings, public.codes, public.labels),
            stddev=stddev,
            session=session_of(ledger),
        )
    assert not ledger.entries()


def test_the_default_total_of_a_scorer_sums_its_rows_and_charges_its_event(tmp_path: Path) -> None:
    ledger = a_ledger(tmp_path, unit=Unit.USER)
    public = Records.without_codes(np.ones((2, 2), dtype=np.float32))
    scorer = BrokenScorer(lambda n: [np.full((n, 2), [2, -2])])  # it states what is true
    with mock.patch.object(mechanisms, "discrete_gaussian", lambda sums, **_: sums):
        total = scorer.total(
            Private(Records.without_codes(np.ones((3, 2), dtype=np.float32))),
            Candidates(public.embeddings, public.codes, public.labels),
            stddev=60.0,
            session=session_of(ledger, records_per_unit=2),
        )
    assert total.value.tolist() == [6, -6]
    paid = DiscreteGaussian(stddev=60.0, sensitivity=8)
    assert [entry.event for entry in ledger.entries()] == [paid]
    assert scorer.event(stddev=60.0, draws=1, records_per_unit=2) == paid
    assert scorer.event(stddev=None, draws=3, records_per_unit=2) == NonPrivate()


@pytest.mark.parametrize(("norm", "row"), [(2**32, 2**32), (2**31, 2**31), (2**32, 2**32 - 1)])
def test_a_bound_whose_squares_overflow_is_refused(tmp_path: Path, norm: int, row: int) -> None:
    """The squares of these rows wrap to at most norm^2 in int64, but their norms are 1.4 norm."""
    ledger = a_ledger(tmp_path)
    with pytest.raises(InvariantError, match="record_l2_sensitivity is above"):
        noisy_sum(
            Private(np.ones((3, 2), dtype=np.float32)),
            size=2,
            record_l2_sensitivity=norm,
            stddev=9.0 * norm,
            scores=lambda block: np.full((len(block), 2), row),
            session=session_of(ledger),
        )
    assert not ledger.entries()


def test_a_crash_while_summing_spends_no_budget(tmp_path: Path) -> None:
    def die(_: object) -> Any:
        raise KeyboardInterrupt

    for sums in (partial(noisy_sum, stddev=50.0), exact_sum):
        ledger = a_ledger(tmp_path, cap=float("inf"))
        with pytest.raises(KeyboardInterrupt):
            sums(
                Private(np.ones((3, 2), dtype=np.float32)),
                size=2,
                record_l2_sensitivity=4,
                scores=die,
                session=session_of(ledger),
            )
        assert not ledger.entries()


def test_scores_that_the_cap_does_not_allow_are_not_even_made(tmp_path: Path) -> None:
    with pytest.raises(BudgetExceededError):
        noisy_sum(
            Private(np.ones((3, 2), dtype=np.float32)),
            size=2,
            record_l2_sensitivity=4,
            stddev=12.0,  # epsilon 1.45
            scores=lambda _: pytest.fail("scored"),
            session=session_of(a_ledger(tmp_path, cap=1.0)),
        )


def test_scores_are_charged_before_the_noise_and_for_every_record_of_a_user(
    tmp_path: Path,
) -> None:
    ledger = a_ledger(tmp_path, unit=Unit.USER)
    paid = DiscreteGaussian(stddev=50.0, sensitivity=12)

    def die(*_: object, **__: object) -> None:
        assert [entry.event for entry in ledger.entries()] == [paid]
        raise KeyboardInterrupt

    with (
        mock.patch.object(mechanisms, "discrete_gaussian", die),
        pytest.raises(KeyboardInterrupt),
    ):
        noisy_sum(
            Private(np.ones((3, 2), dtype=np.float32)),
            size=2,
            record_l2_sensitivity=4,
            stddev=50.0,
            scores=lambda rows: [np.full((len(rows), 2), 2)],
            session=session_of(ledger, records_per_unit=3),
        )


def test_exact_sums_have_no_guarantee_and_say_so(tmp_path: Path) -> None:
    ledger = a_ledger(tmp_path, cap=float("inf"))
    found = exact_sum(
        Private(np.ones((3, 2), dtype=np.float32)),
        size=2,
        record_l2_sensitivity=4,
        session=session_of(ledger),
        scores=lambda rows: [np.full((len(rows), 2), 2)],
    )
    assert found.value.tolist() == [6, 6]
    assert [entry.event for entry in ledger.entries()] == [NonPrivate()]
