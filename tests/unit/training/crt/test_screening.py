"""Tests of screening, which splits, deduplicates and redacts texts, in this order.

They also check which sentences are private, and the replay with a masked secret.
"""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from sugarbush.errors import InputError
from sugarbush.privacy.data_types import Private
from sugarbush.training.crt.dedup import MASK
from sugarbush.training.crt.findings import Finding
from sugarbush.training.crt.patterns import PlainWords, RegexDetector
from sugarbush.training.crt.redact import Policy
from sugarbush.training.crt.screening import changed_units, screen

POLICY = Policy([RegexDetector(["PHONE", "EMAIL"])])


class Neighbours:
    """A detector that reads context: it finds a number and the word before the number."""

    def find(self, texts):
        found = []
        for text in texts:
            words, place, own = text.split(" "), 0, []
            for word, following in zip(words, [*words[1:], ""], strict=True):
                if following.isdigit():
                    own.append(Finding(place, place + len(word), "BEFORE", 1.0))
                if word.isdigit():
                    own.append(Finding(place, place + len(word), "NUMBER", 1.0))
                place += len(word) + 1
            found.append(own)
        return found


def screened(*texts, **kwargs):
    return screen(Private(list(texts)), policy=POLICY, **kwargs)


def test_duplicates_are_found_before_anything_is_redacted():
    # If sentences were redacted before deduplication, the first two would be equal, and the second
    # would be removed.
    result = screened("Call 555-010-2345.", "Call 555-010-9999.", "Call 555-010-2345.")
    assert result.texts._per_unit == [f"Call {MASK}.", f"Call {MASK}.", MASK]


def test_without_a_conservative_policy_everything_is_private():
    result = screened("hello there", "call 555-010-2345")
    public, private = result.public_and_private()
    assert (public._per_unit, result.private_count()) == ([], 2)
    assert private._per_unit == ["hello there", f"call {MASK}"]


class Careless:
    """A conservative policy that declares every sentence public."""

    def is_public(self, texts):
        return [True] * len(texts)


def test_a_sentence_with_a_mask_is_private_whatever_the_policy_says():
    result = screened("hello there", "Hi. Call 555-010-2345. Bye.", conservative=Careless())
    assert result.views._per_unit == ["hello there", f"Hi. {MASK} Bye."]
    public, private = result.public_and_private()
    assert public._per_unit == result.views._per_unit
    assert private._per_unit == [f"Hi. Call {MASK}. Bye."]
    assert result.private_count() == 1


def test_a_run_of_private_sentences_is_one_mask():
    view = screened("We met. Room 7 then. Or Room 8.\nIt was late.", conservative=PlainWords())
    assert view.views._per_unit == [f"We met. {MASK}\nIt was late."]


def test_a_text_with_a_mask_alone_in_its_view_is_in_the_private_part_only():
    public, private = screened(
        "Room 7. Room 8.", "We met.", conservative=PlainWords()
    ).public_and_private()
    assert (public._per_unit, private._per_unit) == (["We met."], ["Room 7. Room 8."])


def test_a_known_sentence_with_a_mask_is_refused_because_it_spreads_a_secret():
    # If the secret is masked, "I am zorro." becomes the known sentence, so none of its copies
    # counts as a duplicate.
    texts = Private(["I am zorro."] * 6)
    for check in (
        lambda known: screen(texts, policy=POLICY, known=known),
        lambda known: changed_units(texts, "zorro", policy=POLICY, known=known),
    ):
        with pytest.raises(InputError, match="known sentence contains '<MASK>'"):
            check(frozenset({f"I am {MASK}."}))
    assert changed_units(texts, "zorro", policy=POLICY) == 1


_SAID = ["We met.", "It is late.", "Room zorro 7.", "My pin is zorro1", "Call 555-010-2345."]


@given(st.lists(st.lists(st.sampled_from(_SAID), max_size=5), max_size=6))
def test_the_public_part_is_the_same_when_a_secret_in_private_sentences_is_masked(documents):
    texts = [" ".join(sentences) for sentences in documents]
    # The replaced word is private, like a mask.
    replaced = [text.replace("zorro", "[hidden 9]") for text in texts]
    public, _ = screened(*texts, conservative=PlainWords()).public_and_private()
    other, _ = screened(*replaced, conservative=PlainWords()).public_and_private()
    assert public._per_unit == other._per_unit


