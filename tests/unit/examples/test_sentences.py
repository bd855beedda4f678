import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sugarbush.errors import InvariantError
from sugarbush.examples.data_files import load_yaml
from sugarbush.examples.grammar import Grammar, mark, tidy, unmark
from sugarbush.examples.seeded_random import SeededRandom
from sugarbush.examples.simulator import context
from sugarbush.examples.simulator.utterances import (
    Importance,
    Role,
    Utterance,
    count_words,
    fit,
    parse,
    render,
    role_of,
)


def test_a_template_takes_each_alternative_and_fills_slots_and_rules() -> None:
    grammar = Grammar({"greeting": ("[Hi|Hello[ there|]], {who}",), "who": ("you",)})
    written = {grammar.write("greeting", SeededRandom(1, i), {}) for i in range(60)}
    assert written == {"Hi, you", "Hello, you", "Hello there, you"}
    assert grammar.write("who", SeededRandom(1), {}) == "you"
    assert grammar.write("greeting", SeededRandom(1), {"who": "Ada"}).endswith("Ada")


@pytest.mark.parametrize("template", ["[one|two", "one]", "one|two", "{who", "[a[b]"])
def test_an_unmatched_bracket_is_an_invariant_error(template: str) -> None:
    with pytest.raises(InvariantError):
        Grammar({"rule": (template,)})


def test_a_name_without_slot_or_rule_is_an_invariant_error() -> None:
    with pytest.raises(InvariantError, match="who"):
        Grammar({"rule": ("{who}",)}).write("rule", SeededRandom(1), {})


@pytest.mark.parametrize("file", ["sentences", "issues", "values"])
def test_every_name_in_a_sentence_is_a_slot_or_a_rule(file: str) -> None:
    path = Path(context.__file__).parent / "data" / f"{file}.yaml"
    names = set(re.findall(r"\{(\w+)\}", path.read_text()))
    rules = load_yaml(path).get("sentences", {})
    assert names <= set(context.new_context("service", (), SeededRandom(1)).slots) | set(rules)


@given(st.lists(st.tuples(st.text("ab .,", max_size=8), st.text("XY ", min_size=1, max_size=5))))
def test_spans_are_at_the_marked_values(pieces: list[tuple[str, str]]) -> None:
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
def test_tidy_corrects_articles_blanks_and_capitals(untidy: str, tidied: str) -> None:
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
def test_a_parsed_text_is_rendered_unchanged(text: str) -> None:
    assert render(parse(text)) == text


def test_speakers_split_a_dialogue_on_one_line() -> None:
    utterances = parse("Agent: Hello. Customer: My lamp broke. It is new. Agent: Oh dear.")
    assert [utterance.speaker for utterance in utterances] == [
        "Agent: ",
        "Customer: ",
        "Customer: ",
        "Agent: ",
    ]


@given(st.text(st.characters(exclude_characters=":>]"), max_size=200))
@settings(max_examples=100)
def test_parsing_any_text_loses_no_letter(text: str) -> None:
    assert "".join(render(parse(text)).split()) == "".join(text.split())


@pytest.mark.parametrize(
    ("speakers", "roles"),
    [
        (("Agent: ", "Customer: "), (Role.AGENT, Role.CUSTOMER)),
        (("Patient: ", "Doctor: "), (Role.CUSTOMER, Role.AGENT)),
        (("A: ", "B: "), (Role.AGENT, Role.CUSTOMER)),
        (("", ""), (Role.NOTE, Role.NOTE)),
    ],
)
def test_roles_depend_on_the_names_or_else_on_the_order(
    speakers: tuple[str, ...], roles: tuple[Role, ...]
) -> None:
    utterances = [Utterance(turn, speaker, "words") for turn, speaker in enumerate(speakers)]
    assert tuple(role_of(speaker, utterances) for speaker in speakers) == roles


def test_fit_drops_the_least_important_and_keeps_the_required() -> None:
    utterances = [
        Utterance(0, "", "one two three four five six.", Importance.STEP),
        Utterance(0, "", "seven eight nine ten eleven twelve.", Importance.DETAIL),
        Utterance(0, "", "thirteen fourteen fifteen sixteen.", Importance.REQUIRED),
    ]
    assert [p.importance for p in fit(utterances, 10, more=lambda _: None)] == [
        Importance.STEP,
        Importance.REQUIRED,
    ]
    assert [p.importance for p in fit(utterances, 1, more=lambda _: None)] == [Importance.REQUIRED]


def test_fit_adds_until_the_text_is_long_enough_or_nothing_is_left() -> None:
    utterances = [Utterance(0, "", "one two three.", Importance.STEP)]
    long = fit(utterances, 30, more=lambda p: (len(p) - 1, f"and {len(p)} more words here."))
    assert abs(count_words(long) - 30) <= 4
    assert fit(utterances, 30, more=lambda _: None) == utterances


def test_equal_names_give_equal_choices_and_other_names_do_not() -> None:
    first, again, other = (SeededRandom(1, name) for name in ("a", "a", "b"))
    draws = [[rng.below(1000) for _ in range(600)] for rng in (first, again, other)]
    assert draws[0] == draws[1] != draws[2]


def test_weighted_choices_follow_the_weights() -> None:
    # In 6,000 draws with probability 1/6, the count has a standard deviation of 28.9. A limit of
    # five standard deviations gives one false alarm in two million runs.
    rng = SeededRandom(3)
    drawn = [rng.weighted_key({"a": 1.0, "b": 5.0, "c": 0.0}) for _ in range(6000)]
    assert abs(drawn.count("a") - 1000) < 5 * 28.9
    assert "c" not in drawn
