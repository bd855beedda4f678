"""Removes what a chat template writes around an answer: turns, channels, thoughts and notes.

A server should return the words of the assistant alone. Some servers also return control tokens of
the model's chat template, the thoughts of a reasoning model, or an invented next turn. `final_text`
returns the words of the assistant's first turn, or of the channel `final` of a model with channels.

The templates: ChatML, Llama 2 to 4, Mistral, Gemma, Phi, Harmony (gpt-oss), DeepSeek, Qwen, GLM,
Command, Granite, Kimi, MiniMax, Falcon, Zephyr, OLMo, InternLM, Baichuan, Seed and Hunyuan.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from enum import Enum, auto
from itertools import chain
from typing import NamedTuple

# A bar of ASCII or of full width (DeepSeek, Hunyuan)
_BAR = "[|｜]"
_SENTENCE_MARK = re.compile(r"</?s>")


class _Kind(Enum):
    """What a control token does."""

    HEADER = auto()  # starts a turn or a channel; its name follows
    TEXT = auto()  # ends the name of a turn or channel
    ASSISTANT = auto()
    OTHER = auto()  # starts a turn of somebody else, or thoughts
    END = auto()
    NOTHING = auto()


def _barred(names: str) -> str:
    """Return a pattern of tokens between bars. Words are joined by _, or by ▁ in DeepSeek's."""
    return rf"<{_BAR}(?:{names.replace('_', '[_▁]')}){_BAR}>"


