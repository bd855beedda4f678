"""Tests that adding a record changes one bin of the exact votes, by one, for any vectors.

Votes for the nearest few change several bins, together by at most one vote in L2 norm.
"""

from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sugarbush.embedding.nearest import nearest, within_label
from sugarbush.errors import InvariantError
from sugarbush.evolution.kernel_scores import RESOLUTION
from sugarbush.evolution.parts import Candidates, Records
from sugarbush.evolution.scorers import NearestVotes
from sugarbush.privacy import mechanisms
from sugarbush.privacy.data_types import Private
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.unit import Unit
from sugarbush.randomness import public_rng
from tests.property.test_histogram import a_ledger, session_of

DIM = 16


def corpus(seed: int, n: int, kinds: int) -> NDArray[np.float32]:
    """Return n vectors near `kinds` centres.

    Some vectors are equal, some differ only by rounding, and some differ more.
    """
    rng = public_rng(seed, "corpus", n)
    centres = public_rng(seed, "centres").standard_normal((kinds, DIM), dtype=np.float32)
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    vectors = centres[rng.integers(0, kinds, n)]
    spread = rng.choice(np.array([0, 1e-7, 1e-7, 0.3], dtype=np.float32), (n, 1))
    return vectors + spread * rng.standard_normal(vectors.shape, dtype=np.float32)


def histogram(records: NDArray[np.float32], candidates: NDArray[np.float32]) -> NDArray[np.int64]:
    bins = Private(records).map_batch(lambda rows: nearest(rows, candidates))
    return np.bincount(np.asarray(bins._per_unit), minlength=len(candidates))


@settings(max_examples=100)
@given(
    seed=st.integers(0, 10**6), n=st.integers(1, 60), m=st.integers(1, 40),
    kinds=st.integers(1, 4), which=st.integers(0, 59),
)  # fmt: skip
def test_removing_one_record_takes_one_vote_from_one_candidate(
    seed: int, n: int, m: int, kinds: int, which: int
) -> None:
    records, candidates = corpus(seed, n, kinds), corpus(seed, m, kinds)
    less = np.delete(records, which % n, axis=0)
    difference = histogram(records, candidates) - histogram(less, candidates)
    assert sorted(difference.tolist()) == [0] * (m - 1) + [1]


@settings(max_examples=50)
@given(
    seed=st.integers(0, 10**6), n=st.integers(1, 40), m=st.integers(1, 30),
    labels=st.integers(1, 5), which=st.integers(0, 39),
)  # fmt: skip
def test_so_it_does_over_all_labels_together(
    seed: int, n: int, m: int, labels: int, which: int
) -> None:
    rng = public_rng(seed, "labels")
    records, candidates = corpus(seed, n, 2), corpus(seed, m, 2)
    mine, theirs = rng.integers(0, labels + 1, n), rng.integers(0, labels, m)

    def counted(keep: NDArray[np.int64]) -> NDArray[np.int64]:
        voted = within_label(
            records[keep], candidates, query_labels=mine[keep], candidate_labels=theirs,
            search=lambda queries, among: nearest(queries, among)[:, None],
        )  # fmt: skip
        return np.bincount(voted[:, 0], minlength=m)

    everyone = np.arange(n)
    difference = counted(everyone) - counted(np.delete(everyone, which % n))
    assert sorted(difference.tolist()) == [0] * (m - 1) + [1]


@pytest.mark.parametrize("m", [1, 2, 50])
def test_with_all_texts_identical_one_candidate_holds_every_vote(m: int) -> None:
    records = np.repeat(corpus(0, 1, 1), 33, axis=0)
    candidates = np.repeat(corpus(1, 1, 1), m, axis=0)
    assert histogram(records, candidates).tolist() == [33] + [0] * (m - 1)


@st.composite
def votings(draw: st.DrawFn) -> tuple[Records, Candidates, NearestVotes]:
    """Records, candidates with copies and near ties, and votes for 1 to 100 candidates.

    Some labels of records have few candidates or none.
    """
    seed, kinds = draw(st.integers(0, 10**6)), draw(st.integers(1, 4))
    n, m = draw(st.integers(1, 30)), draw(st.integers(1, 60))
    labels = draw(st.integers(1, 5))
    rng = public_rng(seed, "labels of few")
    mine, theirs = rng.integers(0, labels + 1, n), rng.integers(0, labels, m)
    embeddings = corpus(seed, m, kinds)
    copies = rng.integers(0, m, draw(st.integers(0, m)))
    embeddings[copies] = embeddings[rng.permutation(copies)]
    votes = draw(st.integers(1, 100) | st.integers(1, 8))
    scorer = NearestVotes(votes=votes, by_label=draw(st.booleans()))
    records = Records(corpus(seed, n, kinds), mine[:, None], mine)
    return records, Candidates(embeddings, theirs[:, None], theirs), scorer


def rows_of(scorer: NearestVotes, records: Records, candidates: Candidates) -> NDArray[np.int64]:
    blocks = [np.array(block) for block in scorer.scores(candidates)(records)]
    return np.concatenate([np.empty((0, len(candidates)), dtype=np.int64), *blocks])


