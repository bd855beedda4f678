"""Compares nearest candidates with a slow and simple search, also where float32 would be wrong."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from sugarbush.embedding import nearest as search
from sugarbush.embedding.nearest import Search, nearest, nearest_few, within_label
from sugarbush.errors import InvariantError
from sugarbush.randomness import public_rng

Vectors = NDArray[np.float32]


def unit_vectors(n: int, *, dim: int = 24, seed: int = 0) -> Vectors:
    vectors = public_rng(seed, "vectors", n).standard_normal((n, dim), dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def crowded(n: int, *, seed: int = 0) -> Vectors:
    """Return vectors that differ from one of three vectors only by a few float32 roundings.

    So nearly all distances are tied.
    """
    rng = public_rng(seed, "crowded", n)
    vectors = unit_vectors(3)[rng.integers(0, 3, n)]
    steps = rng.integers(-1, 2, vectors.shape).astype(np.float32)
    return (vectors * (1 + steps * np.float32(1.2e-7))).astype(np.float32)


def few(count: int) -> Search:
    return lambda queries, candidates: nearest_few(queries, candidates, count=count)


def slow_nearest(queries: Vectors, candidates: Vectors) -> NDArray[np.int64]:
    return squared_distances(queries, candidates).argmin(axis=1)


def slow_nearest_few(queries: Vectors, candidates: Vectors, *, count: int) -> NDArray[np.int64]:
    """Sort the first copy of each candidate by distance, then by index. -1: no candidate is left"""
    first = sorted({row.tobytes(): i for i, row in reversed([*enumerate(candidates)])}.values())
    found = np.full((len(queries), count), -1, dtype=np.int64)
    for row, distances in zip(found, squared_distances(queries, candidates), strict=True):
        nearest_first = sorted(first, key=lambda i: (distances[i], i))[:count]
        row[: len(nearest_first)] = nearest_first
    return found


def squared_distances(queries: Vectors, candidates: Vectors) -> NDArray[np.float64]:
    difference = queries[:, None].astype(np.float64) - candidates[None].astype(np.float64)
    return np.asarray((difference**2).sum(axis=2))


def test_it_agrees_with_the_obvious_version() -> None:
    queries, candidates = unit_vectors(500), 3 * unit_vectors(40, seed=1)
    assert np.array_equal(nearest(queries, candidates), slow_nearest(queries, candidates))


def test_near_ties_are_decided_as_in_double_precision() -> None:
    queries, candidates = crowded(400), crowded(60, seed=1)
    expected = slow_nearest(queries, candidates)
    float32 = (queries @ candidates.T - (candidates**2).sum(axis=1) / 2).argmax(axis=1)
    assert (float32 != expected).any(), "too easy: plain float32 gets it right"
    assert np.array_equal(nearest(queries, candidates), expected)


@pytest.mark.parametrize("count", [1, 2, 3, 10, 59, 60, 70])
def test_near_ties_of_the_nearest_few_are_decided_as_in_double_precision(count: int) -> None:
    queries, candidates = crowded(400), crowded(60, seed=1)
    expected = slow_nearest_few(queries, candidates, count=count)
    if count < 20:
        scores = queries @ candidates.T - (candidates**2).sum(axis=1) / 2
        float32 = np.argsort(-scores, axis=1, kind="stable")[:, :count]
        assert (float32 != expected).any(), "too easy: plain float32 gets it right"
    assert np.array_equal(nearest_few(queries, candidates, count=count), expected)


def test_the_nearest_few_do_not_depend_on_the_other_records() -> None:
    queries, candidates = crowded(300), crowded(50, seed=1)
    together = nearest_few(queries, candidates, count=5)
    alone = [nearest_few(queries[i : i + 1], candidates, count=5)[0] for i in range(len(queries))]
    assert np.array_equal(together, alone)
    order = public_rng(0, "order").permutation(len(queries))
    assert np.array_equal(nearest_few(queries[order], candidates, count=5), together[order])


def test_a_copy_is_not_among_the_nearest_few_and_missing_ones_are_marked() -> None:
    candidates = unit_vectors(4)[[0, 1, 0, 2, 1, 3]]
    found = nearest_few(unit_vectors(50, seed=1), candidates, count=6)
    assert {tuple(sorted(row)) for row in found.tolist()} == {(-1, -1, 0, 1, 3, 5)}
    assert (found[:, 4:] == -1).all()


def test_exact_ties_of_the_nearest_few_go_to_the_lowest_indices() -> None:
    candidates = np.array([[9, 9], [0, 1], [1, 0], [0, -1], [-1, 0]], dtype=np.float32)
    query = np.zeros((1, 2), dtype=np.float32)
    assert nearest_few(query, candidates, count=3).tolist() == [[1, 2, 3]]


def test_a_vote_does_not_depend_on_the_other_records() -> None:
    queries, candidates = crowded(300), crowded(50, seed=1)
    together = nearest(queries, candidates)
    alone = [nearest(queries[i : i + 1], candidates)[0] for i in range(len(queries))]
    assert np.array_equal(together, alone)
    order = public_rng(0, "order").permutation(len(queries))
    assert np.array_equal(nearest(queries[order], candidates), together[order])


def test_the_size_of_blocks_and_the_number_of_threads_change_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queries, candidates = crowded(300), crowded(50, seed=1)
    expected, few = nearest(queries, candidates), nearest_few(queries, candidates, count=4)

    def assert_equal_results() -> None:
        assert np.array_equal(nearest(queries, candidates), expected)
        assert np.array_equal(nearest_few(queries, candidates, count=4), few)

    monkeypatch.setattr(search, "thread_count", lambda: 5)
    assert_equal_results()
    monkeypatch.setattr(search, "_MAX_BLOCK_ROWS", 7)
    assert_equal_results()
    monkeypatch.setattr(search, "_SCORE_BYTES", 1)
    assert_equal_results()


def test_of_equal_candidates_the_first_gets_every_vote() -> None:
    candidates = unit_vectors(20)
    candidates[[5, 11, 19]] = candidates[3]
    queries = np.repeat(candidates[3:4], 100, axis=0)
    assert (nearest(queries, candidates) == 3).all()


def test_an_exact_tie_of_different_candidates_goes_to_the_lowest_index() -> None:
    candidates = np.array([[9, 9], [0, 1], [1, 0], [0, -1]], dtype=np.float32)
    assert nearest(np.zeros((1, 2), dtype=np.float32), candidates)[0] == 1


def test_one_candidate_gets_every_vote() -> None:
    assert (nearest(unit_vectors(30), unit_vectors(1)) == 0).all()


def test_without_records_there_are_no_votes() -> None:
    assert nearest(unit_vectors(0), unit_vectors(3)).shape == (0,)
    assert nearest_few(unit_vectors(0), unit_vectors(3), count=2).shape == (0, 2)


@settings(max_examples=150)
@given(st.data())
def test_any_finite_vectors_are_voted_on_exactly(data: st.DataObject) -> None:
    numbers = st.floats(-1e6, 1e6, width=32)
    dim = data.draw(st.integers(1, 5))
    queries = data.draw(arrays(np.float32, (data.draw(st.integers(1, 6)), dim), elements=numbers))
    candidates = data.draw(
        arrays(np.float32, (data.draw(st.integers(1, 6)), dim), elements=numbers)
    )
    chosen = nearest(queries, candidates)
    # If float64 rounds two distances to the same number, either candidate is correct.
    distances = squared_distances(queries, candidates)
    assert np.array_equal(distances[np.arange(len(queries)), chosen], distances.min(axis=1))
    count = data.draw(st.integers(1, 7))
    few = nearest_few(queries, candidates, count=count)
    expected = slow_nearest_few(queries, candidates, count=count)
    assert np.array_equal(few < 0, expected < 0)
    ranked = np.take_along_axis(distances, expected, axis=1)
    assert np.array_equal(np.take_along_axis(distances, few, axis=1), ranked)


def test_no_candidate_is_refused() -> None:
    with pytest.raises(InvariantError, match="no candidate"):
        nearest(unit_vectors(5), unit_vectors(0))
    with pytest.raises(InvariantError, match="no candidate"):
        nearest_few(unit_vectors(5), unit_vectors(0), count=2)
    with pytest.raises(InvariantError, match="no candidate"):
        within_label(
            unit_vectors(5), unit_vectors(0), search=few(2),
            query_labels=np.zeros(5, dtype=np.int64), candidate_labels=np.zeros(0, dtype=np.int64),
        )  # fmt: skip


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38])
@pytest.mark.parametrize("side", ["queries", "candidates"])
@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_what_is_not_finite_is_refused_without_being_shown(side: str, value: float) -> None:
    vectors = {"queries": unit_vectors(5), "candidates": unit_vectors(3)}
    vectors[side][2, 1] = value
    for find in (nearest, few(2)):
        with pytest.raises(InvariantError) as fault:
            find(vectors["queries"], vectors["candidates"])
        assert str(fault.value) == "an embedding is not finite, or too large for float32"


def test_vectors_of_other_shapes_or_types_are_refused() -> None:
    for find in (nearest, few(2)):
        with pytest.raises(InvariantError, match="same d"):
            find(unit_vectors(5), unit_vectors(3, dim=8))
        with pytest.raises(InvariantError, match="float32"):
            find(unit_vectors(5).astype(np.float64), unit_vectors(3))  # type: ignore[arg-type]


def test_the_inputs_stay_as_they_are() -> None:
    queries, candidates = unit_vectors(50), unit_vectors(10)
    before = queries.copy(), candidates.copy()
    nearest(queries, candidates)
    nearest_few(queries, candidates, count=3)
    assert np.array_equal(queries, before[0])
    assert np.array_equal(candidates, before[1])


@pytest.mark.parametrize("count", [1, 4, 30])
def test_within_a_label_each_record_votes_for_its_own(count: int) -> None:
    """A label has about 10 candidates, so 30 votes are more than it has."""
    rng = public_rng(0, "labels")
    queries, candidates = unit_vectors(400), unit_vectors(60, seed=1)
    mine, theirs = rng.integers(-3, 3, 400), rng.integers(-3, 3, 60)
    voted = within_label(
        queries, candidates, search=few(count), query_labels=mine, candidate_labels=theirs
    )
    assert voted.shape == (400, count)
    for i in range(len(queries)):
        eligible = np.flatnonzero(theirs == mine[i])
        (slow,) = slow_nearest_few(queries[i : i + 1], candidates[eligible], count=count)
        expected = [eligible[j] if j >= 0 else -1 for j in slow]
        assert voted[i].tolist() == expected


@pytest.mark.parametrize("count", [1, 3, 12])
def test_a_record_with_a_label_without_candidates_votes_among_all(count: int) -> None:
    queries, candidates = unit_vectors(40), unit_vectors(9, seed=1)
    labels = np.zeros(40, dtype=np.int64)
    labels[::2] = 7
    voted = within_label(
        queries,
        candidates,
        search=few(count),
        query_labels=labels,
        candidate_labels=np.zeros(9, dtype=np.int64),
    )
    assert np.array_equal(voted, nearest_few(queries, candidates, count=count))


def test_labels_of_another_number_are_refused() -> None:
    with pytest.raises(InvariantError, match="one label"):
        within_label(
            unit_vectors(5), unit_vectors(3), search=few(1),
            query_labels=np.zeros(4, dtype=np.int64), candidate_labels=np.zeros(3, dtype=np.int64),
        )  # fmt: skip
