"""Generated texts: spans are where the values are, and no text depends on another."""

import pytest

from sugarbush.examples.seeded_random import SeededRandom
from sugarbush.training.redactor.labels import kind_of_label
from sugarbush.training.redactor.texts import generated_texts
from sugarbush.training.redactor.values import (
    CHECKED_LOCALES,
    KINDS,
    LOCALES,
    SECRET_KINDS,
    spelled_out,
)


@pytest.fixture(scope="module")
def texts():
    return list(generated_texts(3, 150))


def test_every_kind_occurs_and_spans_are_disjoint_parts_of_their_text(texts):
    kinds = set()
    for one in texts:
        end_before = 0
        for start, end, kind in one.spans:
            assert end_before <= start < end <= len(one.text)
            end_before = end
            kinds.add(kind)
    assert kinds == set(KINDS)


def test_a_text_depends_on_its_number_alone(texts):
    again = list(generated_texts(3, 20))
    assert again == texts[:20]
    assert list(generated_texts(4, 20)) != again


def test_marks_and_slots_never_stay_in_a_text(texts):
    for one in texts:
        assert not set(one.text) & set("\x02\x03\x04{}")


def test_the_check_texts_have_locales_of_their_own(texts):
    assert not set(LOCALES) & set(CHECKED_LOCALES)
    assert list(generated_texts(3, 5, checked=True)) != texts[:5]


def test_some_texts_are_in_lower_case_and_some_have_no_secret(texts):
    assert any(one.text.islower() and one.spans for one in texts)
    assert any(not {k for *_, k in one.spans} & set(SECRET_KINDS) for one in texts)


def test_a_number_is_spelled_out_completely():
    rng = SeededRandom(1, "spoken")
    for _ in range(50):
        said = spelled_out("+44 7700-900-118", rng)
        assert not any(c.isdigit() for c in said)


def test_labels_of_other_schemas_become_kinds():
    wanted = {
        "PERSON": "NAME", "STREET_ADDRESS": "ADDRESS", "Post": "ADDRESS", "PHONE_NUMBER": "PHONE",
        "EMAIL_ADDRESS": "EMAIL", "CREDIT_CARD": "NUMBER", "US_SSN": "NUMBER", "DATE_TIME": "",
        "recipient_name": "NAME", "GPE": "PLACE", "AGE": "",
    }  # fmt: skip
    assert {label: kind_of_label(label) for label in wanted} == wanted
