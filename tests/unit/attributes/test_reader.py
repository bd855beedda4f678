"""Tests that labels are true of the texts, and not of the requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sugarbush.attributes import reader as label_reader
from sugarbush.attributes.class_reader import choose_weights
from sugarbush.attributes.reader import (
    UNREAD,
    LabelReader,
    Labels,
    folds,
    in_proportion,
    raking_weights,
)
from sugarbush.data.schema import Attribute, Schema
from sugarbush.embedding.class_sums import ClassSums, directions

TOPICS = ("lamp", "chair", "table")
SCHEMA = Schema(
    subject="letters", attributes=(Attribute(name="topic", column="topic", values=TOPICS),)
)
BY_KEYWORDS = Schema(
    subject="letters",
    attributes=(
        Attribute(name="topic", values=TOPICS, keywords={topic: (topic,) for topic in TOPICS}),
    ),
)


def embed(texts: Sequence[str]) -> NDArray[np.float32]:
    """Count the topics in each text, and add a little that depends on its length."""
    rows = [[text.count(topic) + 0.01 * (len(text) % (7 + i)) for i, topic in enumerate(TOPICS)]
            for text in texts]  # fmt: skip
    found = np.array(rows, dtype=np.float32).reshape(len(texts), len(TOPICS)) + 1e-3
    return np.asarray(found / np.linalg.norm(found, axis=1, keepdims=True))


def letters(codes: Sequence[int]) -> tuple[str, ...]:
    return tuple(
        f"my {TOPICS[code]} of order {'1' * (i % 11)} broke" for i, code in enumerate(codes)
    )


def reader(labelled: int = 30, **changes: object) -> LabelReader:
    codes = np.arange(30) % 3
    taught = np.where(np.arange(30) < labelled, codes, 3)[:, None]
    fields = {"schema": SCHEMA, "embed": embed, "examples": letters(codes), "codes": taught}
    return LabelReader(**(fields | changes))  # type: ignore[arg-type]


def column(values: Sequence[int]) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)[:, None]


def test_the_label_is_what_the_text_says_and_not_what_was_requested() -> None:
    true = [0, 1, 2] * 40
    asked = [1, 1, 1] * 40
    found = reader().read(letters(true), column(asked))
    assert np.mean(found.codes[:, 0] == true) > 0.95
    (attribute,) = found.attributes
    assert attribute.source == "donated"
    assert attribute.requested == 120
    assert attribute.shown == pytest.approx(1 / 3, abs=0.05)
    assert attribute.accuracy is not None
    assert attribute.accuracy > 0.9


def pooled(*, wrong: float, seed: int = 1) -> tuple[LabelReader, tuple[str, ...], Any, Any]:
    """Return a weak reader, and texts that a pool chose for requests.

    The pool chooses texts that look like the requested topic to the reader: the texts name it, and
    half of the examples and a share `wrong` of the texts are about another topic.
    """
    rng = np.random.default_rng(seed)
    taught = np.arange(60) % 3
    examples = letters(np.where(rng.random(60) < 0.3, rng.integers(0, 3, 60), taught))
    asked = rng.integers(0, 3, 300)
    true = np.where(rng.random(300) < wrong, rng.integers(0, 3, 300), asked)
    weak = reader(examples=examples, codes=taught[:, None])
    return weak, letters(asked), asked, true


@pytest.mark.parametrize("wrong", [0.0, 0.5])
def test_a_request_adds_nothing_to_what_a_text_of_a_pool_says(wrong: float) -> None:
    weak, texts, asked, _ = pooled(wrong=wrong)
    pool = replace(weak, requests_tell=False)
    alone = pool.read(texts, column([UNREAD] * 300))
    for other in (asked, (asked + 1) % 3):
        found = pool.read(texts, column(other))
        assert np.array_equal(found.codes, alone.codes)
        assert np.array_equal(found.confidence, alone.confidence)


def test_the_texts_of_a_pool_are_no_surer_than_the_reader() -> None:
    """The reader agrees with every request, and is wrong about a fifth of the examples."""
    weak, texts, asked, true = pooled(wrong=0.3)
    (attribute,) = replace(weak, requests_tell=False).read(texts, column(asked)).attributes
    sure = replace(weak, requests_tell=False).read(texts, column(asked)).confidence
    right = np.mean(asked == true)
    assert attribute.shown == pytest.approx(right, abs=0.1)
    assert np.mean(sure) == pytest.approx(right, abs=0.1)
    (before,) = weak.read(texts, column(asked)).attributes
    assert before.shown is not None
    assert before.shown > 0.9  # what a generator's own texts would show


def test_an_attribute_that_texts_of_a_pool_do_not_tell_is_a_guess() -> None:
    silent = ("it broke", "it works") * 30
    own = reader(examples=silent, codes=(np.arange(60) // 2 % 3)[:, None])
    (attribute,) = replace(own, requests_tell=False).read(silent, column([0] * 60)).attributes
    assert attribute.guessed
    assert attribute.source == "donated"
    (attribute,) = own.read(silent, column([0] * 60)).attributes
    assert attribute.source == "request"


def test_requests_that_texts_obey_correct_a_weak_reader() -> None:
    """Half of the texts and examples tell nothing. Obeyed requests decide; ignored ones do not."""
    rng = np.random.default_rng(1)
    true, other = rng.integers(0, 3, size=(2, 300)).tolist()

    def half_silent(texts: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(text if i % 2 else "it broke" for i, text in enumerate(texts))

    own = reader(examples=half_silent(letters(np.arange(30) % 3)))
    texts = half_silent(letters(true))
    obeyed, ignored, alone = (
        own.read(texts, column(asked)).codes[:, 0] for asked in (true, other, [UNREAD] * 300)
    )
    assert np.mean(obeyed == true) > 0.95 > np.mean(alone == true)
    assert np.mean(ignored == true) > np.mean(alone == true) - 0.05


def test_without_a_labelled_example_the_request_stands_unverified() -> None:
    for own in (reader(labelled=0), reader(codes=None, examples=())):
        found = own.read(letters([0, 1]), column([2, UNREAD]))
        assert found.codes[0, 0] == 2
        assert np.isnan(found.confidence).all()
        assert found.attributes[0].source == "request"
        assert found.attributes[0].shown is None


@pytest.mark.parametrize("share", [0.02, 0.3, 0.9])
@pytest.mark.parametrize("count", [30, 300])
def test_texts_that_requests_left_open_are_read_like_the_requested_ones(
    share: float, count: int
) -> None:
    """Otherwise a release would have no value where a request names other attributes."""
    rng = np.random.default_rng(count)
    true = rng.integers(0, 3, count)
    asked = np.where(rng.random(count) < share, true, UNREAD)
    asked[:2] = true[:2]
    counts = {"topic": np.append(np.bincount(true, minlength=3), 0.0)}
    own = reader(codes=None, examples=(), counts=counts)
    found = own.read(letters(true.tolist()), column(asked.tolist()))
    assert np.mean(found.codes[:, 0] == true) > 0.9
    named = asked != UNREAD
    assert np.array_equal(found.codes[named, 0], asked[named])
    assert np.isnan(found.confidence).all()  # requests verify nothing
    assert found.attributes[0].source == "request"
    assert found.attributes[0].is_unverified


def test_a_request_for_no_listed_value_teaches_which_texts_have_none() -> None:
    true = [0, 1, 2, 3] * 30
    texts = [
        f"nothing of order {'1' * (i % 11)}" if code == 3 else letters([code])[0]
        for i, code in enumerate(true)
    ]
    asked = [code if i < 80 else UNREAD for i, code in enumerate(true)]
    own = reader(codes=None, examples=(), counts={"topic": np.full(4, 30.0)})
    found = own.read(texts, column(asked))
    assert np.mean(found.codes[80:, 0] == true[80:]) > 0.9


def test_an_attribute_that_no_request_names_has_no_value() -> None:
    found = reader(codes=None, examples=()).read(letters([0, 1, 2]), column([UNREAD] * 3))
    assert (found.codes == UNREAD).all()
    assert found.attributes[0].source == "nothing"


def test_an_attribute_that_texts_do_not_tell_is_not_verified_by_chance() -> None:
    """Labels that are independent of the texts, in ten draws: never a confident label.

    A classifier on noise is above chance by two standard errors in about 2% of draws.
    """
    confident = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        noise = rng.normal(size=(300, 8)).astype(np.float32)
        place = {f"text {i}": row for i, row in enumerate(noise)}

        def drawn(texts: Sequence[str], place: dict[str, Any] = place) -> NDArray[np.float32]:
            rows = np.array([place.get(text, np.ones(8)) for text in texts], dtype=np.float32)
            return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))

        own = LabelReader(
            schema=SCHEMA,
            embed=drawn,
            examples=tuple(f"text {i}" for i in range(50)),
            codes=column(rng.integers(0, 3, 50).tolist()),
        )
        texts = tuple(f"text {i}" for i in range(50, 300))
        found = own.read(texts, column(rng.integers(0, 3, 250).tolist()))
        confident += found.attributes[0].shown is not None
    assert confident <= 2  # false in about 0.1% of runs


def test_the_share_of_obeyed_requests_is_not_read_from_labels_that_contain_them() -> None:
    rng = np.random.default_rng(2)
    true = rng.integers(0, 3, 300).tolist()
    asked = [int(c) if rng.random() < 0.5 else int(rng.integers(0, 3)) for c in true]
    found = reader().read(letters(true), column(asked))
    assert found.attributes[0].shown == pytest.approx(np.mean(np.equal(true, asked)), abs=0.08)


def test_a_donated_text_that_occurs_twice_is_in_one_fold() -> None:
    assert folds(["a", "b", "a", "c"], 3).tolist() == [0, 1, 0, 2]


def test_keywords_read_a_text_as_they_read_a_record() -> None:
    own = LabelReader(schema=BY_KEYWORDS, embed=embed)
    found = own.read(("my chair broke", "nothing"), column([0, 0]))
    assert found.codes[:, 0].tolist() == [1, 3]
    assert found.confidence[0, 0] == 1
    assert np.isnan(found.confidence[1, 0])  # no keyword is no evidence
    assert found.attributes[0].source == "keywords"
    assert found.attributes[0].shown == 0


def test_the_dp_counts_are_the_prior_of_the_reader() -> None:
    """Texts that tell nothing get the most frequent value of the DP table."""
    silent = ("it broke",) * 20
    counts = {"topic": np.array([5, 5, 500, 0])}
    found = reader(counts=counts).read(silent, column([UNREAD] * 20))
    assert (found.codes[:, 0] == 2).all()


def test_labels_survive_their_frame() -> None:
    found = reader().read(letters([0, 1, 2]), column([0, 2, UNREAD]))
    again = Labels.of_frame(found.frame(SCHEMA.names), SCHEMA.names, found.attributes)
    assert again.codes.tolist() == found.codes.tolist()
    assert again.confidence.tolist() == found.confidence.tolist()
    assert again.weights.tolist() == found.weights.tolist()


def test_no_text_is_no_error() -> None:
    found = reader().read((), np.empty((0, 1), dtype=np.int64))
    assert found.codes.shape == (0, 1)
    assert found.attributes[0].shown is None


@given(
    codes=st.lists(st.integers(0, 3), min_size=1, max_size=60),
    counts=st.lists(st.integers(-5, 50), min_size=4, max_size=4),
)
def test_weights_are_bounded_and_bring_counts_nearer(codes: list[int], counts: list[int]) -> None:
    own, wanted = column(codes), np.maximum(np.array(counts, dtype=float), 0)
    weights = raking_weights(own, schema=SCHEMA, counts={"topic": np.array(counts)})
    assert weights.shape == (len(codes),)
    assert weights.mean() == pytest.approx(1)
    assert weights.max() / weights.min() <= 16 + 1e-9
    present = np.bincount(codes, minlength=4) > 0
    wanted = np.where(present, wanted, 0)
    if wanted.sum() > 0:

        def distance(of: NDArray[np.float64]) -> float:
            now = np.bincount(codes, weights=of, minlength=4)
            return float(np.abs(now / now.sum() - wanted / wanted.sum()).sum())

        assert distance(weights) <= distance(np.ones(len(codes))) + 1e-6


def test_a_text_without_a_label_changes_no_weight() -> None:
    weights = raking_weights(
        column([0, UNREAD]), schema=SCHEMA, counts={"topic": np.array([1, 5, 1, 0])}
    )
    assert weights.tolist() == [1, 1]


def sums_of(labels: Sequence[int], *, stddev: float, seed: int = 1) -> ClassSums:
    """Return noisy sums of letters with these topics, and of none with the value `other`."""
    centre = embed(letters([0, 1, 2] * 5)).mean(axis=0, dtype=np.float64)
    vectors = directions(embed(letters(labels)), centre)
    sums = np.stack([vectors[np.array(labels) == value].sum(axis=0) for value in range(3)])
    noise = np.random.default_rng(seed).normal(0, stddev, sums.shape)
    return ClassSums(sums=sums + noise, stddev=stddev, centre=centre, classes=((0, 3),))


COUNTS = {"topic": np.array([300, 150, 150, 0])}
RECORDS = [0, 0, 1, 2] * 150


def test_sums_of_the_records_read_labels_without_donated_examples() -> None:
    true = RECORDS[:200]
    without = LabelReader(schema=SCHEMA, embed=embed, counts=COUNTS)
    assert without.read(letters(true), column([0] * 200)).attributes[0].source == "request"
    summed = without.with_sums(sums_of(RECORDS, stddev=5))
    # nothing shows that sums know more than requests that a generator obeys
    assert summed.read(letters(true), column([0] * 200)).attributes[0].source == "request"
    pool = replace(summed, requests_tell=False)
    labels = pool.read(letters(true), column([0] * 200))
    assert np.mean(labels.codes[:, 0] == true) > 0.95
    assert labels.attributes[0].source == "class_sums"
    # nothing public verifies these labels, so no page may show an accuracy
    assert (labels.attributes[0].accuracy, labels.attributes[0].shown) == (None, None)
    assert labels.attributes[0].is_unverified


def test_equal_donated_texts_teach_no_weights() -> None:
    """Equal texts are in one fold, so no other fold has a label."""
    equal = {"examples": letters([0]) * 20, "codes": column([0] * 10 + [1] * 10)}
    by = reader(counts=COUNTS, **equal).with_sums(sums_of(RECORDS, stddev=5))
    labels = by.read(letters(RECORDS[:40]), column([UNREAD] * 40))
    assert labels.attributes[0].examples == 20


def test_no_text_has_the_value_other_by_sums() -> None:
    """`other` has no sum, however many records have it."""
    counts = {"topic": np.array([10, 10, 10, 10_000])}
    sums = sums_of(RECORDS, stddev=5)
    for by in (LabelReader(schema=SCHEMA, embed=embed, counts=counts), reader(counts=counts)):
        texts = (*letters(RECORDS[:100]), *("my thing broke",) * 100)
        labels = by.with_sums(sums).read(texts, column([UNREAD] * 200))
        assert labels.codes.max() < 3


def test_the_weights_that_grade_an_example_come_from_the_other_folds() -> None:
    by = reader(counts=COUNTS).with_sums(sums_of(RECORDS, stddev=50))
    with mock.patch.object(label_reader, "choose_weights", wraps=choose_weights) as chosen:
        by.read(letters([0, 1, 2]), column([UNREAD] * 3))
    sizes = [len(call.args[2]) for call in chosen.call_args_list]
    fold = folds(by.examples)
    assert sizes == [30, *(int(np.sum(fold != number)) for number in range(5))]
    assert max(sizes[1:]) < 30


def test_sums_that_are_noise_leave_the_label_to_the_examples() -> None:
    """The donated labels choose the weights of both, so noise gets none."""
    true = RECORDS[:200]
    noise = sums_of(RECORDS, stddev=3000)
    found = reader(counts=COUNTS).with_sums(noise).read(letters(true), column([UNREAD] * 200))
    assert np.mean(found.codes[:, 0] == true) > 0.95


def test_sums_need_dp_counts_because_they_contain_no_counts() -> None:
    """The prior and the sizes of the classes come from the DP table, never from the records."""
    sums = sums_of(RECORDS, stddev=5)
    alone = LabelReader(schema=SCHEMA, embed=embed, class_sums=sums)
    assert alone.read(letters([1] * 9), column([0] * 9)).attributes[0].source == "request"
    texts = ("my thing broke",) * 50  # no topic
    for value in range(3):
        counts = {"topic": np.where(np.arange(4) == value, 10_000, 1)}
        by_counts = replace(alone, counts=counts, requests_tell=False)
        assert (by_counts.read(texts, column([UNREAD] * 50)).codes == value).all()


def test_rare_values_are_as_frequent_as_the_counts_say() -> None:
    """A weak reader calls nearly every text the commonest value, although a quarter is rare."""
    rng = np.random.default_rng(1)
    true = np.where(rng.random(800) < 0.25, 1, 0)
    seen = rng.normal(true, 1.5)
    odds = np.exp((seen - 0.5) / 1.5**2) * 0.25 / 0.75
    likely = np.stack([1 / (1 + odds), odds / (1 + odds)], axis=1)
    counts = np.array([3000.0, 1000.0])
    likeliest, labels = likely.argmax(axis=1), in_proportion(likely, counts)
    assert likeliest.mean() < 0.1
    assert labels.mean() == pytest.approx(0.25, abs=0.02)
    assert (labels[true == 1] == 1).mean() > 3 * (likeliest[true == 1] == 1).mean()


def test_no_text_is_labelled_other_because_the_table_has_other_values() -> None:
    counts = {"topic": np.array([100, 100, 100, 300])}
    found = reader(counts=counts).read(letters([0, 1, 2] * 40), column([UNREAD] * 120))
    assert set(found.codes[:, 0].tolist()) == {0, 1, 2}


@given(seed=st.integers(0, 10**6), values=st.integers(2, 8), texts=st.integers(1, 60))
def test_no_label_is_a_hundred_times_less_likely_than_another(
    seed: int, values: int, texts: int
) -> None:
    rng = np.random.default_rng(seed)
    likely = rng.dirichlet(np.full(values, 0.3), texts) + 1e-9
    counts = rng.normal(5, 20, values)
    labels = in_proportion(likely, counts)
    assert (likely[np.arange(texts), labels] >= likely.max(axis=1) / 100.001).all()
    assert in_proportion(likely, np.full(values, -1.0)).tolist() == likely.argmax(axis=1).tolist()


def test_a_value_that_no_text_can_have_does_not_move_the_others() -> None:
    likely = np.array([[0.7, 0.3 - 1e-6, 1e-6], [0.6, 0.4 - 1e-6, 1e-6]] * 50)
    labels = in_proportion(likely, np.array([50.0, 45.0, 5.0]))
    assert np.bincount(labels, minlength=3).tolist() == [50, 50, 0]
