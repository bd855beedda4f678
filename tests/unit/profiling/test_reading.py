"""Tests the rules on texts and cells."""

from __future__ import annotations

import pytest

from sugarbush.profiling.layout import TERM_WORDS, TERMS_OF_RECORD, kind_of, value_of
from sugarbush.profiling.style import RULES, language, sentences, turns
from sugarbush.profiling.terms import terms


@pytest.mark.parametrize(
    ("rule", "yes", "no"),
    [
        ("begin with a greeting", "Hi there, my order", "This is high time"),
        ("begin with a greeting", "@shop hello again", "Helloween masks"),
        ("begin with a greeting", "Sehr geehrte Damen und Herren", "Liebesbrief gesucht"),
        ("begin with a mention (@name)", "@shop where is it", "mail me at a@b.example"),
        ("mention somebody (@name)", "ask @shop now", "mail a@b.example"),
        ("have a hashtag", "so late #fail", "order #12# x"[:5]),
        ("are all in lower case", "where is my order", "Where is my order"),
        ("have an emoji", "thanks 😀", "thanks :)"),
        ("have a link", "see https://shop.example/x", "see shop"),
        ("ask a question", "where is it?", "there it is."),
        ("have an exclamation mark", "never again!", "never again."),
        ("have a list", "I need:\n- a lamp\n- a chair", "a lamp - and a chair"),
        ("end with thanks or a sign-off", "Broken.\nRegards,\nAnn", "thanks to you I wait a week"),
        ("have digits", "order 17", "order"),
        ("name a price", "I paid $20 for it", "I paid for it"),
        ("have several paragraphs", "one\n\ntwo", "one two"),
        ("are dialogues with speaker names", "Agent: hi\nCustomer: hello", "Note: hello"),
    ],
)  # fmt: skip
def test_a_rule_tells_texts_apart(rule: str, yes: str, no: str) -> None:
    assert RULES[rule](yes)
    assert not RULES[rule](no)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I have not had a reply to this", "English"),
        ("Ich habe noch keine Antwort auf die Frage und das ist nicht gut", "German"),
        ("El pedido no ha llegado y no se por que", "Spanish"),
        ("Je ne suis pas content de la réponse", "French"),
        ("Заказ не пришёл", "Cyrillic script"),
        ("注文が届きません", "Japanese"),
        ("订单没有收到", "Chinese"),
        ("ok", "another language"),
    ],
)
def test_the_language_of_a_text(text: str, expected: str) -> None:
    assert language(text) == expected


def test_counts_of_parts() -> None:
    assert turns("Agent: a\nCustomer: b\nAgent: c") == 3
    assert turns("It is 12:30 now") == 0
    assert sentences("One. Two! Three?") == 3
    assert sentences("no end") == 1


@pytest.mark.parametrize(
    ("cell", "kind", "value"),
    [
        ("4", 4.0, "4"),
        ("4.0", 4.0, "4.0"),
        ("250.00", 250.0, "250.00"),
        ("1E3", "text", "1E3"),
        ("1e+03", 1000.0, "1e+03"),
        ("02139", "text", "02139"),
        (" Lamp ", "text", "Lamp"),
        ("two\nlines", "text", None),
        ("x" * 200, "text", None),
        ("[1, 2]", "nested", None),
        ("nan", "text", "nan"),
        ("", "empty", None),
        (None, "empty", None),
    ],
)
def test_the_kind_and_value_of_a_cell(cell: str | None, kind: object, value: str | None) -> None:
    assert kind_of(cell) == kind
    assert value_of(cell) == value


def test_terms_are_bounded_and_the_choice_is_the_same_for_all_texts() -> None:
    words = [f"{a}{b}ord" for a in "bcdfghklmn" for b in "aeiou"]
    one = terms(" ".join(words), key=b"k")
    other = terms(" ".join(reversed(words)), key=b"k")
    assert len([term for term in one if " " not in term]) == TERM_WORDS
    assert len(one) == TERMS_OF_RECORD
    assert {term for term in one if " " not in term} == {term for term in other if " " not in term}
    assert set(terms(" ".join(words), key=b"another")) != set(one)