def test_all_public_and_all_private_corpora_are_split_as_they_are():
    public, private = screened(
        "hello there", "we are late", conservative=PlainWords()
    ).public_and_private()
    assert (len(public._per_unit), len(private._per_unit)) == (2, 0)
    public, private = screened("Room 7", "Room 8", conservative=PlainWords()).public_and_private()
    assert (len(public._per_unit), len(private._per_unit)) == (0, 2)


def test_a_text_that_holds_the_mask_is_refused_and_not_quoted():
    with pytest.raises(InputError, match="record 2 contains") as caught:
        screened("fine", f"my name is {MASK} zorro")
    assert "zorro" not in str(caught.value)


@pytest.mark.parametrize(
    ("secret", "expected"),
    [
        ("555-010-2345", 0),  # this secret is found and leaves no trace
        ("Anna", 2),  # missed in two different sentences
        ("zorro", 1),  # missed in one sentence, which is in three records
        ("nowhere", 0),
    ],
)
def test_changed_units_counts_the_records_that_still_show_a_secret(secret, expected):
    texts = Private(
        [
            "Call 555-010-2345.",
            "I am Anna.",
            "Say zorro. Bye.",
            "Anna left.",
            "Say zorro.",
            "Say zorro.",
        ]
    )
    assert changed_units(texts, secret, policy=POLICY) == expected


def test_a_detector_that_relabels_the_neighbour_of_a_mask_shows_in_the_replay():
    # "room" is masked only beside a number. So if the number is masked, the rest of the text
    # changes. The replay shows this trace.
    texts = Private(["we met in room 12 today"])
    assert Policy([Neighbours()]).redact(texts._per_unit) == [f"we met in {MASK} today"]
    assert changed_units(texts, "12", policy=Policy([Neighbours()])) == 1


def test_a_secret_that_moves_the_end_of_a_sentence_counts_the_records_it_uncovers():
    # The full stop of the initial "J." does not end a sentence, but a full stop after a mask does.
    # So after masking, "Good bye." is a sentence of the first text, and its first occurrence.
    texts = Private(["I am Smith J. Good bye.", "Hi. Good bye."])
    assert changed_units(texts, "Smith J", policy=POLICY) == 2


def test_a_known_sentence_is_not_a_duplicate_and_is_redacted():
    known = frozenset({"How can I help?", "Call 555-010-2345."})
    result = screened(
        "How can I help? It is late.", "How can I help? It is late. Call 555-010-2345.", known=known
    )
    assert result.texts._per_unit == [
        "How can I help? It is late.",
        f"How can I help? {MASK} Call {MASK}.",
    ]


@given(
    st.lists(
        st.lists(st.sampled_from(["Hi.", "I am Anna.", "Anna, hi.", "Good bye."]), max_size=4),
        max_size=6,
    )
)
def test_known_sentences_do_not_spread_a_secret_that_is_in_none_of_them(documents):
    texts = Private([" ".join(sentences) for sentences in documents])
    known = frozenset({"Hi.", "Good bye."})
    distinct = {s for sentences in documents for s in sentences if "Anna" in s}
    assert changed_units(texts, "Anna", policy=POLICY, known=known) <= len(distinct)


def test_a_secret_in_a_known_sentence_moves_every_record_that_has_it():
    texts = Private(["I am Anna."] * 3)
    known = frozenset({"I am Anna."})
    assert changed_units(texts, "Anna", policy=POLICY) == 1
    assert changed_units(texts, "Anna", policy=POLICY, known=known) == 3


@given(
    st.lists(
        st.lists(
            st.sampled_from(["Hi.", "Call 555-010-2345.", "I am Anna.", "Anna, hi.", "So Anna.\n"]),
            max_size=4,
        ),
        max_size=6,
    )
)
def test_a_secret_moves_no_more_records_than_it_has_distinct_sentences(documents):
    texts = [" ".join(sentences) for sentences in documents]
    distinct = {s.strip() for sentences in documents for s in sentences if "Anna" in s}
    assert changed_units(Private(texts), "Anna", policy=POLICY) <= len(distinct)
    assert changed_units(Private(texts), "555-010-2345", policy=POLICY) == 0
