from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sugarbush.generators.answer_checks import bare_text, check, language, script
from sugarbush.generators.control_tokens import final_text
from sugarbush.generators.interface import Problem, RandomRequest, Request, VariationRequest
from sugarbush.generators.prompts import BLANK, TEXT_ALONE, instructions, with_blanks

GOOD = (
    "Customer: I ordered a brass lamp on Monday and the shade came cracked. Agent: I am sorry to "
    "hear that, and I will send you a new shade today at no cost."
)
OTHER = (
    "Customer: The chair that you delivered to my house has only three legs. Agent: That should "
    "not have happened; our carrier will fetch it on Friday and bring another one."
)
PARENT = (
    "Customer: My parcel was to come last week and nobody can tell me where it is. Agent: It is "
    "still in our depot at the harbour, and a driver will bring it to you before noon."
)
ASK = RandomRequest(subject="customer-service dialogues", examples=(OTHER,), words=30)
VARY = VariationRequest(subject="customer-service dialogues", parent=PARENT, mask_share=0.5)

GERMAN = (
    "Der Kunde hat sich bei uns gemeldet, weil die Lampe nicht mit dem Paket gekommen ist, und wir "
    "haben ihm auch gleich eine neue geschickt."
)
FRENCH = (
    "Le client nous a écrit que la lampe est arrivée avec un pied cassé, et nous avons promis une "
    "autre lampe pour la semaine qui vient, sans frais."
)
SPANISH = (
    "El cliente nos llamó porque la lámpara que pidió no llegó con el paquete, y una compañera le "
    "dijo que se la mandamos por correo para el lunes."
)
ITALIAN = (
    "Il cliente ci ha scritto che la lampada non era nel pacco, e una collega gli ha detto che per "
    "il lunedì ne arriva una nuova, come da contratto del negozio."
)
PORTUGUESE = (
    "O cliente disse que a lâmpada não veio com o pacote, e a nossa colega mandou uma nova para a "
    "casa dele, mas ele não quis mais esperar por ela."
)
DUTCH = (
    "De klant heeft ons geschreven dat het pakket er niet is, en wij hebben met een collega van "
    "het magazijn gesproken, die een nieuwe lamp op de post doet."
)
RUSSIAN = "Клиент написал нам, что лампа пришла без абажура, и мы сразу отправили ему новый."
JAPANESE = "ランプの箱を開けたところ、笠が割れていました。新しいものを送ってください。"


def problem_of(
    text: str | None, request: Request = ASK, *, finish_reason: str | None = "stop"
) -> Problem | None:
    return check(text, request, finish_reason)


def test_a_good_answer_has_no_problem() -> None:
    assert problem_of(GOOD) is None
    assert problem_of(GOOD, VARY) is None
    assert problem_of(GOOD, RandomRequest(subject="letters")) is None


@pytest.mark.parametrize("text", [None, "", "  \n\t ", "#", "...", "---\n***"])
def test_nothing_is_empty(text: str | None) -> None:
    assert problem_of(text) is Problem.EMPTY


@pytest.mark.parametrize("text", ["👍", "7", "да", "ok"])
def test_a_short_message_is_not_empty(text: str) -> None:
    assert problem_of(text) is not Problem.EMPTY


def test_an_answer_that_was_cut_off_is_truncated_whatever_it_says() -> None:
    assert problem_of(GOOD, finish_reason="length") is Problem.TRUNCATED
    assert problem_of("", finish_reason="length") is Problem.TRUNCATED


def test_a_content_filter_refuses() -> None:
    assert problem_of(GOOD, finish_reason="content_filter") is Problem.REFUSAL


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, but I can't assist with that.",
        "I’m sorry, but I cannot help with this request.",
        "Sorry, I can't help you with that.",
        "I cannot fulfill this request.",
        "I am unable to generate that kind of content.",
        "Unfortunately, I will not write such a text.",
        "As an AI language model, I do not have customers of my own.",
        "I'm just a program. As a large language model I cannot know this.",
        "Es tut mir leid, aber ich kann diesen Text nicht schreiben.",
        "Je suis désolé, mais je ne peux pas écrire ce texte.",
        "Lo siento, pero no puedo ayudar con eso.",
        "Mi dispiace, ma non posso scrivere questo testo.",
    ],
)
def test_refusals_are_known(text: str) -> None:
    assert problem_of(text, RandomRequest(subject="letters")) is Problem.REFUSAL


