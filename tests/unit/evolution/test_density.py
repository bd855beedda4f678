"""A final set by the density of the votes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sugarbush.errors import InvariantError
from sugarbush.evolution.density import select_by_density
from sugarbush.evolution.selection import select_by_rank
from sugarbush.randomness import public_rng


def in_clusters(clusters: int, each: int, *, seed: int = 1) -> NDArray[np.float32]:
    """`each` points around each of `clusters` centres that are far from one another."""
    rng = public_rng(seed, "clusters")
    centres = np.repeat(10 * np.eye(clusters, dtype=np.float32), each, axis=0)
    return centres + 0.1 * rng.standard_normal(centres.shape, dtype=np.float32)


def shares(places: NDArray[np.int64], each: int, clusters: int) -> NDArray[np.float64]:
    return np.bincount(places // each, minlength=clusters) / len(places)


def test_a_cluster_has_seats_by_its_votes() -> None:
    votes = np.repeat([30, 10, 0, 0], 16)
    chosen = select_by_density(votes, in_clusters(4, 16), count=16, rng=public_rng(1))
    assert shares(chosen, 16, 4).tolist() == [0.75, 0.25, 0, 0]


def test_what_a_cluster_cannot_fill_goes_to_the_best_that_are_left() -> None:
    votes = np.concatenate([np.full(16, 100), np.arange(16)])
    chosen = select_by_density(votes, in_clusters(2, 16), count=20, rng=public_rng(1))
    assert set(range(16)) < set(chosen.tolist())
    assert {31, 30} <= set(chosen.tolist())


@pytest.mark.parametrize("noise", [0.3, 1.0])
def test_it_is_nearer_to_the_density_than_the_best_ones_are(noise: float) -> None:
    """One vote per candidate and 40 seeds: with little noise, selection by rank takes only the
    densest cluster."""
    truth = np.array([0.4, 0.3, 0.2, 0.1])
    expected = np.repeat(truth / 32 * 128, 32)
    embeddings = in_clusters(4, 32)
    errors: dict[str, list[float]] = {"density": [], "rank": []}
    for seed in range(40):
        rng = public_rng(seed, "votes")
        votes = np.round(10 * (expected + rng.normal(0, noise, size=128))).astype(np.int64)
        found = {
            "density": select_by_density(votes, embeddings, count=40, rng=rng),
            "rank": select_by_rank(votes, count=40, rng=rng),
        }
        for name, places in found.items():
            errors[name].append(np.abs(shares(places, 32, 4) - truth).sum() / 2)
    assert np.mean(errors["density"]) < 0.8 * np.mean(errors["rank"])


@settings(max_examples=40, deadline=None)
@given(
    votes=st.lists(st.integers(-50, 50), min_size=1, max_size=70),
    share=st.floats(0, 1),
    alike=st.booleans(),
)
def test_any_votes_give_as_many_different_places(
    votes: list[int], share: float, alike: bool
) -> None:
    count = round(share * len(votes))
    rng = public_rng(len(votes), "points")
    points = rng.standard_normal((len(votes), 3), dtype=np.float32) * (not alike)
    chosen = select_by_density(np.array(votes), points, count=count, rng=public_rng(1))
    again = select_by_density(np.array(votes), points, count=count, rng=public_rng(1))
    assert len(set(chosen.tolist())) == len(chosen) == count
    assert all(0 <= place < len(votes) for place in chosen)
    assert chosen.tolist() == again.tolist()


def test_more_than_there_are_is_refused() -> None:
    with pytest.raises(InvariantError):
        select_by_density(np.zeros(3), np.zeros((3, 2), np.float32), count=4, rng=public_rng(1))