@pytest.mark.slow
@settings(max_examples=150)
@given(voting=votings(), data=st.data())
def test_the_votes_of_a_record_depend_on_this_record_alone(
    voting: tuple[Records, Candidates, NearestVotes], data: st.DataObject
) -> None:
    records, candidates, scorer = voting
    together = rows_of(scorer, records, candidates)
    order = np.array(data.draw(st.permutations(range(len(records)))), dtype=np.int64)
    batch = order[: data.draw(st.integers(0, len(order)))]
    assert np.array_equal(rows_of(scorer, records[batch], candidates), together[batch])
    for i in range(len(records)):
        alone = rows_of(scorer, records[np.array([i])], candidates)
        assert np.array_equal(alone[0], together[i])


@settings(max_examples=150)
@given(voting=votings())
def test_the_votes_of_a_record_are_at_most_one_vote_in_l2(
    voting: tuple[Records, Candidates, NearestVotes],
) -> None:
    records, candidates, scorer = voting
    rows = rows_of(scorer, records, candidates).astype(object)  # exact squares
    part = 1 if scorer.votes == 1 else int(RESOLUTION / scorer.votes**0.5)
    for row, label in zip(rows, records.labels, strict=True):
        eligible = candidates.embeddings[candidates.labels == label]
        if not scorer.by_label or not len(eligible):
            eligible = candidates.embeddings
        distinct = len({vector.tobytes() for vector in eligible})
        assert sorted(row[row > 0]) == [part] * min(scorer.votes, distinct)
        assert sum(row * row) <= scorer.unit**2


@pytest.mark.parametrize("votes", [*range(1, 101), 4095, RESOLUTION])
def test_parts_of_a_vote_use_nearly_the_whole_norm(votes: int) -> None:
    """With half the norm, all noise would count twice. The norm is at most 1 vote, in integers."""
    records = Records.without_codes(corpus(1, 1, 1))
    embeddings = np.random.default_rng(1).standard_normal((votes, DIM)).astype(np.float32)
    candidates = Candidates(embeddings, np.empty((votes, 0), dtype=np.int64), np.zeros(votes, int))
    scorer = NearestVotes(votes=votes)
    (row,) = rows_of(scorer, records, candidates).tolist()
    assert len(set(row)) == 1 and len(row) == votes
    norm = sum(number**2 for number in row)
    assert (1 - 2 * votes**0.5 / RESOLUTION) * scorer.unit**2 < norm <= scorer.unit**2


@pytest.mark.parametrize("votes", [0, -1, RESOLUTION + 1])
def test_no_vote_and_parts_of_less_than_one_step_are_refused(votes: int) -> None:
    with pytest.raises(InvariantError, match="votes for 1 to 4096"):
        NearestVotes(votes=votes)


def total_of(
    scorer: NearestVotes,
    records: Private[Records],
    candidates: Candidates,
    records_per_unit: int = 1,
) -> NDArray[np.int64]:
    """Return the sum behind the noise, without a charge."""
    ledger = mock.create_autospec(Ledger, instance=True)
    ledger.charge.return_value = "id"
    session = session_of(ledger, records_per_unit=records_per_unit)
    with mock.patch.object(mechanisms, "discrete_gaussian", lambda sums, **_: sums):
        return scorer.total(records, candidates, stddev=9.0 * scorer.unit, session=session).value


@pytest.mark.slow
@settings(max_examples=60)
@given(voting=votings())
def test_the_total_is_the_sum_of_the_votes_of_all_records(
    voting: tuple[Records, Candidates, NearestVotes],
) -> None:
    """One vote is counted as a histogram. It must be the same mechanism as the sum."""
    records, candidates, scorer = voting
    expected = rows_of(scorer, records, candidates).sum(axis=0)
    assert total_of(scorer, Private(records), candidates).tolist() == expected.tolist()


@pytest.mark.slow
@settings(max_examples=25)
@given(voting=votings(), owners=st.lists(st.integers(0, 4), min_size=30, max_size=30))
def test_a_user_moves_the_total_by_at_most_one_vote_for_each_record(
    voting: tuple[Records, Candidates, NearestVotes], owners: list[int]
) -> None:
    records, candidates, scorer = voting
    users = np.array(owners[: len(records)])
    everybody = total_of(scorer, Private(records), candidates)
    for user in set(users.tolist()):
        without = records[np.flatnonzero(users != user)]
        moved = everybody - total_of(scorer, Private(without), candidates)
        assert np.linalg.norm(moved) <= scorer.unit * (users == user).sum()


@pytest.mark.parametrize("votes", [1, 5])
def test_the_total_is_charged_for_all_records_of_a_user(tmp_path: Path, votes: int) -> None:
    records = Records.without_codes(corpus(1, 20, 3))
    embeddings = corpus(2, 9, 3)
    candidates = Candidates(embeddings, np.empty((9, 0), dtype=np.int64), np.zeros(9, int))
    scorer, ledger = NearestVotes(votes=votes), a_ledger(tmp_path, unit=Unit.USER)
    stddev, noise = 50.0 * scorer.unit, []

    def noted(sums: NDArray[np.int64], *, stddev: float, sensitivity: float) -> NDArray[np.int64]:
        noise.append((stddev, sensitivity))
        return sums

    with mock.patch.object(mechanisms, "discrete_gaussian", noted):
        scorer.total(
            Private(records), candidates, stddev=stddev,
            session=session_of(ledger, records_per_unit=3),
        )  # fmt: skip
    assert noise == [(stddev, 3.0 * scorer.unit)]
    (entry,) = ledger.entries()
    assert entry.event == scorer.event(stddev=stddev, draws=1, records_per_unit=3)
    assert entry.event.as_dict()["sensitivity"] == 3 * scorer.unit
