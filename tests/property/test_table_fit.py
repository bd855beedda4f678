"""Tests of AIM on neighbouring tables: its requests, their sensitivities, and the sum of costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sugarbush.errors import InvariantError
from sugarbush.privacy import noise
from sugarbush.privacy.data_types import Private
from sugarbush.privacy.gaussian_dp import discrete_gaussian_mu
from sugarbush.randomness import public_rng
from sugarbush.tables import marginal_measurer as measuring
from sugarbush.tables.aim import aim
from sugarbush.tables.dp_table import attribute_of
from sugarbush.tables.marginal_measurer import MarginalMeasurer
from sugarbush.tables.synthesis import Synthesis, draw_rows

Counts = NDArray[np.int64]
Draw = Callable[..., Counts]


@dataclass(frozen=True)
class Answer:
    """One draw of noise: the exact numbers, the arguments of the noise, and the noisy numbers."""

    exact: Counts
    noise: dict[str, float]
    noisy: Counts


def cost(of: dict[str, float]) -> float:
    """Compute mu^2 of integers with the L2 sensitivity and the noise of a draw."""
    return discrete_gaussian_mu(of["stddev"], sensitivity=of["sensitivity"]) ** 2


def table_of(seed: int, sizes: Sequence[int], rows: int) -> Counts:
    """Return codes. Columns copy the one before in about three of four rows. Many values are
    rare."""
    rng = public_rng(seed, "table")
    columns: list[Counts] = []
    for size in sizes:
        fresh = np.minimum(rng.geometric(0.15, rows), size) - 1
        copied = columns[-1] % size if columns else fresh
        columns.append(np.where(rng.random(rows) < 0.75, copied, fresh))
    return np.stack(columns, axis=1)


@dataclass(frozen=True)
class Case:
    sizes: tuple[int, ...]
    rows: int
    unit: int
    mu: float
    degree: int
    max_model_mb: float
    seed: int

    def table(self) -> Counts:
        """Return the rows, and then those of one unit. In every second case, the latter are
        equal."""
        table = table_of(self.seed, self.sizes, self.rows + self.unit)
        if self.seed % 2:
            table[self.rows :] = table[-1]
        return table

    def measurer(self, table: Counts) -> MarginalMeasurer:
        domain = {f"c{i}": size for i, size in enumerate(self.sizes)}
        return MarginalMeasurer(Private(table), domain, mu=self.mu, records_per_unit=self.unit)

    def fit(self) -> tuple[Synthesis, list[Answer]]:
        """Fit the table. The filter must have the costs of all draws before each draw."""
        answers: list[Answer] = []
        asked = self.measurer(self.table())

        def drawn(exact: Counts, **of: float) -> Counts:
            costs = [cost(each.noise) for each in answers] + [cost(of)]
            assert math.fsum(costs) <= asked.mu_squared_spent * (1 + 1e-12)
            assert asked.mu_squared_spent <= self.mu**2
            answers.append(Answer(exact.copy(), of, noise.discrete_gaussian(exact, **of)))
            return answers[-1].noisy

        return self._aim(asked, drawn), answers

    def replay(self, table: Counts, answers: list[Answer]) -> tuple[Synthesis, list[Counts]]:
        """Fit another table with the same answers, and return its exact numbers."""
        pending = list(answers)
        exacts: list[Counts] = []

        def drawn(exact: Counts, **of: float) -> Counts:
            answer = pending.pop(0)
            assert of == answer.noise and exact.shape == answer.exact.shape
            exacts.append(exact.copy())
            return answer.noisy

        made = self._aim(self.measurer(table), drawn)
        assert not pending
        return made, exacts

    def _aim(self, asked: MarginalMeasurer, draw: Draw) -> Synthesis:
        with mock.patch.object(measuring, "discrete_gaussian", draw):
            return aim(asked, degree=self.degree, max_cells=2_000, max_model_mb=self.max_model_mb)


def require_equal(one: Synthesis, other: Synthesis) -> None:
    assert [m.to_json() for m in one.measurements] == [m.to_json() for m in other.measurements]
    np.testing.assert_array_equal(draw_rows(one, public_rng(1)), draw_rows(other, public_rng(1)))


def check(case: Case) -> tuple[Synthesis, list[Answer]]:
    """Check a fit, and the same answers about the table without the unit and about another one."""
    made, answers = case.fit()
    less, exacts = case.replay(case.table()[: case.rows], answers)
    for answer, exact in zip(answers, exacts, strict=True):
        moved = int(((answer.exact - exact) ** 2).sum())
        assert moved <= answer.noise["sensitivity"] ** 2 * (1 + 1e-12)  # sqrt is rounded
    sizes = np.array(case.sizes)
    other, _ = case.replay(public_rng(case.seed).integers(0, sizes, (77, len(sizes))), answers)
    require_equal(made, less)
    require_equal(made, other)
    total = math.fsum(m.mu**2 + m.selection_mu**2 for m in made.measurements)
    assert total <= case.mu**2 * (1 + 1e-12) and math.isclose(total, case.mu**2, rel_tol=1e-9)
    return made, answers


@settings(max_examples=40, deadline=None)
@given(
    st.builds(
        Case,
        sizes=st.lists(st.sampled_from([1, 2, 3, 5, 17, 30]), min_size=1, max_size=4).map(tuple),
        rows=st.sampled_from([0, 1, 40, 500, 3000]),
        unit=st.integers(1, 5),
        mu=st.sampled_from([1e-4, 0.1, 1.0, 20.0]),
        degree=st.integers(1, 3),
        max_model_mb=st.sampled_from([1e-9, 0.1, 4.0]),
        seed=st.integers(0, 10**6),
    )
)
def test_a_unit_moves_the_numbers_of_each_draw_by_at_most_their_sensitivity(case: Case) -> None:
    """The costs of a fit are at most those of the plan, and requests depend on answers only."""
    check(case)


@pytest.mark.parametrize("unit", [1, 4])
def test_groups_and_merged_values_depend_on_answers_only(unit: int) -> None:
    """The pair of the large attributes has far more dependence than noise, so they are grouped,
    and the distance of the pair of groups is asked."""
    case = Case((60, 30, 2), rows=3000, unit=unit, mu=8.0, degree=2, max_model_mb=4.0, seed=unit)
    made, answers = check(case)
    assert {attribute_of(n) for n in made.model.domain if attribute_of(n) != n} == {"c0", "c1"}
    assert made.rare
    assert max(a.noise["sensitivity"] / unit for a in answers) == 2  # three pairs, and the groups


@settings(max_examples=100)
@given(
    rows=st.integers(0, 40),
    unit=st.integers(1, 6),
    seed=st.integers(0, 10**6),
    size=st.sampled_from([0.0, 1.0, 9.0, 1e6, 1e18, 1e300]),
    alike=st.booleans(),
)
def test_a_unit_moves_all_distances_together_by_at_most_their_sensitivity(
    rows: int, unit: int, seed: int, size: float, alike: bool
) -> None:
    """The estimates are arbitrary, also larger than any count. Some values are merged."""
    table = table_of(seed, [3, 4, 2], rows + unit)
    if alike:
        table[rows:] = table[-1]
    shapes = {("a", "b"): (3, 3), ("of_b", "c"): (2, 2), ("b",): (3,), ("a", "of_b"): (3, 2)}
    rng = public_rng(seed, "estimates")
    estimates = {columns: size * rng.normal(0, 1, shape) for columns, shape in shapes.items()}

    def numbers(some: Counts) -> tuple[Counts, float]:
        domain = {"a": 3, "b": 4, "c": 2}
        asked = MarginalMeasurer(Private(some), domain, mu=1.0, records_per_unit=unit)
        asked.merge("b", [0, 1, 2, 2])
        asked.group("of_b", "b", [1, 0, 1, 0])
        declared: list[float] = []

        def drawn(exact: Counts, *, stddev: float, sensitivity: float) -> Counts:
            declared.append(sensitivity)
            return exact

        with mock.patch.object(measuring, "discrete_gaussian", drawn):
            exact, _, _ = asked.distances(estimates, mu=0.5)
        return exact, declared[0]

    (one, declared), (other, _) = numbers(table), numbers(table[:rows])
    assert np.linalg.norm(one - other) <= declared == math.sqrt(4) * unit
    if alike and not size:  # the bound is tight
        assert np.linalg.norm(one - other) == declared


def test_an_estimate_of_another_shape_is_refused() -> None:
    """numpy would repeat the counts, and one record would move the distance by 3."""
    asked = MarginalMeasurer(Private(np.zeros((5, 2), dtype=int)), {"a": 1, "b": 4}, mu=1.0)
    with pytest.raises(InvariantError, match="shape"):
        asked.distances({("a", "b"): np.zeros((3, 4))}, mu=0.5)
