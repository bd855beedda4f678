import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sugarbush.errors import InvariantError
from sugarbush.examples.simulator.agenda import GRAMMAR, setting_for
from sugarbush.examples.simulator.dice import Dice
from sugarbush.examples.simulator.document import (
    Need,
    Part,
    Voice,
    count_words,
    fit,
    parse,
    render,
    voice_of,
)
from sugarbush.examples.simulator.grammar import Grammar, mark, tidy, unmark


def test_a_template_takes_each_alternative_and_fills_slots_and_rules() -> None:
    grammar = Grammar({"greeting": ("[Hi|Hello[ there|]], {who}",), "who": ("you",)})
    written = {grammar.write("greeting", Dice(1, i), {}) for i in range(60)}
    assert written == {"Hi, you", "Hello, you", "Hello there, you"}
    assert grammar.write("who", Dice(1), {}) == "you"
    assert grammar.write("greeting", Dice(1), {"who": "Ada"}).endswith("Ada")


@pytest.mark.parametrize("template", ["[one|two", "one]", "one|two", "{who", "[a[b]"])
def test_a_template_that_does_not_close_is_a_fault_of_ours(template: str) -> None:
    with pytest.raises(InvariantError):
        Grammar({"rule": (template,)})


def test_a_name_that_nothing_fills_is_a_fault_of_ours() -> None:
    with pytest.raises(InvariantError, match="who"):
        Grammar({"rule": ("{who}",)}).write("rule", Dice(1), {})


def test_every_rule_of_the_agenda_finds_its_slots() -> None:
    slots = setting_for("service", (), Dice(1)).slots
    assert not {name for name in GRAMMAR.names() if name not in slots and name not in GRAMMAR}


@given(st.lists(st.tuples(st.text("ab .,", max_size=8), st.text("XY ", min_size=1, max_size=5))))
def test_marks_become_spans_that_point_at_their_values(pieces: list[tuple[str, str]]) -> None:
    marked = "".join(before + mark("NAME", value) for before, value in pieces)
    text, spans = unmark(marked)
    assert text == "".join(before + value for before, value in pieces)
    assert [span.value for span in spans] == [value for _, value in pieces]
    assert all(text[span.start : span.end] == span.value for span in spans)


@pytest.mark.parametrize(
    ("untidy", "tidied"),
    [
        ("a  apple , and a tent", "An apple, and a tent"),
        ("so. what now? fine", "So. What now? Fine"),
        ("  I saw a one-off ", "I saw a one-off"),
    ],
)
def test_tidying_mends_articles_blanks_and_capitals(untidy: str, tidied: str) -> None:
    assert tidy(untidy) == tidied


@pytest.mark.parametrize(
    "text",
    [
        "Agent: Hello. How are you?\nCustomer: Fine.",
        "Desk> Docket first?\nMember> FH-1, Mr. Gill.",
        "One line only, no speaker.",
        "Subject: a lamp\nDear all,\nIt broke. Please help.",
    ],
)
def test_a_text_that_was_parsed_is_rendered_as_it_was(text: str) -> None:
    assert render(parse(text)) == text


def test_a_dialogue_on_one_line_is_told_apart_by_its_speakers() -> None:
    parts = parse("Agent: Hello. Customer: My lamp broke. It is new. Agent: Oh dear.")
    assert [part.speaker for part in parts] == ["Agent: ", "Customer: ", "Customer: ", "Agent: "]


@given(st.text(st.characters(exclude_characters=":>]"), max_size=200))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_any_text_can_be_parsed_and_loses_no_letter(text: str) -> None:
    assert "".join(render(parse(text)).split()) == "".join(text.split())


@pytest.mark.parametrize(
    ("speakers", "voices"),
    [
        (("Agent: ", "Customer: "), (Voice.AGENT, Voice.CUSTOMER)),
        (("Patient: ", "Doctor: "), (Voice.CUSTOMER, Voice.AGENT)),
        (("A: ", "B: "), (Voice.AGENT, Voice.CUSTOMER)),
        (("", ""), (Voice.NOTE, Voice.NOTE)),
    ],
)
def test_speakers_are_told_by_name_and_else_by_order(
    speakers: tuple[str, ...], voices: tuple[Voice, ...]
) -> None:
    parts = [Part(turn, speaker, "words") for turn, speaker in enumerate(speakers)]
    assert tuple(voice_of(speaker, parts) for speaker in speakers) == voices


def test_fitting_drops_what_is_least_needed_and_keeps_what_was_wished() -> None:
    parts = [
        Part(0, "", "one two three four five six.", Need.STEP),
        Part(0, "", "seven eight nine ten eleven twelve.", Need.DETAIL),
        Part(0, "", "thirteen fourteen fifteen sixteen.", Need.WISHED),
    ]
    assert [p.need for p in fit(parts, 10, more=lambda _: None)] == [Need.STEP, Need.WISHED]
    assert [p.need for p in fit(parts, 1, more=lambda _: None)] == [Need.WISHED]


def test_fitting_adds_until_it_is_long_enough_or_nothing_is_left() -> None:
    parts = [Part(0, "", "one two three.", Need.STEP)]
    long = fit(parts, 30, more=lambda p: (len(p) - 1, f"and {len(p)} more words here."))
    assert abs(count_words(long) - 30) <= 4
    assert fit(parts, 30, more=lambda _: None) == parts


def test_dice_with_the_same_names_fall_alike_and_others_do_not() -> None:
    first, again, other = (Dice(1, name) for name in ("a", "a", "b"))
    draws = [[dice.below(1000) for _ in range(600)] for dice in (first, again, other)]
    assert draws[0] == draws[1] != draws[2]


def test_weighted_dice_follow_the_weights() -> None:
    # 6,000 draws at 1/6: deviation 28.9; five of them are a false alarm in two million.
    dice = Dice(3)
    drawn = [dice.weighted({"a": 1.0, "b": 5.0, "c": 0.0}) for _ in range(6000)]
    assert abs(drawn.count("a") - 1000) < 5 * 28.9
    assert "c" not in drawn
