import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps

from sugarbush.generators.examples import choose_examples
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
