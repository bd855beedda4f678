from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sugarbush.errors import GeneratorError
from sugarbush.generators.interface import RandomRequest, Request, VariationRequest
from sugarbush.generators.prompts import (
    BLANK,
    SEPARATOR,
    TEXT_ALONE,
    continuation,
    estimate_tokens,
    instructions,
    render,
    with_blanks,
)

INDEPENDENT = RandomRequest(subject="customer-service dialogues")
METADATA = replace(INDEPENDENT, attributes=(("product_type", "lamp"), ("mood", "angry")))
EXAMPLES = replace(INDEPENDENT, examples=("My lamp broke.", "Where is my chair?"))
BOTH = replace(METADATA, examples=EXAMPLES.examples, words=40)
PARENT = "Agent: Hello, how may I help?\nCustomer: My parcel hasn't come; it's the third time."
VARIATION = VariationRequest(
    subject="customer-service dialogues", parent=PARENT, mask_share=0.5, words=16, sample=3
)


def prompt_of(request: Request, *, context_tokens: int = 4096, max_tokens: int = 256) -> str:
    return render(request, context_tokens=context_tokens, max_tokens=max_tokens)


def test_the_data_independent_prompt_holds_the_subject_and_nothing_else() -> None:
    assert prompt_of(INDEPENDENT) == (
        f"Write one new text for a collection of customer-service dialogues.\n\n{TEXT_ALONE}"
    )


def test_the_prompt_of_maple_holds_examples_then_metadata_then_the_length() -> None:
    assert prompt_of(BOTH) == (
        "Write one new text for a collection of customer-service dialogues.\n\n"
        "These are texts of the collection. Write in their language, form and style, about a case "
        "of your own; copy nothing from them.\n\n"
        "Example 1:\nMy lamp broke.\n\n"
        "Example 2:\nWhere is my chair?\n\n"
        f"{TEXT_ALONE}\n\n"
        "The new text is to fit this description:\n- product type: lamp\n- mood: angry\n\n"
        "Write about 40 words."
    )


@pytest.mark.parametrize("write", [render, continuation])
def test_prompts_differ_only_after_what_they_have_in_common(write: Any) -> None:
    """The second assertion fails if the length or an attribute comes before the examples."""
    other = replace(LABELLED, attributes=(("mood", "glad"),), words=12, sample=9)
    one, two = (write(each, context_tokens=4096, max_tokens=64) for each in (LABELLED, other))
    assert one != two
    last_example = one.index(LABELLED.examples[-1]) + len(LABELLED.examples[-1])
    assert one[:last_example] == two[:last_example]


def test_variations_have_their_parent_at_the_end() -> None:
    one, two = prompt_of(VARIATION), prompt_of(replace(VARIATION, parent="No lamp came.", words=9))
    assert one.endswith(f"The text:\n{with_blanks(PARENT, share=0.5, sample=3)}")
    instructions_end = one.index("Write about 16 words.")
    assert instructions_end > 400
    assert one[:instructions_end] == two[:instructions_end]


def test_metadata_alone_and_examples_alone_are_each_possible() -> None:
    assert "- mood: angry" in prompt_of(METADATA)
    assert "Example" not in prompt_of(METADATA)
    assert "My lamp broke." in prompt_of(EXAMPLES)
    assert "description" not in prompt_of(EXAMPLES)


def test_a_variation_shows_the_parent_with_half_of_its_words_blank() -> None:
    prompt = prompt_of(VARIATION)
    masked = with_blanks(PARENT, share=0.5, sample=3)
    assert masked in prompt
    assert PARENT not in prompt
    assert masked.count(BLANK) == 8  # half of 15 words
    assert "Write about 16 words." in prompt


def test_lines_and_punctuation_of_the_parent_stay_where_words_are_blank() -> None:
    masked = with_blanks(PARENT, share=1.0, sample=3)
    assert masked == "_: _, _ _ _ _?\n_: _ _ _ _; _ _ _ _."


def test_equal_samples_blank_the_same_words_and_others_do_not() -> None:
    one = with_blanks(PARENT, share=0.5, sample=3)
    assert one == with_blanks(PARENT, share=0.5, sample=3)
    assert len({with_blanks(PARENT, share=0.5, sample=sample) for sample in range(20)}) > 15


def test_chinese_is_blanked_character_by_character() -> None:
    assert with_blanks("我的包裹没有到。", share=1.0, sample=1) == "_______。"


@given(
    words=st.lists(st.text(alphabet="abcß", min_size=1, max_size=5), min_size=1, max_size=40),
    share=st.floats(min_value=0.05, max_value=1),
    sample=st.integers(min_value=0, max_value=2**62),
)
def test_the_asked_share_of_words_is_blank_and_the_others_are_unchanged(
    words: list[str], share: float, sample: int
) -> None:
    masked = with_blanks(" ".join(words), share=share, sample=sample).split(" ")
    assert sum(word == BLANK for word in masked) == max(1, round(share * len(words)))
    assert all(new in (old, BLANK) for old, new in zip(words, masked, strict=True))


def test_a_tiny_mask_share_asks_for_the_text_said_anew() -> None:
    prompt = prompt_of(replace(VARIATION, mask_share=0.01))
    assert PARENT in prompt
    assert "Write it anew" in prompt
    assert "blank" not in prompt


def test_tone_and_length_are_asked_for_only_where_they_are_given() -> None:
    assert "Write in a polite tone. Write about 16 words." in prompt_of(
        replace(VARIATION, tone="polite")
    )
    prompt = prompt_of(replace(VARIATION, words=None))
    assert " tone" not in prompt
    assert "Write about" not in prompt


def test_a_prompt_that_fits_is_not_shortened() -> None:
    long = replace(BOTH, examples=tuple(f"{i} " + "word " * 50 for i in range(10)))
    assert prompt_of(long).count("Example") == 10


