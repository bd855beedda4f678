import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import sqrtm

from sugarbush.errors import InvariantError
from sugarbush.evaluation.frechet import frechet_distance
from sugarbush.evaluation.jensen_shannon import (
    MAXIMUM,
    distance_by_attribute,
    jensen_shannon_distance,
)
from sugarbush.evaluation.precision_recall import neighbour_scores
from sugarbush.evaluation.texts import length_distance, word_counts
from sugarbush.evaluation.total_variation import total_variation

COUNTS = st.lists(st.integers(0, 50), min_size=3, max_size=3).filter(lambda c: sum(c) > 0)


@given(COUNTS, COUNTS)
def test_jensen_shannon_is_the_root_of_the_divergence_in_nats(p: list[int], q: list[int]) -> None:
    a, b = np.array(p) / sum(p), np.array(q) / sum(q)
    middle = (a + b) / 2

    def kl(x: np.ndarray) -> float:
        kept = x > 0
        return float((x[kept] * np.log(x[kept] / middle[kept])).sum())

    expected = np.sqrt(max(0.0, (kl(a) + kl(b)) / 2))
    assert jensen_shannon_distance(np.array(p), np.array(q)) == pytest.approx(expected, abs=1e-7)


def test_jensen_shannon_of_disjoint_values_is_the_root_of_ln_two() -> None:
    assert jensen_shannon_distance(np.array([4, 0]), np.array([0, 1])) == pytest.approx(MAXIMUM)


def test_an_attribute_with_one_value_counts_like_any_other() -> None:
    reference, synthetic = np.zeros((5, 1), dtype=int), np.array([[0], [1]])
    distance = distance_by_attribute(reference, synthetic, domain={"a": 2})["a"]
    assert 0 < distance < MAXIMUM
    assert distance_by_attribute(reference, reference, domain={"a": 1}) == {"a": 0}


@pytest.mark.parametrize("p", [[0, 0], [-1, 5], [1, 2, 3]])
def test_what_is_no_histogram_is_refused(p: list[int]) -> None:
    with pytest.raises(InvariantError):
        jensen_shannon_distance(np.array(p), np.array([1, 1]))


@given(st.integers(0, 1000), st.integers(1, 3), st.sampled_from([4, 300]))
def test_total_variation_equals_half_the_l1_distance_of_full_tables(
    seed: int, ways: int, largest: int
) -> None:
    rng = np.random.default_rng(seed)
    domain = {"a": 2, "b": 3, "c": largest}
    p, q = (np.stack([rng.integers(0, k, 9) for k in domain.values()], axis=1) for _ in "pq")
    distances = []
    for chosen in [s for s in np.ndindex(2, 2, 2) if sum(s) == ways]:
        columns = np.flatnonzero(chosen)
        sizes = [list(domain.values())[c] for c in columns]
        edges = [np.arange(k + 1) - 0.5 for k in sizes]
        tables = [np.histogramdd(t[:, columns], bins=edges)[0] / 9 for t in (p, q)]
        distances.append(np.abs(tables[0] - tables[1]).sum() / 2)
    assert total_variation(p, q, domain=domain, ways=ways) == pytest.approx(np.mean(distances))


def test_total_variation_of_an_empty_table_is_refused() -> None:
    with pytest.raises(InvariantError):
        total_variation(np.zeros((0, 1), int), np.zeros((1, 1), int), domain={"a": 1}, ways=1)


def test_frechet_agrees_with_the_formula_by_the_matrix_root() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(50, 6)), 1.3 * rng.normal(size=(40, 6)) + 0.2
    cov_a, cov_b = np.cov(a, rowvar=False), np.cov(b, rowvar=False)
    expected = ((a.mean(0) - b.mean(0)) ** 2).sum() + np.trace(
        cov_a + cov_b - 2 * sqrtm(cov_a @ cov_b).real
    )
    assert frechet_distance(a, b) == pytest.approx(expected, rel=1e-6)


def test_frechet_of_a_set_with_itself_is_zero_also_below_full_rank() -> None:
    few = np.random.default_rng(2).normal(size=(5, 30))
    assert frechet_distance(few, few) == pytest.approx(0, abs=1e-6)


def test_frechet_of_a_shift_is_its_squared_length() -> None:
    points = np.random.default_rng(3).normal(size=(40, 3))
    assert frechet_distance(points, points + np.array([3.0, 0, 0])) == pytest.approx(9)


def test_frechet_of_a_single_text_is_refused() -> None:
    with pytest.raises(InvariantError, match="two rows"):
        frechet_distance(np.ones((1, 3)), np.ones((4, 3)))


def test_neighbour_scores_tell_missing_modes_from_wrong_ones() -> None:
    rng = np.random.default_rng(4)
    here, there = rng.normal(size=(80, 2)), rng.normal(size=(80, 2)) + 100
    both = np.concatenate([here, there])
    dropped = neighbour_scores(both, here + 0.01)
    assert dropped.precision.mean() > 0.9 and dropped.recall.mean() < 0.6
    assert dropped.coverage.mean() < 0.6
    invented = neighbour_scores(here, both + 0.01)
    assert invented.precision.mean() < 0.6 and invented.recall.mean() > 0.9


def test_a_sample_against_itself_has_full_scores() -> None:
    points = np.random.default_rng(5).normal(size=(60, 3))
    scores = neighbour_scores(points, points)
    assert scores.precision.all() and scores.recall.all() and scores.coverage.all()


def test_points_that_coincide_are_within_each_others_ball() -> None:
    scores = neighbour_scores(np.zeros((10, 2)), np.zeros((8, 2)))
    assert scores.precision.all() and scores.coverage.all()


def test_balls_need_more_points_than_neighbours() -> None:
    with pytest.raises(InvariantError, match="more than 5 points"):
        neighbour_scores(np.ones((5, 2)), np.ones((50, 2)))


def test_length_distance_is_in_words() -> None:
    assert word_counts(["", "one two", " a\tb\nc "]).tolist() == [0, 2, 3]
    assert length_distance(np.array([10, 20]), np.array([13, 23])) == pytest.approx(3)
    with pytest.raises(InvariantError):
        length_distance(np.array([]), np.array([1]))
