"""Tests that one record changes the scores and the sums by class by at most RESOLUTION in L2."""

import math
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sugarbush.data.schema import Attribute, Schema
from sugarbush.embedding.class_sums import (
    MOST_VALUES,
    Classes,
    class_rows,
    classes_of,
    directions,
    left_out,
)
from sugarbush.evolution.kernel_scores import RESOLUTION
from sugarbush.evolution.parts import Candidates, Records
from sugarbush.evolution.scorers import KernelScorer, ScoresAndClassSums
from sugarbush.privacy import mechanisms
from sugarbush.privacy.data_types import Private
from sugarbush.privacy.events import DiscreteGaussian
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.unit import Unit
from sugarbush.randomness import public_rng
from tests.property.test_histogram import a_ledger, session_of
from tests.property.test_score_sensitivity import unit
from tests.property.test_vote_sensitivity import corpus

SIZES = (3, 1, 5, 2)


def records_of(seed: int, n: int, kinds: int = 4) -> Records:
    rng = public_rng(seed, "codes")
    codes = np.stack([rng.integers(0, size, n) for size in SIZES], axis=1).astype(np.int64)
    return Records(unit(corpus(seed, n, kinds)), codes, codes[:, 0])


def candidates_of(seed: int, m: int, kinds: int = 4) -> Candidates:
    public = Records.without_codes(unit(corpus(seed + 1, m, kinds)))
    return Candidates(public.embeddings, public.codes, public.labels)


def scorer(attributes: int, share: float = 0.2) -> ScoresAndClassSums:
    return ScoresAndClassSums(class_share=share, classes=tuple(enumerate(SIZES[:attributes])))


def exact(records: Records, candidates: Candidates, by: ScoresAndClassSums) -> NDArray[np.int64]:
    """Return the sums that the mechanism computes, without noise and without a charge."""
    ledger = mock.create_autospec(Ledger, instance=True)
    ledger.charge.return_value = "id"
    with mock.patch.object(mechanisms, "discrete_gaussian", lambda sums, **_: sums):
        session = session_of(ledger)
        return by.total(Private(records), candidates, stddev=1.0, session=session).value


@pytest.mark.slow
@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 50),
    m=st.integers(1, 30),
    which=st.integers(0, 49),
    by=st.builds(scorer, st.integers(1, len(SIZES)), st.sampled_from([0.01, 0.2, 0.9])),
)
def test_one_record_adds_its_own_row_and_nothing_else(
    seed: int, n: int, m: int, which: int, by: ScoresAndClassSums
) -> None:
    records, candidates = records_of(seed, n), candidates_of(seed, m)
    others = np.delete(np.arange(n), which % n)
    less = exact(records[others], candidates, by) if n > 1 else 0
    difference = exact(records, candidates, by) - less
    alone = exact(records[slice(which % n, which % n + 1)], candidates, by)
    assert difference.tolist() == alone.tolist()
    assert np.linalg.norm(difference) <= RESOLUTION


@pytest.mark.slow
@pytest.mark.parametrize("attributes", range(1, len(SIZES) + 1))
def test_a_record_uses_nearly_the_whole_norm_in_the_planned_shares(attributes: int) -> None:
    records, candidates = records_of(1, 40, 40), candidates_of(2, 30, 30)
    by = scorer(attributes)
    for row in range(len(records)):
        total = exact(records[slice(row, row + 1)], candidates, by).astype(float)
        scores, sums = total[: len(candidates)], total[len(candidates) :]
        assert np.linalg.norm(sums) ** 2 == pytest.approx(0.2 * RESOLUTION**2, rel=0.02)
        assert np.linalg.norm(scores) ** 2 == pytest.approx(0.8 * RESOLUTION**2, rel=0.02)


@given(
    seed=st.integers(0, 10**6),
    attributes=st.integers(1, 12),
    norm=st.integers(1, 2**16),
    dim=st.sampled_from([1, 2, 384]),
)
def test_a_row_of_several_attributes_is_within_the_norm(
    seed: int, attributes: int, norm: int, dim: int
) -> None:
    rng = public_rng(seed, "rows")
    classes: Classes = tuple((column, 2) for column in range(attributes))
    vectors = unit(rng.standard_normal((5, dim), dtype=np.float32))
    rows = class_rows(
        vectors,
        rng.integers(0, 2, (5, attributes)),
        classes=classes,
        centre=rng.standard_normal(dim) / 100,
        norm=norm,
    ).astype(np.int64)
    assert (rows**2).sum(axis=1).max() <= norm**2