@pytest.mark.parametrize(
    "text",
    [
        "I can't create an account on your site, please help.",
        "I am unable to complete my order since Tuesday.",
        "Sorry to bother you, but I cannot open the box that you sent me.",
        "Unfortunately I cannot provide the receipt any more.",
        "Agent: I'm sorry, but I can't find your order under that number.",
        "Customer: Can you help me with that? Agent: Of course, I can.",
    ],
)
def test_a_customer_who_cannot_do_something_does_not_refuse(text: str) -> None:
    assert problem_of(text, RandomRequest(subject="letters")) is None


def test_a_corpus_of_refusals_may_be_answered_with_one() -> None:
    corpus = RandomRequest(
        subject="answers of assistants", examples=("I cannot help with that. Ask a doctor.",)
    )
    assert problem_of("I'm sorry, I can't assist with this. Ask a lawyer.", corpus) is None


@pytest.mark.parametrize(
    "text",
    [
        '{"text": "My lamp broke."}',
        '[{"role": "user", "content": "My lamp"}]',
        '{"text": "cut off in the mid',
        "```json\n{}\n```",
        "```\nMy lamp broke.\n```",
        "<p>My lamp broke.</p>",
        "# My lamp\n\nIt broke on the first day.",
        "**Complaint**\nMy lamp broke.",
        "Sure! Here is a dialogue:\n\nCustomer: My lamp broke.",
        "Certainly, here's one about a lamp. Customer: It broke.",
        "Here is a rewritten version of the text:\nMy lamp broke.",
    ],
)
def test_json_markup_and_talk_about_the_text_are_no_text(text: str) -> None:
    assert problem_of(text, RandomRequest(subject="letters")) is Problem.NOT_TEXT


@pytest.mark.parametrize(
    "text",
    [
        "I'm ready to help you edit your text. Let's create a text of your choice.",
        "Sure! I'd be happy to assist you with your request.",
        "The 70-word text is: How to shop.",
        "This text is in the format of a letter.",
        "The text describes a lamp that broke.",
    ],
)
def test_an_assistant_that_offers_help_or_describes_the_text_writes_none(text: str) -> None:
    assert problem_of(text, RandomRequest(subject="letters")) is Problem.NOT_TEXT


def test_a_corpus_of_offers_to_help_may_be_answered_with_one() -> None:
    corpus = RandomRequest(subject="chats", examples=("I am here to help you edit your text.",))
    assert problem_of("I'm happy to assist with any requests today.", corpus) is None


@pytest.mark.parametrize(
    "text",
    [
        "I would be happy to help if somebody told me where the lamp is.",
        "I am glad to assist your driver at the door.",
        "The text message came too late.",
    ],
)
def test_a_customer_may_be_glad_to_help(text: str) -> None:
    assert problem_of(text, RandomRequest(subject="letters")) is None


@pytest.mark.parametrize("strange", ["\ud83d", "\x00", "\x1b[31m", "\x7f"])
def test_what_no_file_can_hold_and_nobody_types_is_no_text(strange: str) -> None:
    assert problem_of(f"{GOOD} {strange}") is Problem.NOT_TEXT
    assert problem_of(f"{GOOD}\r\n\tAgent: Done. \U0001f600") is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<think>They want a letter.</think>\n\nMy lamp broke.", "My lamp broke."),
        ("They want a letter.</THINK>My lamp broke.", "My lamp broke."),
        ("[THINK]A letter.[/THINK]My lamp broke.", "My lamp broke."),
        ("My lamp broke, I think.", "My lamp broke, I think."),
        ("<think>They want a letter, and", "<think>They want a letter, and"),
    ],
)
def test_what_a_model_thinks_aloud_is_not_what_it_says(text: str, said: str) -> None:
    assert final_text(text) == said


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ('"My lamp broke."', "My lamp broke."),
        ("<think>A letter.</think>\n“My lamp broke.”\n", "My lamp broke."),
        ('"My lamp" and "my chair"', '"My lamp" and "my chair"'),
        ('My "lamp"', 'My "lamp"'),
        ('"', '"'),
        ('""', '""'),
    ],
)
def test_quotation_marks_around_a_text_are_not_the_text(said: str, text: str) -> None:
    assert bare_text(said, RandomRequest(subject="letters")) == text


def test_quotation_marks_stay_where_the_corpus_has_them() -> None:
    corpus = RandomRequest(subject="proverbs", examples=('"Still waters run deep."',))
    assert (
        bare_text('"Make hay while the sun shines."', corpus) == '"Make hay while the sun shines."'
    )


