"""Texts after the last round: no repeats, a cap on requests, and a choice by released scores."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sugarbush.errors import GeneratorError
from sugarbush.evolution import enlarge
from sugarbush.evolution.enlarge import (
    BATCH,
    DifferentTexts,
    Further,
    Requests,
    choose_by_scores,
    predicted_scores,
    write_further,
)
from sugarbush.evolution.kernel_scores import RESOLUTION, scores_of
from sugarbush.evolution.targets import Targets
from sugarbush.evolution.writer import Writer
from sugarbush.generators.interface import Answer, Problem, RandomRequest, Request
from sugarbush.privacy.data_types import Released
from sugarbush.randomness import public_rng
from tests.unit.evolution.test_herding import WIDTH, clouds

PARCEL = "the parcel of my order came late and the box was open when I found it at the door"


def test_equal_texts_without_words_repeat_each_other() -> None:
    different = DifferentTexts()
    assert different.add("👍")
    assert different.add("👎")
    assert not different.add("👍")


def test_a_text_is_dropped_if_it_repeats_the_words_or_half_of_the_runs_of_an_earlier_one() -> None:
    different = DifferentTexts()
    assert different.add(PARCEL)
    assert not different.add(PARCEL.upper().replace(" came", ", came") + "!")
    assert not different.add(PARCEL.replace("door", "gate"))
    assert different.add(PARCEL[:45] + "in a bag which nobody had seen before then")
    assert different.add("Two words")
    assert not different.add("two words")


def test_a_copy_is_dropped_if_its_runs_come_from_several_earlier_texts() -> None:
    def words(start: int, count: int) -> list[str]:
        return [f"w{i}" for i in range(start, start + count)]

    different = DifferentTexts()
    for start in (0, 100, 200):
        assert different.add(" ".join(words(start, 30)))
    parts = [*words(0, 13), "new", *words(100, 13), "and", *words(200, 13)]
    assert different.add(" ".join(parts))
    assert not different.add(" ".join(parts))
    assert not different.add(" ".join(parts[:-1]))


def test_a_short_answer_does_not_block_longer_texts_that_begin_with_it() -> None:
    greeting = "Dear customer, thank you very much for contacting us."
    different = DifferentTexts()
    assert different.add(greeting)
    for number in range(50):
        own = " ".join(f"word{number}x{i}" for i in range(20))
        assert different.add(f"{greeting} {own}")
    assert not different.add(greeting)


@given(st.lists(st.lists(st.sampled_from("abcd"), min_size=1, max_size=30), max_size=40))
def test_no_text_is_added_twice(texts: list[list[str]]) -> None:
    different = DifferentTexts()
    added = [" ".join(words) for words in texts if different.add(" ".join(words))]
    assert len(set(added)) == len(added)
    assert not any(different.add(text) for text in added)


def test_a_repeat_is_found_behind_a_phrase_that_many_texts_have() -> None:
    def phrase(name: str) -> str:
        return " ".join(f"{name}x{i}" for i in range(30))

    def add_texts_with_the_phrases(round_: int) -> None:
        for name in "abc":
            own = (f"{phrase(name)} {phrase(f'{name}{round_}y{i}')}" for i in range(21))
            assert all(map(different.add, own))

    different, text = DifferentTexts(), " ".join(map(phrase, "abc"))
    add_texts_with_the_phrases(0)
    assert different.add(text)
    assert not different.add(text + " again")  # found among the newest texts
    add_texts_with_the_phrases(1)
    assert not different.add(text)  # a copy is always found


class Writing:
    """A generator that writes `text(sample)`, and notes the samples that it was asked for."""

    def __init__(self, text: Callable[[int], str | None]) -> None:
        self.text, self.samples, self.calls = text, list[int](), 0

    def generate(
        self, requests: Released[tuple[Request, ...]], *, what: str = "answers"
    ) -> Released[tuple[Answer, ...]]:
        self.samples += [request.sample for request in requests.value]
        self.calls += 1
        return requests.map(lambda asked: tuple(map(self._answer, asked)))

    def _answer(self, request: Request) -> Answer:
        text = self.text(request.sample)
        return Answer(text=text, problem=None if text else Problem.REFUSAL)


def batches(number: int) -> Requests:
    samples = range(number * BATCH, (number + 1) * BATCH)
    targets = Targets(codes=np.array([[i % 3] for i in samples]), labels=np.zeros(BATCH, dtype=int))
    return Released(
        (targets, tuple(RandomRequest(subject="letters", sample=i) for i in samples)), ("entry",)
    )


def further(
    count: int, text: Callable[[int], str | None], unlike: tuple[str, ...] = ()
) -> tuple[Further, Writing]:
    writing = Writing(text)
    writer = Writer(generator=writing, max_dropped_share=0.2)
    return write_further(count, batches, unlike=unlike, writer=writer, what="texts"), writing


def test_repeats_and_bad_answers_are_asked_for_again() -> None:
    found, writing = further(
        60,
        lambda i: None if i % 10 == 9 else f"letter {i // 2 if i < 40 else i}",
        unlike=("Letter 3",),
    )
    assert len(set(found.population.texts)) == 60
    assert "letter 3" not in found.population.texts
    assert found.usage.problems["duplicate"] + found.usage.problems["refusal"] == (
        len(writing.samples) - 60
    )
    assert writing.samples == list(range(len(writing.samples)))
    own = [int(text.split()[1]) for text in found.population.texts]
    assert found.population.codes[own.index(55), 0] == 55 % 3


def test_a_generator_that_repeats_itself_is_asked_twice_for_each_text_at_most() -> None:
    found, writing = further(50, lambda i: f"letter {i % 7}")
    assert len(found.population) == 7
    assert len(writing.samples) == 100


def test_a_larger_release_asks_for_the_same_texts_first() -> None:
    small, _ = further(20, lambda i: f"letter {i}")
    large, _ = further(BATCH + 20, lambda i: f"letter {i}")
    assert large.population.texts[:20] == small.population.texts
    assert len(large.population) == BATCH + 20


def test_the_first_part_shows_whether_answers_are_usable_and_the_others_are_large() -> None:
    """An endpoint would otherwise wait for the last answers of each batch."""
    _, writing = further(4 * BATCH, lambda i: f"letter {i}")
    assert writing.calls == 2
    refusing = Writing(lambda i: None)
    with pytest.raises(GeneratorError, match="max_dropped_share"):
        write_further(
            4 * BATCH,
            batches,
            unlike=(),
            writer=Writer(generator=refusing, max_dropped_share=0.2),
            what="texts",
        )
    assert len(refusing.samples) == BATCH


def test_too_many_unusable_answers_are_an_error() -> None:
    with pytest.raises(GeneratorError, match="max_dropped_share"):
        further(50, lambda i: None if i % 3 else f"letter {i}")


@pytest.mark.parametrize("count", [1, 2, 4])
def test_one_unusable_answer_of_a_few_does_not_stop_the_run(count: int) -> None:
    """One answer of four is more than a fifth, but a stop would waste texts that are paid for."""
    found, writing = further(count, lambda i: f"letter {i}" if i else None)
    assert len(found.population) == count
    assert writing.samples == list(range(count + 1))


def test_scores_are_predicted_from_noisy_ones_and_are_0_far_away() -> None:
    records, _ = clouds([600, 300, 100], seed=1)
    anchors, _ = clouds([50, 50, 50], seed=2)
    exact = scores_of(records, anchors, width=WIDTH).sum(axis=0)
    stddev = 5.0 * RESOLUTION
    noisy = exact + np.rint(public_rng(1, "noise").normal(0, stddev, len(exact))).astype(np.int64)
    others, labels = clouds([20, 20, 20, 20], seed=3)  # no record and no anchor is near the last
    found = predicted_scores(others, anchors, noisy, stddev=stddev)
    means = [found[labels == label].mean() for label in range(4)]
    assert means[0] > means[1] > means[2] > means[3]
    assert abs(means[3]) < 0.2 * means[0]


@pytest.mark.parametrize(("is_smooth", "least", "most"), [(True, 0.5, 0.9), (False, 0.9, 1.1)])
def test_scores_of_scored_texts_are_smoothed_as_far_as_they_are_smooth(
    is_smooth: bool, least: float, most: float
) -> None:
    """The error relative to that without more smoothing: 0.63 to 0.70 in six draws of texts without
    clusters, and 0.92 to 1.04 in three draws of four clusters, where eight times the ridge has 1.5
    to 1.6."""
    rng, dim = public_rng(1, "texts"), 200 if is_smooth else 48
    spread = np.arange(1, dim + 1) ** -0.3 if is_smooth else np.ones(dim)

    def texts(count: int) -> NDArray[np.float32]:
        centres = np.eye(dim)[np.zeros(count, int) if is_smooth else rng.integers(0, 4, count)]
        vectors = rng.normal(size=(count, dim)) * spread + (1 if is_smooth else 2) * centres
        vectors += 0.0 if is_smooth else 0.5
        return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)

    records, anchors = (texts(2000), texts(1000)) if is_smooth else (texts(1000), texts(400))
    exact = scores_of(records, anchors, width=WIDTH).sum(axis=0)
    stddev = (4.0 if is_smooth else 5.0) * RESOLUTION
    noisy = exact + np.rint(rng.normal(0, stddev, len(exact))).astype(np.int64)
    errors = [
        np.mean((predicted_scores(anchors, anchors, noisy, stddev=stddev, scored=of) - exact) ** 2)
        for of in (None, np.ones(len(anchors), dtype=bool))
    ]
    assert least < np.sqrt(errors[1] / errors[0]) < most


def test_noise_alone_predicts_scores_near_0() -> None:
    """In 100 draws, the root mean square was 0.035 to 0.177 stddevs, median 0.074. A ridge of at
    most 1 gave 0.131 to 0.325, median 0.196. So the mean of 20 draws separates them."""
    anchors, _ = clouds([200, 200], seed=2)
    others, _ = clouds([50, 50], seed=3)
    stddev, found = 5.0 * RESOLUTION, []
    for seed in range(20):
        noise = public_rng(seed, "noise").normal(0, stddev, len(anchors))
        own = predicted_scores(others, anchors, np.rint(noise).astype(np.int64), stddev=stddev)
        found.append(np.sqrt((own**2).mean()) / stddev)
    assert np.mean(found) < 0.12


@pytest.mark.parametrize("count", [1, 700, 9000])
def test_many_texts_are_chosen_block_by_block(count: int) -> None:
    texts, labels = clouds([3000, 3000, 3000], seed=4)
    records, _ = clouds([600, 300, 100], seed=1)
    scores = scores_of(records, texts, width=WIDTH).sum(axis=0)
    chosen = choose_by_scores(scores.astype(float), texts, width=WIDTH, count=count)
    assert len(set(chosen.tolist())) == len(chosen) == count
    if count == 700:
        shares = np.bincount(labels[chosen], minlength=3) / count
        assert shares == pytest.approx([0.6, 0.3, 0.1], abs=0.05)


def test_the_released_embedding_is_as_exact_as_proved() -> None:
    """Propositions 1 to 3 of docs/decisions/mosaic.md, in units of one vote."""
    records, _ = clouds([600, 300, 100], seed=1)
    anchors, _ = clouds([60, 60, 60], seed=2)
    later, _ = clouds([10, 10, 10], seed=3)
    stddev, size = 4.4, len(anchors)
    gram, near = (np.exp(a.astype(float) @ anchors.T.astype(float) - 1.0) for a in (anchors, later))
    # A function of the space, near to the sums and known everywhere.
    sums = scores_of(records, anchors, width=WIDTH).sum(axis=0) / RESOLUTION
    weights = np.linalg.solve(gram + np.eye(size), sums)
    exact, elsewhere, norm = gram @ weights, near @ weights, weights @ gram @ weights
    ridge = stddev**2 / exact.var()
    smoothing = np.linalg.solve(gram + ridge * np.eye(size), gram)
    variance = 1 - np.einsum("ij,ji->i", near, np.linalg.solve(gram + ridge * np.eye(size), near.T))
    errors = []
    for seed in range(200):
        noisy = exact + public_rng(seed, "noise").normal(0, stddev, size)
        found = predicted_scores(
            np.concatenate([anchors, later]),
            anchors,
            np.rint(noisy * RESOLUTION).astype(np.int64),
            stddev=stddev * RESOLUTION,
        )
        own = found / RESOLUTION
        raw, smooth = noisy - exact, own[:size] - exact
        errors.append([raw @ raw, smooth @ smooth, *(own[size:] - elsewhere) ** 2])
    raw, smooth, *others = np.mean(errors, axis=0)
    assert raw == pytest.approx(size * stddev**2, rel=0.05)
    assert smooth <= 1.05 * (ridge * norm / 4 + stddev**2 * np.trace(smoothing))
    assert smooth < raw
    bound = max(norm, stddev**2 / ridge) * variance
    assert (np.array(others) <= 1.1 * bound).all()


def test_further_texts_name_the_charges_of_every_batch() -> None:
    """Each batch of `nonprivate` opens the records again, and is charged again."""

    def charged(number: int) -> Requests:
        return Released(batches(number).value, ("first", f"batch-{number}"))

    writer = Writer(generator=Writing(lambda i: f"letter {i}"), max_dropped_share=0.2)
    found = write_further(BATCH + 1, charged, unlike=(), writer=writer, what="texts")
    assert found.ledger_ids == ("first", "batch-0", "batch-1")


def test_scored_texts_are_not_smoothed_if_only_some_are_anchors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(enlarge, "_MOST_ANCHORS", 30)
    rng = np.random.default_rng(5)
    texts = rng.normal(size=(60, 8))
    texts /= np.linalg.norm(texts, axis=1, keepdims=True)
    noisy = rng.normal(0, 3000, 60).round().astype(np.int64)
    every = np.ones(60, dtype=bool)
    smoothed = predicted_scores(texts, texts, noisy, stddev=2900.0, scored=every)
    assert (smoothed == predicted_scores(texts, texts, noisy, stddev=2900.0)).all()
    monkeypatch.undo()
    smoothed = predicted_scores(texts, texts, noisy, stddev=2900.0, scored=every)
    assert (smoothed != predicted_scores(texts, texts, noisy, stddev=2900.0)).any()
