import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps

from sugarbush.generators.examples import choose_examples, draw_example_sets, nearest_sets
from sugarbush.randomness import public_rng

DONATED = np.array([[0, 0, 0], [0, 0, 1], [0, 1, 1], [1, 1, 1], [0, 0, 0]])


def test_the_nearest_by_hamming_distance_come_first() -> None:
    target = np.array([1, 1, 1])
    places = choose_examples(target, DONATED, k=3, rng=public_rng(1))
    assert places.tolist() == [3, 2, 1]
    assert places.dtype == np.int64


def test_ties_are_broken_by_the_seed_and_not_by_the_order_in_the_file() -> None:
    target = np.zeros(3, dtype=np.int64)
    first = [int(choose_examples(target, DONATED, k=1, rng=public_rng(s))[0]) for s in range(400)]
    assert set(first) == {0, 4}
    # Binomial(400, 1/2) is outside of 150 to 250 with probability under 1e-6.
    assert 150 <= first.count(0) <= 250


def test_equal_seeds_choose_equal_examples() -> None:
    target = np.zeros((7, 3), dtype=np.int64)
    one = choose_examples(target, DONATED, k=2, rng=public_rng(5))
    assert (one == choose_examples(target, DONATED, k=2, rng=public_rng(5))).all()


def test_ties_are_broken_anew_for_each_target() -> None:
    targets = np.zeros((200, 3), dtype=np.int64)
    places = choose_examples(targets, DONATED, k=1, rng=public_rng(1))
    assert set(places[:, 0].tolist()) == {0, 4}


def test_with_fewer_donated_examples_than_wanted_all_are_shown() -> None:
    places = choose_examples(np.zeros((2, 3)), DONATED, k=10, rng=public_rng(1))
    assert places.shape == (2, 5)
    assert (np.sort(places, axis=1) == np.arange(5)).all()


def test_no_examples_may_be_asked_for() -> None:
    assert choose_examples(np.zeros((2, 3)), DONATED, k=0, rng=public_rng(1)).shape == (2, 0)
    assert choose_examples(np.zeros((2, 3)), DONATED[:0], k=3, rng=public_rng(1)).shape == (2, 0)


def test_an_open_attribute_makes_no_difference_between_examples() -> None:
    target = np.array([-1, -1, 1])
    places = choose_examples(target, DONATED, k=3, rng=public_rng(1))
    assert sorted(places.tolist()) == [1, 2, 3]


def rows(fewest: int, most: int, *, lowest: int = 0) -> st.SearchStrategy[np.ndarray]:
    shapes = st.tuples(st.integers(fewest, most), st.just(4))
    return nps.arrays(np.int64, shapes, elements=st.integers(lowest, 2))


@given(donated=rows(1, 30), targets=rows(1, 5, lowest=-1), k=st.integers(0, 35))
def test_nobody_left_out_is_nearer_than_anybody_chosen(
    donated: np.ndarray, targets: np.ndarray, k: int
) -> None:
    chosen = choose_examples(targets, donated, k=k, rng=public_rng(3))
    for target, places in zip(targets, chosen, strict=True):
        distances = [sum(a != b for a, b in zip(target, row, strict=True)) for row in donated]
        near = [distances[i] for i in places]
        assert near == sorted(distances)[:k]
        assert len(set(places.tolist())) == len(places)


def test_many_targets_are_chosen_for_as_one_by_one() -> None:
    rng = np.random.default_rng(1)
    targets, donated = rng.integers(0, 3, (2500, 4)), rng.integers(0, 3, (20, 4))
    chosen = choose_examples(targets, donated, k=5, rng=public_rng(1))
    for i in (0, 1023, 1024, 2499):
        near = (targets[i] != donated[chosen[i]]).sum(axis=1)
        assert near.tolist() == sorted((targets[i] != donated).sum(axis=1).tolist())[:5]


def test_a_set_is_a_donated_text_and_those_nearest_to_it() -> None:
    sets = draw_example_sets(DONATED, k=3, rng=public_rng(1), count=5)
    assert sorted(sets[:, 0].tolist()) == list(range(5)), "each text begins a set before any again"
    for chosen in sets:
        distances = (DONATED[chosen[0]] != DONATED).sum(axis=1)
        assert distances[chosen].tolist() == sorted(distances.tolist())[:3]
        assert len(set(chosen.tolist())) == 3


@given(donated=rows(1, 30), k=st.integers(0, 35), count=st.integers(1, 70))
def test_sets_use_donated_texts_evenly(donated: np.ndarray, k: int, count: int) -> None:
    sets = draw_example_sets(donated, k=k, rng=public_rng(3), count=count)
    assert sets.shape == (count, min(k, len(donated)))
    assert (sets == draw_example_sets(donated, k=k, rng=public_rng(3), count=count)).all()
    if k:
        times = np.bincount(sets[:, 0], minlength=len(donated))
        assert times.max() - times.min() <= 1
    assert all(len(set(chosen)) == len(chosen) for chosen in sets.tolist())


@given(donated=rows(1, 20), targets=rows(1, 6, lowest=-1), k=st.integers(1, 25))
def test_a_target_gets_a_set_with_the_least_distance(
    donated: np.ndarray, targets: np.ndarray, k: int
) -> None:
    sets = draw_example_sets(donated, k=k, rng=public_rng(3), count=7)
    for target, number in zip(
        targets, nearest_sets(targets, donated, sets, rng=public_rng(4)), strict=True
    ):
        sums = [(donated[chosen] != target).sum() for chosen in sets]
        assert sums[number] == min(sums)


def test_equally_near_sets_are_all_used() -> None:
    donated = np.zeros((20, 2), dtype=np.int64)
    sets = draw_example_sets(donated, k=2, rng=public_rng(1), count=4)
    targets = np.full((2000, 2), -1)
    used = np.bincount(nearest_sets(targets, donated, sets, rng=public_rng(2)), minlength=4)
    assert used.min() > 400


def test_the_first_targets_do_not_depend_on_further_ones() -> None:
    """Further requests of a run repeat the first requests, which have cached answers."""
    rng = np.random.default_rng(1)
    targets, donated = rng.integers(0, 3, (2500, 4)), rng.integers(0, 3, (20, 4))
    sets = draw_example_sets(donated, count=9, k=5, rng=public_rng(1))
    every = nearest_sets(targets, donated, sets, rng=public_rng(2))
    assert (nearest_sets(targets[:1500], donated, sets, rng=public_rng(2)) == every[:1500]).all()