def test_a_row_does_not_depend_on_the_records_beside_it() -> None:
    rng = public_rng(1, "beside")
    vectors = unit(rng.standard_normal((700, 384), dtype=np.float32))
    codes = rng.integers(0, 3, (700, 1))
    records, by = Records(vectors, codes, codes[:, 0]), scorer(1)
    candidates = candidates_of(1, 3)
    candidates = Candidates(vectors[:20], candidates.codes, candidates.labels)
    rows = by.scores(candidates)
    together = np.concatenate([np.array(block) for block in rows(records)])
    for start, stop in ((0, 1), (3, 5), (17, 700)):
        part = np.concatenate([np.array(block) for block in rows(records[start:stop])])
        assert np.array_equal(part, together[start:stop])


def test_each_value_has_the_sum_of_its_records() -> None:
    records, candidates, by = records_of(3, 60), candidates_of(4, 10), scorer(3)
    total = a_release(records, candidates, by)
    centre = candidates.embeddings.mean(axis=0, dtype=np.float64)
    lengths = directions(records.embeddings, centre)
    for column, size in by.classes:
        sums = total.of(column)
        assert sums is not None
        expected = [lengths[records.codes[:, column] == value].sum(axis=0) for value in range(size)]
        assert sums == pytest.approx(np.array(expected), abs=60 / 900)
    assert total.of(3) is None


def a_release(records: Records, candidates: Candidates, by: ScoresAndClassSums):  # type: ignore[no-untyped-def]
    from sugarbush.privacy.data_types import Released

    total = Released(exact(records, candidates, by), ("id",))
    sums = by.class_sums(total, candidates, stddev=1.0)
    assert sums is not None
    assert sums.ledger_ids == ("id",)
    return sums.value


def test_the_noise_is_in_the_sums_with_the_planned_deviation(tmp_path: Path) -> None:
    rng = public_rng(5, "noise")
    vectors = unit(rng.standard_normal((30, 384), dtype=np.float32))
    codes = rng.integers(0, 3, (30, 2))
    records, by = (
        Records(vectors, codes, codes[:, 0]),
        ScoresAndClassSums(class_share=0.3, classes=((0, 3), (1, 3))),
    )
    public = Records.without_codes(vectors[:5])
    candidates = Candidates(public.embeddings, public.codes, public.labels)
    ledger = a_ledger(tmp_path, cap=math.inf, unit=Unit.USER)
    stddev = 40.0 * RESOLUTION
    noisy = by.total(
        Private(records),
        candidates,
        stddev=stddev,
        session=session_of(ledger, records_per_unit=3),
    )
    paid = DiscreteGaussian(stddev=stddev, sensitivity=3 * RESOLUTION)
    assert [entry.event for entry in ledger.entries()] == [paid]
    noise = noisy.value - exact(records, candidates, by)
    assert noise[len(candidates) :].std() == pytest.approx(stddev, rel=0.06)
    released = by.class_sums(noisy, candidates, stddev=stddev)
    assert released is not None
    assert released.value.sums.std() == pytest.approx(released.value.stddev, rel=0.06)
    assert released.value.stddev == pytest.approx(40 * math.sqrt(2 / 0.3), rel=0.01)


def test_attributes_with_too_many_values_are_left_out_in_the_order_of_the_schema() -> None:
    def of(name: str, size: int) -> Attribute:
        return Attribute(name=name, column=name, values=tuple(f"{name}{i}" for i in range(size)))

    schema = Schema(
        subject="letters",
        attributes=(of("a", 40), of("b", MOST_VALUES - 39), of("c", MOST_VALUES - 40)),
    )
    assert classes_of(schema) == ((0, 40), (2, MOST_VALUES - 40))
    assert left_out(schema) == ("b",)


def test_a_record_with_an_unlisted_value_adds_nothing_to_the_sums() -> None:
    records, candidates, by = records_of(3, 20), candidates_of(4, 10), scorer(1)
    other = Records(records.embeddings, np.full_like(records.codes, SIZES[0]), records.labels)
    assert not exact(other, candidates, by)[len(candidates) :].any()


def test_only_values_that_no_rule_reads_from_a_text_have_sums() -> None:
    schema = Schema(
        subject="letters",
        attributes=(
            Attribute(name="word", values=("a",), keywords={"a": ("a",)}),
            Attribute(name="topic", column="topic", values=("a", "b")),
            Attribute(name="near", values=("a",), zero_shot={"a": ("an a",)}),
            Attribute(name="size", column="size", bins=(0, 10, 20)),
        ),
    )
    assert classes_of(schema) == ((1, 2),)
    by = ScoresAndClassSums(class_share=0.2)
    assert by.for_schema(schema).classes == ((1, 2),)
    none = by.for_schema(Schema(subject="letters", attributes=schema.attributes[:1]))
    records, candidates = records_of(1, 9), candidates_of(1, 5)
    assert none.score_unit == RESOLUTION
    assert (
        exact(records, candidates, none).tolist()
        == exact(records, candidates, KernelScorer()).tolist()
    )