_PATTERNS = {
    _Kind.HEADER: (
        _barred("im_start|start_header_id|header_start|start_of_role|role_start|start|channel")
        + r"|<start_of_turn>|<\|turn>|<\|channel>"
    ),
    _Kind.TEXT: _barred("end_header_id|header_end|end_of_role|role_end|message|im_middle|im_sep"),
    _Kind.ASSISTANT: (
        _barred(
            "assistant|assistant_start|bot|model|im_assistant|CHATBOT_TOKEN|hy_Assistant|START_RESPONSE"
            "|begin_of_solution|inner_suffix"
        )
        + r"|\[/INST\]|\]~b\]ai\b|\[\|assistant\|\]"
    ),
    _Kind.OTHER: (
        _barred(
            "(?:user|system|developer)(?:_start)?|human|observation|tool|ipython|prompter|environment|USER_TOKEN"
            "|SYSTEM_TOKEN|im_user|im_system|hy_User|START_THINKING|begin_of_thought|inner_prefix"
        )
        + r"|\[\|(?:user|system)\|\]|(?:<s>\s?)?\[INST\]|<<SYS>>|<</SYS>>"
        r"|\[SYSTEM_PROMPT\]|\[/SYSTEM_PROMPT\]|\]~b\](?:user|system|tool)\b|\]~!b\[|<unused94>"
    ),
    _Kind.END: (
        _barred(
            "im_end|eot_id|eom_id|eot|eom|end|endoftext|end_of_text|return|call|end_of_turn"
            "|END_OF_TURN_TOKEN|END_RESPONSE|end_of_solution|END_THINKING|end_of_thought"
            "|end_of_sentence|endofprompt|endofturn|eos|im_eos"
            "|(?:assistant|user|system|developer)_end"
        )
        + r"|<end_of_turn>|<end_of_utterance>|<turn\|>|<channel\|>|<(?:eos|eot|eop|eoa|eoh)>"
        r"|\[\|endofturn\|\]|<EOS_TOKEN>|\[EOS\]|\[e~\[|<seed:eos>|<unused95>"
    ),
    _Kind.NOTHING: (
        _barred(
            "begin_of_text|startoftext|start_of_text|begin_of_sentence|START_OF_TURN_TOKEN|bos|pad"
            "|constrain|begin_of_box|end_of_box|finetune_right_pad_id|START_TEXT|END_TEXT"
            r"|reserved_special_token_\d+|extra_\d+|dummy_\d+|object_ref_(?:start|end)"
        )
        + r"|<(?:bos|pad|unk|sop|BOS_TOKEN|PAD_TOKEN|seed:bos)>|\[gMASK\]|\[BOS\]"
        r"|<unused\d+>|<reserved_\d+>|<TOKENS_UNUSED_\d+>"
    ),
}
_TOKENS = re.compile(
    "|".join(f"(?P<{kind.name}>{pattern})" for kind, pattern in _PATTERNS.items()),
    re.IGNORECASE | re.DOTALL,
)
# A token that is not listed, the start of a token that was cut, and a token with HTML's entities
_UNLISTED = re.compile(
    rf"<\ ?{_BAR}\ ?[\w▁.:/-]{{1,40}}\ ?{_BAR}\ ?> | <\|[a-z_]{{2,20}}> | <[a-z_]{{2,20}}\|>"
    rf"| <{_BAR}(?:im|eot|end|start|begin|header|channel|reserved)[_▁]?\w*"
    rf"| &lt;\ ?{_BAR}\ ?[\w▁]{{1,40}}\ ?{_BAR}\ ?&gt;"
    r"| </?(?:think|thinking|thought|reasoning|seed:\w+|tool_calls?|tool_response|answer|response)>"
    r"| \[/?(?:THINK|TOOL_CALLS|TOOL_RESULTS|AVAILABLE_TOOLS|TOOL_CONTENT)\] | ◁/?think▷"
    r"| \[/INST\] | <</?SYS>> | <extra_id_\d+> | <fim_(?:prefix|middle|suffix|pad)>"
    r"| <0x[0-9A-F]{2}> | <SPECIAL_\d+>",
    re.IGNORECASE | re.VERBOSE,
)
# Thoughts before the answer. A server may omit the opening tag, which its prompt contains.
_THOUGHT = re.compile(
    r"</(?:think|thinking|thought|reasoning|seed:think)>|\[/THINK\]|◁/think▷", re.IGNORECASE
)
# Hunyuan, Granite and ERNIE mark the answer after their thoughts.
_ENCLOSED_ANSWER = re.compile(
    r"<(?P<tag>answer|response)>(?P<answer>.*?)(?:</(?P=tag)>)?", re.DOTALL
)
# A server may add an unlisted token of the model around the text.
_BARRED = rf"<{_BAR}[\w▁]{{1,40}}{_BAR}>"
_FIRST = re.compile(rf"(?:\s*{_BARRED})+")
_LAST = re.compile(rf"(?:{_BARRED}\s*)+\Z")
_CUT_TOKEN = re.compile(rf"<{_BAR}[\w▁]{{0,30}}{_BAR}?\Z")
_ROLE = re.compile(
    r"\s*(?P<role>assistant|model|final|user|system|human|tool|developer|analysis|commentary"
    r"|thought|observation|ipython|function)\b[^\n]*(?:\n|\Z)",
    re.IGNORECASE,
)
_ASSISTANT_ROLES = {"assistant", "model"}
# What remains of a header if a server removes the tokens, but not the names
_BARE_HEADER = re.compile(r"\A\s*(?:assistant|model)\s*\n+")
_BARE_CHANNEL = re.compile(
    r"\A\s*(?:analysis|commentary)(?=\S).*assistant\s?final|\A\s*assistant\s?final", re.DOTALL
)
_FINAL = "final"
_AFTER = "after an end"

# A turn that a model writes in plain words: "### Response:", "USER:", "Human:". An e-mail may have
# a line "User: anna", so this spelling is not one of them.
_NEXT_TURN = re.compile(
    r"^(?:#{2,4}[ ]?(?i:instruction|response|input|human|assistant|user|system)[ ]?(?::|$)"
    r"|(?:USER|ASSISTANT|HUMAN|Human|Assistant)[ ]?:|<(?i:user|human|assistant)>)",
    re.MULTILINE,
)

