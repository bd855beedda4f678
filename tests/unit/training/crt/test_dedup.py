"""Tests of splitting into sentences, which loses no text, and of removing later duplicates."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from sugarbush.training.crt.dedup import MASK, mask_duplicates
from sugarbush.training.crt.sentences import joined, split


def deduplicated(texts):
    return [joined(s) for s in mask_duplicates(split(text) for text in texts)]


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


@pytest.mark.timeout(60)
@pytest.mark.parametrize("unit", [".", ".'", "a.", ". ", "?\n", "'"])
def test_sentences_take_time_linear_in_the_text(unit):
    text = unit * (100_000 // len(unit)) + "x"
    assert "".join(s.text + s.space for s in split(text)) == text


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


@pytest.mark.parametrize(
    "other", ["my pin is 7.", "My  PIN is 7.", "My PIN is 7", "\uff2dy PIN is 7."]
)
def test_only_an_equal_sentence_is_a_duplicate(other):
    """The theorem needs this: a looser comparison lets one secret change other sentences."""
    assert deduplicated(["My PIN is 7.", other]) == ["My PIN is 7.", other]
