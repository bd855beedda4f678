"""Tests of `MarginalMeasurer`: what it charges and refuses, and its sensitivity to one record."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sugarbush.errors import InvariantError
from sugarbush.privacy.data_types import Private
from sugarbush.privacy.gaussian_dp import discrete_gaussian_mu
from sugarbush.privacy.shards import Shards, map_shards
from sugarbush.randomness import public_rng
from sugarbush.tables import marginal_measurer as measuring
from sugarbush.tables.aim import aim
from sugarbush.tables.marginal_measurer import (
    Candidate,
    MarginalMeasurer,
    marginal_sensitivity,
    score_sensitivity,
)
from sugarbush.tables.synthesis import draw_rows

DOMAIN = {"a": 3, "b": 4, "c": 1}


def measurer(rows, *, mu=1.0, **more):
    return MarginalMeasurer(Private(rows), DOMAIN, mu=mu, **more)


rows_strategy = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.just(0)), max_size=30)


@settings(max_examples=100)
@given(
    rows_strategy,
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.just(0)), min_size=1, max_size=3),
)
def test_a_unit_moves_a_marginal_by_at_most_its_sensitivity(rows, unit):
    one, other = measurer(rows), measurer([*rows, *unit])
    for attributes in [("a",), ("b",), ("a", "b"), ("b", "a"), ("a", "b", "c")]:
        moved = other._count(attributes) - one._count(attributes)
        assert np.linalg.norm(moved) <= marginal_sensitivity(len(unit))
    # The bound is tight, because all records of a unit may be in one cell.
    same = measurer([*rows, *[unit[0]] * 3])
    assert np.linalg.norm(same._count(("a", "b")) - one._count(("a", "b"))) == 3


@settings(max_examples=200)
@given(
    rows_strategy,
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.just(0)), min_size=1, max_size=3),
    st.floats(1e-3, 1.0),
    st.one_of(st.floats(-1e7, 1e7), st.floats(-1e25, 1e25)),
    st.tuples(st.sampled_from([1.0, 1e3, 1e6, 1e12, 1e18, 1e300]), st.integers(0, 2**32)),
)
def test_a_unit_moves_a_score_by_at_most_its_sensitivity_to_the_last_bit(
    rows, unit, weight, penalty, drawn
):
    """The bound holds for any noise in the estimate and for any penalty."""
    size, seed = drawn
    estimate = size * public_rng(seed, "estimate").normal(0, 1, (3, 4))
    candidate = Candidate(attributes=("a", "b"), estimate=estimate, weight=weight, penalty=penalty)
    moved = measurer([*rows, *unit])._score(candidate) - measurer(rows)._score(candidate)
    assert abs(moved) <= score_sensitivity(len(unit))


@settings(max_examples=100)
@given(
    rows_strategy,
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.just(0)), min_size=1, max_size=3),
    st.integers(0, 2**32),
)
def test_a_unit_moves_each_distance_by_at_most_its_sensitivity(rows, unit, seed):
    """The distances are the integers that get noise. A column of groups keeps the bound."""
    rng = public_rng(seed, "estimates")
    shapes = {("a", "b"): (3, 4), ("b", "groups"): (4, 2), ("a",): (3,)}
    estimates = {columns: 9 * rng.normal(0, 1, shape) for columns, shape in shapes.items()}

    def exact(rows):
        asked = measurer(rows)
        asked.group("groups", "a", [0, 1, 0])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(measuring, "discrete_gaussian", lambda counts, **_: counts)
            return asked.distances(estimates, mu=0.5)[0]

    assert np.abs(exact([*rows, *unit]) - exact(rows)).max() <= score_sensitivity(len(unit))


@pytest.mark.parametrize("unit", [1, 4])
def test_distances_are_charged_as_independent_answers_before_their_noise(unit, monkeypatch):
    asked = measurer([(0, 1, 0)] * 9, mu=1.0, records_per_unit=unit)
    estimates = {columns: asked._count(columns) * 0.5 for columns in [("a",), ("b",), ("a", "b")]}

    def drawn(counts, *, stddev, sensitivity):
        each = discrete_gaussian_mu(stddev, sensitivity=unit)
        assert asked.mu_squared_spent == pytest.approx(3 * each**2)
        assert sensitivity == pytest.approx(unit * 3**0.5)
        return counts

    monkeypatch.setattr(measuring, "discrete_gaussian", drawn)
    distances, stddev, mu = asked.distances(estimates, mu=0.6)
    assert distances.tolist() == [4, 4, 4]  # 4.5, rounded down
    assert mu**2 == pytest.approx(asked.mu_squared_spent) and mu <= 0.6
    assert stddev >= unit * 3**0.5 / 0.6 * 0.99


def test_a_column_of_groups_counts_groups_and_names_its_attribute():
    asked = measurer([(0, 1, 0)] * 400 + [(2, 3, 0)] * 900, mu=500.0)
    asked.group("groups", "b", [0, 0, 1, 1])
    made = asked.measure(("a", "groups"), mu=400.0, round=1)
    assert made.attributes == ("a", "b") and made.groups == {"b": (0, 0, 1, 1)}
    assert not made.merged and made.counts.tolist() == [[400, 0], [0, 0], [0, 900]]
    assert type(made).from_json(made.to_json()).groups == made.groups
    with pytest.raises(InvariantError):
        asked.group("a", "b", [0, 0, 1, 1])
    asked.unmerge()
    assert set(asked.domain) == set(DOMAIN)


def test_a_score_is_the_weighted_error_beyond_the_penalty():
    candidate = Candidate(
        attributes=("a",), estimate=np.array([1.0, 0.0, 2.5]), weight=0.5, penalty=1.25
    )
    rows = [(0, 1, 0), (0, 2, 0), (1, 0, 0)]
    assert measurer(rows)._score(candidate) == pytest.approx(0.5 * (1 + 1 + 2.5 - 1.25))


def test_a_measurement_is_counts_plus_noise_of_the_scale_it_states():
    """With 4,000 cells, the sample variance of the noise has a relative standard deviation of
    sqrt(2/4000) = 2.2%. The sample variance differs from stddev^2 by more than 12% with probability
    1e-7.
    """
    wide = MarginalMeasurer(Private([(5,)] * 1000), {"x": 4000}, mu=1.0)
    measured = wide.measure(("x",), mu=0.25, round=0)
    noise = measured.counts - 1000 * (np.arange(4000) == 5)
    assert measured.stddev == pytest.approx(4, rel=0.01)
    assert noise.var() == pytest.approx(measured.stddev**2, rel=0.12)
    assert abs(noise.mean()) < 6 * measured.stddev / np.sqrt(4000)


def test_distances_have_noise_of_the_scale_that_they_state():
    """The sample variance of 720 distances has a relative standard deviation of 5%."""
    domain = dict.fromkeys("abcdef", 1)
    asked = MarginalMeasurer(Private([(0,) * 6] * 1000), domain, mu=1.0)
    empty = {columns: np.zeros((1,) * 6) for columns in itertools.permutations(domain)}
    distances, stddev, _ = asked.distances(empty, mu=0.9)
    assert stddev == pytest.approx(720**0.5 / 0.9, rel=0.01)
    assert (distances - 1000).std() == pytest.approx(stddev, rel=0.2)


def test_every_answer_is_charged_what_its_noise_costs():
    asked = measurer([(0, 0, 0)] * 5, mu=1.0, records_per_unit=2)
    measured = asked.measure(("a", "b"), mu=0.5, round=1)
    assert measured.mu == discrete_gaussian_mu(measured.stddev, sensitivity=2.0)
    assert measured.mu == pytest.approx(0.5, rel=1e-9)
    assert measured.stddev == pytest.approx(4, rel=0.01)
    flat = Candidate(attributes=("a",), estimate=np.zeros(3), weight=1.0, penalty=0.0)
    _, cost = asked.select([flat], mu=0.3)
    assert cost == pytest.approx(0.3, rel=1e-9)
    assert asked.mu_squared_spent == pytest.approx(0.25 + 0.09)
    assert asked.mu_squared_left == pytest.approx(1 - 0.34)


def test_nothing_is_answered_past_the_filter_and_a_refusal_costs_nothing():
    asked = measurer([(0, 0, 0)], mu=0.5)
    asked.measure(("a",), mu=0.4, round=0)
    spent = asked.mu_squared_spent
    with pytest.raises(InvariantError, match="would exceed the filter"):
        asked.measure(("a",), mu=0.4, round=0)
    flat = Candidate(attributes=("a",), estimate=np.zeros(3), weight=1.0, penalty=0.0)
    with pytest.raises(InvariantError, match="would exceed the filter"):
        asked.select([flat], mu=0.4)
    assert asked.mu_squared_spent == spent


def test_merged_codes_are_counted_together():
    asked = measurer([(0, 1, 0), (1, 3, 0), (2, 3, 0), (2, 0, 0)], mu=1e4)
    asked.merge("b", (0, 2, 1, 2))
    assert asked.domain["b"] == 3
    np.testing.assert_array_equal(asked._count(("b",)), [1, 0, 3])
    measured = asked.measure(("a", "b"), mu=5e3, round=1)
    assert measured.merged
    np.testing.assert_array_equal(measured.counts, [[0, 0, 1], [0, 0, 1], [1, 0, 1]])
    assert not asked.measure(("a",), mu=5e3, round=1).merged


@pytest.mark.parametrize(
    "rows",
    [
        [(0, 7, 0)],
        [(0, -3, 0)],
        [(0, 1)],
        [(0.5, 1.0, 0.0)],
        [(0, 1, 0, 2)],
    ],
)
def test_a_table_that_does_not_fit_its_domain_is_refused_without_a_word_of_it(rows):
    with pytest.raises(InvariantError) as refusal:
        measurer(rows)
    for value in rows[0]:
        assert str(value) not in str(refusal.value)


def test_weights_over_one_are_refused_since_they_would_raise_the_sensitivity():
    heavy = Candidate(attributes=("a",), estimate=np.zeros(3), weight=1.1, penalty=0.0)
    with pytest.raises(InvariantError, match="weight"):
        measurer([(0, 0, 0)]).select([heavy], mu=0.1)


def test_the_smallest_weight_is_one_step_of_the_grid():
    """With 17 attributes in marginals of 4 and one large attribute, AIM has a weight of 1/2240. A
    weight of 0 was an error after the charge."""
    light = Candidate(attributes=("a",), estimate=np.zeros(3), weight=1 / 2240, penalty=0.0)
    assert measurer([(0, 0, 0)])._score(light) == 1 / 1024


def test_an_estimate_that_is_not_a_number_is_refused():
    """Its distance would overflow int64, and one record would move the score by 2^34."""
    broken = Candidate(
        attributes=("a",), estimate=np.array([np.nan, 0, 0]), weight=1.0, penalty=0.0
    )
    for rows in ([], [(0, 0, 0)]):
        with pytest.raises(InvariantError, match="not a number"):
            measurer(rows)._score(broken)


def in_shards(rows: list[tuple[int, ...]], size: int) -> Private:
    table = np.array(rows, dtype=np.int8).reshape(-1, len(DOMAIN))
    starts = range(0, max(len(table), 1), size)
    return Private(
        Shards(
            shards=tuple(starts),
            sizes=tuple(len(table[start : start + size]) for start in starts),
            read=lambda start: table[start : start + size],
            map_shards=map_shards,
        )
    )


@settings(max_examples=60)
@given(rows_strategy, st.integers(1, 7), st.booleans())
def test_marginals_are_the_sums_of_the_marginals_of_shards(rows, size, merged):
    whole = measurer(rows)
    shards = MarginalMeasurer(in_shards(rows, size), DOMAIN, mu=1.0)
    if merged:
        for each in (whole, shards):
            each.merge("b", (0, 2, 1, 2))
    for attributes in [("a",), ("b",), ("a", "b"), ("b", "a"), ("a", "b", "c")]:
        cells = [tuple((0, 2, 1, 2)[row[1]] if merged and n == "b" else row["abc".index(n)]
                       for n in attributes) for row in rows]  # fmt: skip
        expected = np.zeros(whole.shape(attributes), dtype=np.int64)
        for cell in cells:
            expected[cell] += 1
        np.testing.assert_array_equal(whole._count(attributes), expected)
        np.testing.assert_array_equal(shards._count(attributes), expected)
    for each in (whole, shards):
        each.unmerge()
    np.testing.assert_array_equal(whole._count(("a", "b")), shards._count(("a", "b")))
    assert whole._count(("b",)).shape == (4,)


def test_cells_of_marginals_do_not_overflow_a_small_type_of_codes():
    """127 * 128 + 127 does not fit into int8."""
    codes = np.full((3, 2), 127, dtype=np.int8)
    asked = MarginalMeasurer(Private(codes), {"a": 128, "b": 128}, mu=1.0)
    assert asked._count(("a", "b"))[127, 127] == 3


def test_a_shard_with_a_code_outside_the_domain_is_refused_without_the_code():
    with pytest.raises(InvariantError, match=r"'b' has a code outside its domain$"):
        MarginalMeasurer(in_shards([(0, 1, 0)] * 9 + [(0, 7, 0)], 4), DOMAIN, mu=1.0)


def test_aim_makes_the_same_table_from_shards(monkeypatch):
    """Noise and selection depend on the answers only, so equal counts give equal rows."""

    def tables():
        rng = public_rng(3, "noise")
        monkeypatch.setattr(
            measuring,
            "discrete_gaussian",
            lambda counts, **_: counts + rng.integers(-3, 4, counts.shape),
        )
        monkeypatch.setattr(measuring, "report_noisy_max", lambda scores, **_: int(scores.argmax()))
        own = public_rng(1, "rows")
        a = own.integers(0, 3, 400)
        rows = np.stack([a, (a + own.integers(0, 2, 400)) % 4, 0 * a], axis=1)
        for table in (Private(rows), in_shards(rows.tolist(), 37)):
            asked = MarginalMeasurer(table, DOMAIN, mu=1.0)
            rng = public_rng(3, "noise")
            synthesis = aim(asked, degree=2, max_cells=100, max_model_mb=1.0)
            yield draw_rows(synthesis, public_rng(5, "draw")), synthesis.measurements

    (one, measured), (other, again) = tables()
    np.testing.assert_array_equal(one, other)
    assert [m.to_json() for m in measured] == [m.to_json() for m in again]
    assert len(measured) > 4