# A note that says that the text is invented, or counts its words. It is in brackets or in italics,
# or its line starts with "Note:".
_INVENTED = (
    r"(?:fictional|fictitious|fictive|imaginary|made[ -]up|hypothetical|ai[ -]generated|invented"
    r"|fiktiv\w*|erfunden\w*|fictifs?|fictives?|inventée?s?|fictici[oa]s?|inventad[oa]s?"
    r"|fictíci[oa]s?|fittizi[oa]?|inventat[oaie]|fictie[fv]e?|verzonnen)"
)
_OF_A_NOTE = (
    rf"\b(?:{_INVENTED}|synthetic|simulated|placeholders?|(?:was|is|are|were|been) generated"
    r"|not (?:a )?real (?:customers?|complaints?|person|people|cases?|reviews?|tickets?|texts?"
    r"|e?-?mails?|messages?|conversations?|patients?|events?|compan(?:y|ies)))\b"
)
_NOTE = (
    r"(?:please note|note|disclaimer|n\.b\.|nb|hinweis|anmerkung|remarque|nota|let op|opmerking)\b"
)
_STATED = (
    r"(?:th(?:is|e|ese)|all|any|dies\w*|ceci|c['’]est|est[ea]|esto|quest[oa]|dit|deze|isto)\b"
    rf"(?:[ '’]\w+){{0,6}} {_INVENTED}\b"
)
_COUNTED = r"(?:word count:? ?~?\d+|~?\d+ words)\s*"


def _enclosed(left: str, right: str) -> str:
    inner = rf"[^{left}{right}\n]"
    said = rf"(?:{_NOTE}(?={inner}*?{_OF_A_NOTE}){inner}{{0,400}}|{_STATED}{inner}{{0,400}})"
    return rf"[*_]{{0,3}}[{left}]{{1,3}}\s*(?:{said}|{_COUNTED})[{right}]{{1,3}}[*_]{{0,3}}"


_ENCLOSED = "|".join((_enclosed(r"\(", r"\)"), _enclosed(r"\[", r"\]"), _enclosed("*_", "*_")))
_LINE = rf"[*_]{{0,3}}{_NOTE}[*_]{{0,3}} ?:?(?=[^\n]*?{_OF_A_NOTE})[^\n]{{0,400}}"
_WHOLE_NOTE = re.compile(rf"(?:{_ENCLOSED}|{_LINE})", re.IGNORECASE)
_NOTE_AT_END = re.compile(rf" (?:{_ENCLOSED})\Z", re.IGNORECASE)
_RULE = re.compile(r"[-*_]{3,20}")
# Longer lines are no notes. So the time is linear in the length of an answer.
_NOTE_CHARACTERS, _MOST_NOTES, _EDGE_CHARACTERS = 600, 3, 400


class _Turn(NamedTuple):
    """The words of a turn. The role is empty at the start of an answer."""

    role: str
    text: str


def final_text(said: str) -> str:
    r"""Return the words of a server's answer that a reader should see.

    The result is empty if the assistant only thought. A token that remains is unusual:
    `control_tokens` finds it.

    >>> final_text("<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final"
    ...            "<|message|>It is late.<|return|>")
    'It is late.'
    >>> final_text("<think>Hm.</think>\n\nIt is <b>late</b>, a < b | c.<|im_end|>")
    'It is <b>late</b>, a < b | c.'
    """
    text = _THOUGHT.split(said.replace("\ufeff", ""))[-1]
    text = _CUT_TOKEN.sub("", _without_sentence_marks(text))
    text = _BARE_HEADER.sub("", _BARE_CHANNEL.sub("", _assistants_turn(text)))
    text = text.strip()
    if first := _FIRST.match(text):
        text = text[first.end() :]
    if last := _LAST.search(text, max(0, len(text) - _EDGE_CHARACTERS)):
        text = text[: last.start()]
    enclosed = _ENCLOSED_ANSWER.fullmatch(text.strip())
    return (enclosed["answer"] if enclosed else text).strip()


def without_next_turn(text: str) -> str:
    r"""Return the text before a next turn in plain words.

    If the first line of a text starts a turn, the text is a dialogue, and stays.

    >>> without_next_turn("The lamp is late.\n\nUSER: Write another one.")
    'The lamp is late.'
    >>> without_next_turn("Human: Is it late?\nAssistant: Yes.")
    'Human: Is it late?\nAssistant: Yes.'
    """
    turn = _NEXT_TURN.search(text)
    return text[: turn.start()].strip() if turn is not None and turn.start() else text


def without_notes(text: str) -> str:
    r"""Return the text without a note at its start or end, such as "(This is fictional.)".

    >>> without_notes("The lamp is late.\n\n(Note: this is a fictional complaint.)")
    'The lamp is late.'
    """
    for _ in range(_MOST_NOTES):
        text = _without_last_note(_without_first_note(text.strip()))
    return text