def test_the_longest_example_goes_first_and_the_others_keep_their_order() -> None:
    examples = ("first " * 20, "giant " * 400, "second " * 20)
    prompt = prompt_of(replace(EXAMPLES, examples=examples), context_tokens=600)
    assert "giant" not in prompt
    assert prompt.index("Example 1:\nfirst") < prompt.index("Example 2:\nsecond")


def test_of_equally_long_examples_the_last_goes_first() -> None:
    examples = ("a " * 200, "b " * 200, "c " * 200)
    prompt = prompt_of(replace(EXAMPLES, examples=examples), context_tokens=710)
    assert "a a" in prompt
    assert "b b" in prompt
    assert "c c" not in prompt


@given(
    lengths=st.lists(st.integers(min_value=0, max_value=3000), max_size=12),
    context_tokens=st.integers(min_value=300, max_value=6000),
    max_tokens=st.integers(min_value=1, max_value=100),
)
def test_no_prompt_ever_overflows_the_context(
    lengths: list[int], context_tokens: int, max_tokens: int
) -> None:
    request = replace(BOTH, examples=tuple("x" * length for length in lengths))
    prompt = prompt_of(request, context_tokens=context_tokens, max_tokens=max_tokens)
    assert estimate_tokens(prompt) + max_tokens < context_tokens


def test_a_real_token_counter_decides_where_there_is_one() -> None:
    request = replace(EXAMPLES, examples=("word " * 100,))
    prompt = render(
        request, context_tokens=300, max_tokens=40, count_tokens=lambda text: len(text.split())
    )
    # By the given count of tokens the example fits into the prompt. By the estimate from bytes it
    # does not fit.
    assert "word word" in prompt
    assert "word word" not in prompt_of(request, context_tokens=300, max_tokens=40)


def test_a_prompt_that_is_too_long_without_examples_says_what_to_change() -> None:
    request = replace(VARIATION, parent="secretive " * 500, examples=("short",))
    with pytest.raises(GeneratorError, match="max_tokens") as caught:
        prompt_of(request, context_tokens=512)
    assert "secretive" not in str(caught.value)


def test_the_instructions_hold_no_text_that_is_shown() -> None:
    request = replace(VARIATION, examples=("an example",))
    bare = instructions(request)
    assert "Leave no blank." in bare
    assert "parcel" not in bare
    assert "an example" not in bare


def test_a_continuation_is_a_list_with_the_next_place_open() -> None:
    prompt = continuation(BOTH, context_tokens=1024, max_tokens=128)
    assert prompt == (
        "Customer-service dialogues (product type: lamp; mood: angry):\n"
        f"{SEPARATOR}\n[3 words]\nMy lamp broke.\n{SEPARATOR}\n[4 words]\nWhere is my chair?\n"
        f"{SEPARATOR}\n[40 words]\n"
    )


LABELLED = replace(BOTH, example_attributes=((("product_type", "lamp"), ("mood", "calm")), ()))


def test_a_continuation_names_the_known_attributes_of_each_example() -> None:
    prompt = continuation(LABELLED, context_tokens=1024, max_tokens=128)
    assert prompt == (
        "Customer-service dialogues:\n"
        f"{SEPARATOR}\n[product type: lamp; mood: calm; 3 words]\nMy lamp broke.\n{SEPARATOR}\n"
        f"[4 words]\nWhere is my chair?\n{SEPARATOR}\n"
        "[product type: lamp; mood: angry; 40 words]\n"
    )


def test_code_numbers_stay_in_the_heading() -> None:
    codes = (("category", "4"), ("urgency", "3"))
    request = replace(LABELLED, attributes=codes, example_attributes=(codes, codes))
    prompt = continuation(request, context_tokens=1024, max_tokens=128)
    assert prompt.startswith("Customer-service dialogues (category: 4; urgency: 3):")
    assert prompt.count("category") == 1


def test_an_example_that_does_not_fit_is_left_out_with_its_attributes() -> None:
    request = replace(LABELLED, examples=("long " * 400, "Where is my chair?"))
    prompt = continuation(request, context_tokens=300, max_tokens=100)
    assert "calm" not in prompt
    assert prompt.endswith(f"[4 words]\nWhere is my chair?\n{SEPARATOR}\n[40 words]\n")


def test_attributes_of_examples_do_not_change_the_seed_of_a_text() -> None:
    assert repr(LABELLED) == repr(BOTH)
    varied = replace(VARIATION, example_attributes=LABELLED.example_attributes)
    assert repr(varied) == repr(VARIATION)


def test_a_continuation_of_a_variation_ends_with_the_parent() -> None:
    prompt = continuation(VARIATION, context_tokens=1024, max_tokens=128)
    assert prompt.endswith(f"\n{SEPARATOR}\n{PARENT}\n{SEPARATOR}\n")


def test_a_continuation_is_shortened_as_well() -> None:
    request = replace(EXAMPLES, examples=("short", "long " * 400))
    prompt = continuation(request, context_tokens=300, max_tokens=100)
    assert "short" in prompt
    assert "long" not in prompt


def test_the_language_of_the_schema_is_asked_for_and_english_is_not() -> None:
    german = replace(BOTH, language="de")
    assert "Write in German. Write about 40 words." in prompt_of(german)
    assert prompt_of(replace(german, language="en")) == prompt_of(BOTH)
    assert "Write in Portuguese (pt-BR)." in prompt_of(replace(VARIATION, language="pt-BR"))
    text = continuation(german, context_tokens=1024, max_tokens=64)
    assert "(product type: lamp; mood: angry), in German:" in text
    assert repr(german) == repr(BOTH), "generators derive the seed of a text from this string"
