"""Tests that only the words of the assistant become a text."""

from __future__ import annotations

import re

import pytest

from sugarbush.data.shapes.declaration import TextForm
from sugarbush.generators.answer_checks import bare_text, check
from sugarbush.generators.control_tokens import control_tokens, final_text, without_notes
from sugarbush.generators.huggingface.batch import _decoded
from sugarbush.generators.interface import Problem, RandomRequest
from sugarbush.generators.openai.endpoint import read_completion
from sugarbush.generators.openai.failures import MalformedError
from tests.integration.llm.tiny_gpt2 import make_tokenizer

TEXT = "The lamp is <b>late</b>, and 2 < 3 |> f if a < b | c.\n\nPlease call me."
LETTERS = RandomRequest(subject="letters")

TURNS = {
    "ChatML": "{}<|im_end|>",
    "ChatML, a further turn": "{}<|im_end|>\n<|im_start|>user\nMore?<|im_end|>",
    "ChatML, with the prompt": "<|im_start|>user\nWrite!<|im_end|>\n<|im_start|>assistant\n{}",
    "Qwen": "<think>\n\n</think>\n\n{}<|im_end|><|endoftext|>",
    "Llama 3": "<|begin_of_text|><|start_header_id|>assistant<|end_header_id|>\n\n{}<|eot_id|>",
    "Llama 3, a further turn": "{}<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nMore?",
    "Llama 3, names alone": "assistant\n\n{}",
    "Llama 4": "<|header_start|>assistant<|header_end|>\n\n{}<|eot|>",
    "Llama 2": "<s>[INST] <<SYS>>\nWrite\n<</SYS>>\n\na letter [/INST] {} </s>",
    "Llama 2, a further turn that was cut": "{} <s>[INST] More?",
    "Llama 2, a further turn": "{}</s><s>[INST] More? [/INST] No.</s>",
    "Mistral": "[INST] Write [/INST]{}</s>",
    "Mistral 3": "[SYSTEM_PROMPT]Be kind[/SYSTEM_PROMPT][INST]Write[/INST]{}</s>",
    "Magistral": "[THINK]Hm.[/THINK]{}</s>",
    "start of a sentence": "<s>{}",
    "whole sentence": "<s> {}</s>",
    "Gemma": "<bos><start_of_turn>model\n{}<end_of_turn>\n<start_of_turn>user\n",
    "Gemma, padded": "{}<end_of_turn><eos><pad><pad>",
    "Gemma 4": "<|channel>thought\nHm.\n<channel|>{}<turn|>",
    "MedGemma": "<unused94>thought\nHm.<unused95>{}<end_of_turn>",
    "Phi 3": "<|assistant|>\n{}<|end|>",
    "Phi 4": "<|im_start|>assistant<|im_sep|>{}<|im_end|>",
    "Harmony": "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final"
    "<|message|>{}",
    "Harmony, whole": "<|start|>assistant<|channel|>final <|constrain|>json<|message|>{}<|return|>",
    "Harmony, open": "Hm.<|end|><|start|>assistant<|channel|>final<|message|>{}<|return|>",
    "Harmony, names alone": "analysisHm, a letter.assistantfinal{}",
    "DeepSeek": "<\uff5cbegin\u2581of\u2581sentence\uff5c><\uff5cAssistant\uff5c>{}"
    "<\uff5cend\u2581of\u2581sentence\uff5c>",
    "DeepSeek R1": "<think>\nHm.\n</think>\n\n{}<\uff5cend\u2581of\u2581sentence\uff5c>"
    "<\uff5cUser\uff5c>More",
    "GLM": "[gMASK]<sop><|assistant|>\n{}<|user|>",
    "Command R": "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>{}<|END_OF_TURN_TOKEN|>",
    "Command A": "<|START_THINKING|>Hm.<|END_THINKING|><|START_RESPONSE|>{}<|END_RESPONSE|>",
    "Granite": "<|start_of_role|>assistant<|end_of_role|>{}<|end_of_text|>",
    "Kimi": "<|im_assistant|>assistant<|im_middle|>{}<|im_end|>",
    "MiniMax": "]~b]ai\n{}[e~[",
    "EXAONE": "[|assistant|]<thought>\nHm.\n</thought>\n\n{}[|endofturn|]",
    "Apertus": "<|assistant_start|><|inner_prefix|>Hm.<|inner_suffix|>{}<|assistant_end|>",
    "Seed": "<seed:think>Hm.</seed:think>{}<seed:eos>",
    "InternLM": "{}<eoa>",
    "an unlisted token at the end": "{}<\uff5chy_place\u2581holder\u2581no\u25812\uff5c>",
    "a token that was cut": "{}<|im_en",
    "open thoughts": "They want a letter.\n</think>\n\n{}",
    "tags of an answer": "<think>Hm.</think>\n<answer>{}</answer>",
    "tags of an answer, and an end": "<think>Hm.</think><answer>\n{}\n</answer><|eos|>",
    "Granite, with thoughts": "<think>Hm.</think><response>{}</response><|end_of_text|>",
    "ERNIE": "<think>\nHm.\n</think>\n\n<response>\n{}\n</response>\n</s>",
    "a response that was not closed": "<response>{}",
    "byte order mark": "\ufeff{}\ufeff",
}


