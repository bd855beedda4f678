import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sugarbush.errors import FailureError, InvariantError
from sugarbush.evaluation.copies import longest_shared_ngrams, nearer_to_training
from sugarbush.evaluation.downstream import train_classifier
from sugarbush.evaluation.features import latent_space
from sugarbush.evaluation.texts import distinct_n, duplicate_share

TEXTS = st.lists(st.lists(st.sampled_from("ab"), max_size=7).map(" ".join), max_size=3)


def slow_longest(text: str, corpus: list[str]) -> int:
    words = text.split()
    best = 0
    for other in (c.split() for c in corpus):
        for i in range(len(words)):
            for j in range(len(other)):
                k = 0
                while (
                    words[i + k : i + k + 1]
                    and words[i + k : i + k + 1] == other[j + k : j + k + 1]
                ):
                    k += 1
                best = max(best, k)
    return best


@settings(max_examples=150)
@given(TEXTS, TEXTS.filter(bool))
def test_longest_shared_runs_equal_the_obvious_search(texts: list[str], corpus: list[str]) -> None:
    expected = [slow_longest(text, corpus) for text in texts]
    assert longest_shared_ngrams(texts, corpus).tolist() == expected


def test_a_run_does_not_cross_from_one_corpus_text_into_the_next() -> None:
    assert longest_shared_ngrams(["a b c d"], ["a b", "c d"]).tolist() == [2]


def test_a_copy_is_found_whatever_its_letter_case_and_white_space() -> None:
    assert longest_shared_ngrams(["x My Name is\nAda Y"], ["my name  IS ada"]).tolist() == [4]


def test_a_copy_check_without_a_corpus_is_refused() -> None:
    with pytest.raises(InvariantError):
        longest_shared_ngrams(["a"], [])


def test_copies_of_training_texts_are_nearer_to_training() -> None:
    rng = np.random.default_rng(1)
    training, heldout, other = (rng.normal(size=(40, 5)) for _ in range(3))
    assert (nearer_to_training(training, training=training, heldout=heldout) == 0).all()
    ratios = nearer_to_training(other, training=training, heldout=heldout)
    assert 0.5 < np.median(ratios) < 2
    both = nearer_to_training(other[:1], training=other, heldout=other)
    assert both.tolist() == [1]


def test_distinct_n_counts_over_all_texts_together() -> None:
    assert distinct_n(["a b a b", "A b"], n=1) == pytest.approx(2 / 6)
    assert distinct_n(["a b a b", "A b"], n=2) == pytest.approx(2 / 4)
    with pytest.raises(InvariantError, match="no text has 3 words"):
        distinct_n(["a b", ""], n=3)


def test_duplicates_are_found_whatever_their_letter_case_and_white_space() -> None:
    assert duplicate_share(["A b", "a  B", "c"]) == pytest.approx(1 / 3)
    with pytest.raises(InvariantError):
        duplicate_share([])


def test_the_second_space_tells_topics_apart_by_their_words() -> None:
    texts = ["late parcel courier", "parcel courier lost", "refund card money", "card money refund"]
    space = latent_space(texts * 3, dimensions=2, seed=1)
    rows = space.encode(texts)
    assert np.linalg.norm(rows, axis=1) == pytest.approx(1)
    assert rows[0] @ rows[1] > 0.9 > rows[0] @ rows[2]


def test_a_text_of_unknown_words_is_the_zero_row() -> None:
    space = latent_space(["one two three", "two three four"] * 2, dimensions=5, seed=1)
    assert not space.encode(["zebra"]).any()


@pytest.mark.parametrize("texts", [["", " "], ["the", "the"], ["!!"], []])
def test_texts_without_two_shared_words_have_no_space(texts: list[str]) -> None:
    with pytest.raises(FailureError, match="fewer than two words"):
        latent_space(texts, seed=1)


def test_a_classifier_learns_an_attribute_from_embeddings() -> None:
    rng = np.random.default_rng(2)
    codes = rng.integers(0, 3, 150)
    rows = np.eye(4)[codes] + 0.1 * rng.normal(size=(150, 4))
    classifier = train_classifier(rows[:100], codes[:100], seed=1)
    assert (classifier.predict(rows[100:]) == codes[100:]).mean() > 0.95


def test_a_classifier_of_one_value_always_predicts_it() -> None:
    classifier = train_classifier(np.ones((3, 2)), np.array([4, 4, 4]), seed=1)
    assert classifier.predict(np.zeros((2, 2))).tolist() == [4, 4]
    with pytest.raises(InvariantError):
        train_classifier(np.ones((0, 2)), np.array([], dtype=int), seed=1)