def _without_first_note(text: str) -> str:
    first, _, rest = text.partition("\n")
    if not rest or not _is_note(first):
        return text
    rule, _, after = rest.strip().partition("\n")
    return after.strip() if _RULE.fullmatch(rule.strip()) else rest.strip()


def _without_last_note(text: str) -> str:
    before, _, last = text.rpartition("\n")
    if not before or not _is_note(last):
        end = _NOTE_AT_END.search(text, max(0, len(text) - _NOTE_CHARACTERS))
        return text[: end.start()].strip() if end else text
    head, _, rule = before.strip().rpartition("\n")
    return head.strip() if _RULE.fullmatch(rule.strip()) else before.strip()


def _is_note(line: str) -> bool:
    return len(line) <= _NOTE_CHARACTERS and _WHOLE_NOTE.fullmatch(line.strip()) is not None


def control_tokens(text: str) -> frozenset[str]:
    """Return the control tokens in a text, in lower case."""
    matches = chain(_tokens(text), _UNLISTED.finditer(text))
    return frozenset(match.group().lower() for match in matches)


def has_new_token(text: str, known: Collection[str]) -> bool:
    """Return whether a text has a control token that no text of `known` has."""
    found = control_tokens(text)
    return bool(found) and not found <= frozenset().union(*map(control_tokens, known))


def _tokens(text: str) -> Iterator[re.Match[str]]:
    """Yield the listed tokens. [INST] alone is a word, such as the mask of an institute."""
    has_turns = "[/INST]" in text
    return (m for m in _TOKENS.finditer(text) if has_turns or m.group() != "[INST]")


def _without_sentence_marks(text: str) -> str:
    """Remove `<s>` and `</s>` around the text, and what follows a `</s>` without `<s>`.

    Inside the text, a pair stays, because it is HTML for struck words.
    """
    text, depth = text.strip().removeprefix("</s>"), 0
    for mark in _SENTENCE_MARK.finditer(text):
        if mark.group() == "</s>" and not depth:
            text = text[: mark.start()].strip()
            break
        depth += 1 if mark.group() == "<s>" else -1
    inner = text.removeprefix("<s>")
    if inner == text or "</s>" not in inner:
        return inner
    around = inner.endswith("</s>") and inner.count("</s>") == 1
    return inner.removesuffix("</s>") if around else text


def _assistants_turn(text: str) -> str:
    turns = [turn for turn in _turns(text) if turn.text.strip()]
    final = [turn.text for turn in turns if turn.role == _FINAL]
    if final:
        return final[-1]
    if next(_tokens(text), None) is None:
        return text
    said = (turn.text for turn in turns if turn.role in {"", *_ASSISTANT_ROLES})
    after = (turn.text for turn in turns if turn.role == _AFTER)
    return next(said, next(after, ""))


def _turns(text: str) -> Iterator[_Turn]:
    role, words, at, in_header = "", "", 0, False
    for match in _tokens(text):
        kind, piece = _Kind[str(match.lastgroup)], text[at : match.start()]
        at = match.end()
        if in_header:
            if kind is _Kind.NOTHING:
                piece += "\n"  # Harmony: <|channel|>final <|constrain|>json<|message|>
            role, piece, in_header = _after_header(piece, role, ends=kind is _Kind.TEXT)
        words += piece
        if kind in {_Kind.NOTHING, _Kind.TEXT}:
            words = "" if kind is _Kind.TEXT else words
            continue
        yield _Turn(role, words)
        words, in_header = "", kind is _Kind.HEADER
        role = {_Kind.ASSISTANT: "assistant", _Kind.OTHER: "other", _Kind.END: _AFTER}.get(kind, "")
    piece = text[at:]
    if in_header:
        role, piece, _ = _after_header(piece, role, ends=False)
    yield _Turn(role, words + piece)


def _after_header(piece: str, role: str, *, ends: bool) -> tuple[str, str, bool]:
    """Return the role that a header names, the words after the role, and that it has ended."""
    match = _ROLE.match(piece)
    if match is None:
        return role, "" if ends else piece, False
    return match["role"].lower(), "" if ends else piece[match.end() :], False