@pytest.mark.parametrize("template", TURNS.values(), ids=TURNS)
def test_only_the_words_of_the_assistant_become_a_text(template: str) -> None:
    said = template.replace("{}", TEXT)
    assert bare_text(said, LETTERS) == TEXT
    assert check(bare_text(said, LETTERS), LETTERS, "stop") is None


@pytest.mark.parametrize(
    "said",
    [
        "<|channel|>analysis<|message|>They want a letter about a lamp that is late.",
        "<|channel|>commentary<|message|>A plan.<|end|>",
        "The lamp is late.<SPECIAL_12>My chair broke.",
        "My chair broke in two days.</response> That is a letter.",
        "<think>They want a letter, and I never stop thinking about it",
        "<|im_start|>user\nWrite a letter<|im_end|>",
        "The lamp <|tool_call_begin|>call_shop<|tool_call_end|> is late.",
        "The lamp <tool_call>call_shop</tool_call> is late.",
        "The lamp &lt;|im_end|&gt; is late.",
        "The lamp < |im_end| > is late.",
        "The lamp <|my_token|> is late.",
        "<|im_end|>",
    ],
)
def test_an_answer_that_still_has_a_control_token_or_only_thoughts_is_unusable(said: str) -> None:
    assert check(bare_text(said, LETTERS), LETTERS, "stop") in {Problem.NOT_TEXT, Problem.EMPTY}


@pytest.mark.parametrize(
    "text",
    [
        "<s>9</s> 7 EUR is the new price.",
        "The new price is <s>9</s>",
        "I sent it to the [INST] building.",
        "It hangs if a<|b and c|>d.",
        "In F# it is x |> f <| y, and <|> is an operator.",
        "Press <end> or <return>, <user>.",
        "Analysis of the blood was late.",
        "It was late (this is not real leather).",
        "I waited. (Note: I called twice.)",
        "Note: the door is blue.\nCome in the back.",
    ],
)
def test_a_text_that_looks_like_markup_stays_as_it_is(text: str) -> None:
    assert bare_text(text, LETTERS) == text
    assert control_tokens(text) == frozenset()


NOTES = [
    "\n\n(Note: this is a fictional complaint.)",
    " (This is fictional.)",
    "\n\n*Note: This complaint is fictional and names no real company.*",
    "\n\n---\n\n**Note:** This is a made-up example.",
    "\n\n_(Note: this is a fictional complaint)_",
    "\n\n***\n*(This is entirely fictitious.)*",
    "\n\nNote: This is a fictional complaint.",
    "\n\nPlease note that this is a hypothetical complaint for practice.",
    "\n\nDisclaimer: This review was generated by an AI.",
    "\n\n[This is an imaginary review]",
    "\n\n(Hinweis: Dieser Text ist frei erfunden.)",
    "\n\n(Nota: este texto es ficticio)",
    "\n\n(Ceci est un texte fictif.)",
    "\n\n(Nota: questo testo è inventato)",
    "\n\n(Let op: deze tekst is fictief.)",
    "\n\n(Word count: 48)",
    "\n\n[48 words]",
]


