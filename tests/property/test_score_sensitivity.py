"""One record more or less moves the sums of scores by RESOLUTION at most, whatever the vectors."""

from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sugarbush.errors import InvariantError
from sugarbush.evolution.scores import RESOLUTION, scores_of
from sugarbush.privacy import mechanisms
from sugarbush.privacy.events import DiscreteGaussian, NonPrivate
from sugarbush.privacy.kinds import Private
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.mechanisms import exact_sum, noisy_sum
from sugarbush.randomness import public_rng
from tests.property.test_histogram import a_ledger
from tests.property.test_vote_sensitivity import corpus


def unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def sums_behind(
    records: NDArray[np.float32], candidates: NDArray[np.float32], width: float
) -> NDArray[np.int64]:
    """What the mechanism would have summed, with the noise taken out and nothing charged."""
    ledger = mock.create_autospec(Ledger, instance=True)
    ledger.charge.return_value = "id"
    with mock.patch.object(mechanisms, "discrete_gaussian", lambda sums, **_: sums):
        return noisy_sum(
            Private(records), scores=lambda rows: scores_of(rows, candidates, width=width),
            size=len(candidates), norm=RESOLUTION, stddev=1.0, ledger=ledger, stage="s", run="r",
        ).value  # fmt: skip


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10**6), n=st.integers(1, 60), m=st.integers(1, 40),
    which=st.integers(0, 59), width=st.sampled_from([0.005, 0.2, 3.0]),
)  # fmt: skip
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


def test_a_narrow_kernel_is_a_vote_for_the_nearest() -> None:
    candidates = unit(corpus(3, 20, 20))
    scores = scores_of(candidates[:5], candidates, width=0.005)
    assert scores.argmax(axis=1).tolist() == [0, 1, 2, 3, 4]


def test_scores_longer_than_their_bound_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvariantError, match="longer than their bound"):
        noisy_sum(
            Private(np.ones((3, 2), dtype=np.float32)), size=2, norm=4, stddev=9.0,
            scores=lambda rows: np.full((len(rows), 2), 3), ledger=a_ledger(tmp_path),
            stage="s", run="r",
        )  # fmt: skip


def test_scores_are_charged_before_noise_is_drawn_and_for_every_record_of_a_person(
    tmp_path: Path,
) -> None:
    ledger = a_ledger(tmp_path)
    paid = DiscreteGaussian(stddev=50.0, sensitivity=12)

    def die(*_: object, **__: object) -> None:
        assert [entry.event for entry in a_ledger(tmp_path).entries()] == [paid]
        raise KeyboardInterrupt

    with (
        mock.patch.object(mechanisms, "discrete_gaussian", die),
        pytest.raises(KeyboardInterrupt),
    ):
        noisy_sum(
            Private(np.ones((3, 2), dtype=np.float32)), size=2, norm=4, stddev=50.0,
            scores=lambda rows: np.full((len(rows), 2), 2), ledger=ledger, stage="s", run="r",
            records_per_unit=3,
        )  # fmt: skip


def test_exact_sums_have_no_guarantee_and_say_so(tmp_path: Path) -> None:
    ledger = a_ledger(tmp_path, cap=float("inf"))
    found = exact_sum(
        Private(np.ones((3, 2), dtype=np.float32)), size=2, norm=4, ledger=ledger,
        scores=lambda rows: np.full((len(rows), 2), 2), stage="s", run="r",
    )  # fmt: skip
    assert found.value.tolist() == [6, 6]
    assert [entry.event for entry in ledger.entries()] == [NonPrivate()]
