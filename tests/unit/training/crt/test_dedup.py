"""Sentences and duplicates: splitting loses nothing, and the first occurrence stays."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from sugarbush.errors import ParamsError
from sugarbush.training.crt.dedup import MASK, BloomDuplicates, ExactDuplicates, mask_duplicates
from sugarbush.training.crt.near_duplicates import NearDuplicates
from sugarbush.training.crt.sentences import joined, split


def deduplicated(texts, duplicates=None):
    documents = (split(text) for text in texts)
    return [joined(s) for s in mask_duplicates(documents, duplicates or ExactDuplicates())]


@given(st.text(alphabet="aB. \n!?'\"…\t", max_size=80))
def test_the_sentences_make_the_text_again(text):
    assert joined(split(text)) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello. How are you?", ["Hello.", "How are you?"]),
        ("Dr. A. Smith came. He left!", ["Dr. A. Smith came.", "He left!"]),
        ('He said "no." Then he left', ['He said "no."', "Then he left"]),
        ("one\ntwo\n\nthree", ["one", "two", "three"]),
        ("v1.2 is out... fine", ["v1.2 is out...", "fine"]),
        ("", []),
    ],
)
def test_natural_sentences(text, expected):
    assert [s.text for s in split(text)] == expected


@pytest.mark.parametrize("secret", ["Anna", "anna", "42", MASK, "(x)"])
def test_what_opens_a_sentence_does_not_move_its_beginning(secret):
    assert [s.text for s in split(f"It is late. {secret} said so. Bye.")] == [
        "It is late.",
        f"{secret} said so.",
        "Bye.",
    ]


def test_one_endless_sentence_stays_one():
    (sentence,) = split("word " * 200_000)
    assert len(sentence.text) == 5 * 200_000 - 1


def test_from_the_second_occurrence_on_a_sentence_is_a_mask():
    assert deduplicated(["Hi there. My PIN is 7.", "My PIN is 7. Bye.\nHi there.", "Bye."]) == [
        "Hi there. My PIN is 7.",
        f"{MASK} Bye.\n{MASK}",
        MASK,
    ]


@given(st.lists(st.lists(st.sampled_from(["Ab be.", "Cd do.", "Ef if."]), max_size=4), max_size=6))
def test_every_sentence_is_left_once_and_where_it_stood_first(documents):
    texts = ["\n".join(sentences) for sentences in documents]
    kept = [s.text for t in deduplicated(texts) for s in split(t) if s.text != MASK]
    first = dict.fromkeys(s for sentences in documents for s in sentences)
    assert kept == list(first)


def test_a_bloom_filter_finds_all_duplicates_and_few_others():
    # 20,000 new sentences at a false positive rate of 1%: more than 260 (4.2 standard deviations)
    # have a probability below 1e-4. The filter is fixed, so the test is deterministic.
    bloom = BloomDuplicates(capacity=20_000, false_positives=0.01)
    false = sum(bloom.seen(f"sentence {i}") for i in range(20_000))
    assert false < 260
    assert all(bloom.seen(f"sentence {i}") for i in range(20_000))


def test_only_exact_duplicates_are_in_the_theorem():
    assert ExactDuplicates.in_theorem
    assert not BloomDuplicates.in_theorem
    assert not NearDuplicates.in_theorem


@pytest.mark.parametrize(("capacity", "rate"), [(0, 0.1), (10, 0.0), (10, 1.0)])
def test_a_bloom_filter_without_room_or_rate_is_refused(capacity, rate):
    with pytest.raises(ParamsError, match="Bloom filter"):
        BloomDuplicates(capacity=capacity, false_positives=rate)


def test_near_duplicates_are_masked_and_marked_as_outside_the_theorem():
    pytest.importorskip("datasketch")
    near = NearDuplicates(similarity=0.6)
    assert not near.in_theorem
    assert not near.seen("the parcel with the blue lamp came to me three weeks too late")
    assert near.seen("the parcel with the blue lamp came to me three weeks too late!")
    assert not near.seen("nobody in this office has ever answered a single letter of mine")