@pytest.mark.parametrize("note", NOTES)
def test_a_note_that_the_text_is_invented_is_dropped(note: str) -> None:
    assert bare_text(TEXT + note, LETTERS) == TEXT
    first = note.rpartition("\n")[2].strip()
    assert bare_text(f"{first}\n\n{TEXT}", LETTERS) == TEXT
    assert without_notes(TEXT) == TEXT
    example = RandomRequest(subject="letters", examples=(f"My chair broke in two days.{note}",))
    assert bare_text(TEXT + note, example) == TEXT + note


@pytest.mark.parametrize(
    "turn",
    [
        "\nUSER: Write another one.\nASSISTANT: No.",
        "\n\nHuman: More?",
        "\nAssistant: More.",
        "\n### Response:\nMore.",
        "\n\n### Human: More?",
        "\n###Instruction\nMore.",
        "\n## User:\nMore.",
        "\n<user>More?</user>",
    ],
)
def test_a_next_turn_in_plain_words_is_dropped(turn: str) -> None:
    assert bare_text(TEXT + turn, LETTERS) == TEXT
    example = RandomRequest(subject="letters", examples=(f"My chair broke in two days.{turn}",))
    assert bare_text(TEXT + turn, example) == TEXT + turn
    dialogue = RandomRequest(
        subject="chats",
        shape=TextForm.model_validate({"conversation": {"roles": ["Human", "Assistant"]}}).shape,
    )
    assert bare_text(TEXT + turn, dialogue) == TEXT + turn


@pytest.mark.parametrize(
    "text",
    [
        "Human: Is it late?\nAssistant: Yes.\nHuman: Why?",
        "USER: Is it late?\nASSISTANT: Yes.",
        "It broke.\nUser: jdoe\nDevice: laptop",
        "It broke.\nAssistant manager: Ann",
        "It broke.\n## Input voltage\n12 V",
        "He said USER: and left.",
    ],
)
def test_a_dialogue_and_lines_of_a_ticket_are_no_next_turn(text: str) -> None:
    assert bare_text(text, LETTERS) == text


def test_a_token_that_an_example_has_is_no_problem() -> None:
    example = RandomRequest(subject="letters", examples=("The model printed <|my_token|> twice.",))
    text = "Why does it print <|my_token|> here?"
    assert check(text, example, "stop") is None
    assert check(text.replace("my", "other"), example, "stop") is Problem.NOT_TEXT


def _answer(content: object) -> str | None:
    return read_completion({"choices": [{"message": {"content": content}}]}).text


def test_an_answer_in_parts_is_read_without_its_thoughts() -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}
    assert _answer([{"type": "text", "text": TEXT}]) == TEXT
    assert _answer([thinking, {"type": "text", "text": TEXT}]) == TEXT
    assert _answer(
        [{"type": "output_text", "text": "Two "}, {"type": "text", "text": "parts"}]
    ) == ("Two parts")
    assert _answer([thinking]) == ""
    for content in (5, {"text": "x"}, ["x"], [{"type": "image_url"}], [{"type": "text"}]):
        with pytest.raises(MalformedError):
            _answer(content)


@pytest.mark.parametrize("name", ["Harmony", "Command A", "ChatML, a further turn", "Magistral"])
def test_a_local_model_keeps_the_tokens_that_separate_its_thoughts(name: str) -> None:
    """Most tokenizers drop these tokens, and then thoughts and further turns become the text."""
    tokenizer = make_tokenizer(chats=True)
    said = TURNS[name].replace("{}", TEXT)
    marks = re.findall(r"<\|\w+\|>|\[/?THINK\]|</s>", said)
    tokenizer.add_special_tokens({"extra_special_tokens": marks})
    ids = tokenizer(said)["input_ids"]
    assert final_text(_decoded(tokenizer, ids)) == TEXT
    assert _decoded(tokenizer, tokenizer("Late.<|endoftext|>")["input_ids"]).startswith("Late.")


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit",
    ["[INST]", "<|a|>", "<|im_start|>", "<s>", "</s>", "<pad>", "(note: fictional ", "<|", "* "],
)
def test_a_long_answer_of_tokens_is_read_in_linear_time(unit: str) -> None:
    answer = unit * (200_000 // len(unit))
    for said in (answer, f"{answer}x", f"x{answer}", f"\n{answer}\n"):
        check(bare_text(said, LETTERS), LETTERS, "stop")