@pytest.mark.parametrize(
    "text",
    [
        "[laughs] My lamp broke on the first day.",
        "#lamp #broken what a day it was",
        "1 < 2 lamps, so please send the other one.",
        "Sure, I will send it. Here is my address: 3 Acorn Street.",
        "{unreadable} was the name on the box",
    ],
)
def test_brackets_and_hashtags_alone_are_no_markup(text: str) -> None:
    assert problem_of(text, RandomRequest(subject="letters")) is None


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.parametrize("unit", [" ", "{", "[", "\n", "# ", "*", "<a ", "_ ", "(", '"', "“"])
def test_an_endpoint_cannot_stop_the_checks_with_a_long_answer(unit: str) -> None:
    for start in ("", "{", "example"):
        answer = start + unit * (200_000 // len(unit)) + "x"
        check(bare_text(answer, ASK), ASK, "stop")


def test_json_is_right_where_the_examples_are_json() -> None:
    corpus = RandomRequest(subject="records", examples=('{"item": "chair"}',))
    assert problem_of('{"item": "lamp"}', corpus) is None


def test_an_answer_that_repeats_the_instructions_is_told() -> None:
    assert TEXT_ALONE in instructions(ASK)
    assert problem_of(f"{GOOD} {TEXT_ALONE}") is Problem.COPIED_PROMPT
    assert problem_of(instructions(VARY), VARY) is Problem.COPIED_PROMPT


def test_what_is_said_about_examples_is_an_instruction_too() -> None:
    echoed = "These are texts of the collection. Write in their language, form and style, about it."
    assert problem_of(echoed) is Problem.COPIED_PROMPT
    assert problem_of(echoed, RandomRequest(subject="letters")) is None


def test_the_label_of_an_example_is_told() -> None:
    assert problem_of(f"Example 2:\n{GOOD}") is Problem.COPIED_PROMPT


def test_blanks_that_were_left_are_told_in_a_variation_only() -> None:
    unfilled = GOOD.replace("brass", BLANK).replace("Monday", BLANK)
    assert problem_of(unfilled, VARY) is Problem.COPIED_PROMPT
    assert problem_of(unfilled, RandomRequest(subject="forms")) is None
    blanks_of_its_own = replace(VARY, parent=f"Name: {BLANK} Date: {BLANK}")
    assert problem_of(unfilled, blanks_of_its_own) is None


def test_a_copied_example_is_told_whole_in_part_and_within_more() -> None:
    half = " ".join(OTHER.split()[:15])
    for text in (OTHER, OTHER.upper(), half, f"{GOOD} {OTHER} {GOOD}"):
        assert problem_of(text) is Problem.COPIED_EXAMPLE


def test_a_short_text_is_a_copy_only_when_it_is_equal() -> None:
    ask = replace(ASK, examples=("Thanks, it works again!",))
    assert problem_of("thanks, it works again", ask) is Problem.COPIED_EXAMPLE
    assert problem_of("Thanks, it works", ask) is None


def test_what_all_examples_share_may_be_shared() -> None:
    greeting = (
        "Agent: Welcome to the lamp and chair shop of the harbour, how may I help you today? "
    )
    bodies = [f"Customer: My {thing} is late by {n} days." for n, thing in enumerate("abcdef", 2)]
    ask = replace(ASK, examples=tuple(greeting + body for body in bodies))
    assert problem_of(greeting + "Customer: The door is stuck.", ask) is None
    one = replace(ASK, examples=ask.examples[:1])
    assert problem_of(greeting + "Customer: The door is stuck.", one) is Problem.COPIED_EXAMPLE


def test_a_variation_that_is_its_parent_is_a_copy() -> None:
    for text in (PARENT, PARENT.lower(), PARENT.replace(". ", ".\n"), f"{PARENT} Thank you."):
        assert problem_of(text, VARY) is Problem.COPIED_PARENT


def test_a_copy_that_only_breaks_off_early_is_a_copy() -> None:
    assert problem_of(PARENT[:120], VARY) is Problem.COPIED_PARENT


@given(share=st.floats(min_value=0.05, max_value=1), sample=st.integers(0, 1000))
def test_a_variation_with_all_its_blanks_filled_anew_is_no_copy(share: float, sample: int) -> None:
    parent = " ".join([PARENT, GOOD, OTHER])
    words = iter(f"new{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(300))
    masked = with_blanks(parent, share=share, sample=sample)
    filled = "".join(next(words) if c == BLANK else c for c in masked)
    request = replace(VARY, parent=parent, mask_share=share, sample=sample)
    assert check(filled, request, "stop") is None


@pytest.mark.parametrize(
    "text", [GERMAN, FRENCH, SPANISH, ITALIAN, PORTUGUESE, DUTCH, RUSSIAN, JAPANESE]
)
def test_another_language_than_the_texts_shown_is_wrong(text: str) -> None:
    assert problem_of(text) is Problem.WRONG_LANGUAGE
    assert problem_of(text, VARY) is Problem.WRONG_LANGUAGE
    assert problem_of(text, replace(ASK, examples=(text[::-1], text))) is not Problem.WRONG_LANGUAGE


def test_any_language_will_do_where_nothing_shows_which() -> None:
    assert problem_of(GERMAN, RandomRequest(subject="letters")) is None


def test_a_corpus_in_two_languages_may_be_answered_in_both() -> None:
    ask = replace(ASK, examples=(OTHER, FRENCH))
    assert problem_of(GOOD, ask) is None
    assert problem_of(GERMAN, ask) is Problem.WRONG_LANGUAGE


def test_a_short_text_is_given_the_benefit_of_the_doubt() -> None:
    assert problem_of("Danke, das ist sehr nett von Ihnen.") is None


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (GOOD, "en"), (OTHER, "en"), (PARENT, "en"), (GERMAN, "de"), (FRENCH, "fr"),
        (SPANISH, "es"), (ITALIAN, "it"), (PORTUGUESE, "pt"), (DUTCH, "nl"),
        ("adapter cable monitor licence router switch server laptop " * 4, None),
        (RUSSIAN, None), ("", None),
    ],
)  # fmt: skip
def test_seven_languages_are_told_by_their_frequent_words(text: str, code: str | None) -> None:
    assert language(text) == code


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (GOOD, "LATIN"),
        (FRENCH, "LATIN"),
        (RUSSIAN, "CYRILLIC"),
        (JAPANESE, "CJK"),
        ("12 + 3", None),
    ],
)
def test_the_script_is_that_of_most_letters(text: str, name: str | None) -> None:
    assert script(text) == name


@pytest.mark.parametrize(
    "code, right, wrong",
    [
        ("de", GERMAN, GOOD), ("es", SPANISH, GERMAN), ("nl", DUTCH, GOOD), ("ru", RUSSIAN, GOOD),
        ("ja", JAPANESE, RUSSIAN), ("pt-BR", PORTUGUESE, SPANISH),
        ("sv", "Lampan är trasig.", RUSSIAN),
    ],
)  # fmt: skip
def test_an_answer_has_the_stated_language_also_without_an_example(
    code: str, right: str, wrong: str
) -> None:
    stated = RandomRequest(subject="letters", language=code)
    assert problem_of(right, stated) is None
    assert problem_of(wrong, stated) is Problem.WRONG_LANGUAGE
    short = replace(stated, examples=("12.", "…"))
    assert problem_of(wrong, short) is Problem.WRONG_LANGUAGE, "these examples show no language"
    assert problem_of(wrong, replace(stated, language="en")) is None, "English is only the default"
    assert problem_of(right, replace(stated, language="xx")) is None, "an unknown language"


@pytest.mark.parametrize(
    "answer",
    [
        "Natürlich, hier ist der Text:\n" + GERMAN, "Hier ist ein neuer Text:\n" + GERMAN,
        "¡Claro! Aquí está el texto:\n" + SPANISH, "Aquí tienes un ejemplo:\n" + SPANISH,
    ],
)  # fmt: skip
def test_comments_in_other_languages_are_no_text(answer: str) -> None:
    assert problem_of(answer, replace(ASK, examples=(GERMAN, SPANISH))) is Problem.NOT_TEXT


@pytest.mark.parametrize("label", ["Beispiel 4: ", "Ejemplo 4: ", "Exemple 4: "])
def test_labels_of_other_languages_are_copied_prompts(label: str) -> None:
    request = replace(ASK, examples=(GERMAN, SPANISH))
    assert problem_of(label + SPANISH.lower(), request) is Problem.COPIED_PROMPT


@pytest.mark.parametrize("text", ["Hier ist die Lampe kaputt, und der Schalter auch. " + GERMAN])
def test_usual_sentences_are_no_comments(text: str) -> None:
    assert problem_of(text, replace(ASK, examples=(GERMAN,))) is not Problem.NOT_TEXT
