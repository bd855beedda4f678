"""Writes the prompts of a language model from requests.

`render` is for models that follow instructions. The result is one user message, because several
chat formats have no system role. `continuation` is for models that only continue a text (GPT-2).
The result is an unfinished list of texts, which the model continues.

A prompt begins with what all prompts of a run have in common: the task, the form and the examples.
It ends with what belongs to one text: its attributes, its length and, for a variation, its parent.
So a local model and the prefix cache of an endpoint read the common part once.

Every word of a prompt comes from this file, the schema or the request. So a prompt contains only
released or public text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from sugarbush.data.shapes.interface import Shape, ShapeError, Span
from sugarbush.errors import GeneratorError
from sugarbush.generators.interface import Attributes, Request, VariationRequest
from sugarbush.languages import ENGLISH, UNSPACED, count_words, language_name
from sugarbush.randomness import public_rng

CountTokens = Callable[[str], int]

BLANK = "_"
SEPARATOR = "###"  # the line between two texts in a prompt of `continuation`

TEXT_ALONE = (
    "Answer with the text alone: no introduction, no heading, no comment, no quotation marks "
    "around it, no JSON and no markup."
)

_SHAPE_ALONE = "Answer with the text alone: no introduction, no comment and no code fence."

# With a smaller `mask_share`, a text has almost no blanks, so the prompt requests a rephrasing.
_REPHRASE_BELOW = 0.05
# Tokens reserved for the chat format. Some formats add a system message of 20 to 40 tokens.
_TEMPLATE_TOKENS = 64
# English has about four bytes per token, and most other languages have three.
_BYTES_PER_TOKEN = 3
# Matches a word, or one character of a script without spaces
_WORD = re.compile(rf"[{UNSPACED}]|[^\W_]+(?:['’-][^\W_]+)*")


def estimate_tokens(text: str) -> int:
    """Estimate the number of tokens of a text, rounded up."""
    return math.ceil(len(text.encode("utf-8", "replace")) / _BYTES_PER_TOKEN)


def render(
    request: Request,
    *,
    context_tokens: int,
    max_tokens: int,
    count_tokens: CountTokens = estimate_tokens,
) -> str:
    """Return the message for `request`. The context keeps room for `max_tokens` answer tokens.

    The longest example is removed until the prompt fits. Among equally long examples, the last
    example is removed first. Raises GeneratorError if the prompt is too long without examples.
    """
    room = context_tokens - max_tokens - _TEMPLATE_TOKENS
    return _longest_that_fits(request, _instruction, room=room, count_tokens=count_tokens)


def continuation(
    request: Request,
    *,
    context_tokens: int,
    max_tokens: int,
    count_tokens: CountTokens = estimate_tokens,
) -> str:
    """Return the text that a model without a chat format continues.

    Long prompts are shortened as in `render`. The answer ends at the next line that is SEPARATOR.
    Models without a chat format cannot fill in blanks. So for a variation, the list of texts ends
    with the parent, and `mask_share` and `tone` have no effect. Descriptions of values have no
    effect either, because such a model follows no instructions.
    """
    room = context_tokens - max_tokens
    return _longest_that_fits(request, _list, room=room, count_tokens=count_tokens)


def instructions(request: Request) -> str:
    """Return the prompt of `render` without examples and parent, for a check of answers."""
    # With one empty example, the prompt still contains the sentences about examples.
    bare = replace(request, examples=("",) if request.examples else ())
    if isinstance(bare, VariationRequest):
        bare = replace(bare, parent="")
    return _instruction(bare)


def with_blanks(
    text: str, *, share: float, sample: int, spans: Sequence[Span] | None = None
) -> str:
    """Replace a share of the words of `text`, but at least one word, by BLANK.

    `spans` are the positions of the words; None means the whole text. `sample` selects the words,
    so variations of one text replace different words. Spaces, line ends and punctuation do not
    change.
    """
    parts_of_text = [(0, len(text))] if spans is None else spans
    words = [word for start, end in parts_of_text for word in _WORD.finditer(text, start, end)]
    count = min(len(words), max(1, round(share * len(words))))
    chosen = public_rng(sample, "blanks").choice(len(words), size=count, replace=False)
    parts, end = [], 0
    for index in sorted(chosen.tolist()):
        parts += [text[end : words[index].start()], BLANK]
        end = words[index].end()
    return "".join([*parts, text[end:]])


def _instruction(request: Request) -> str:
    task, parent = f"Write one new text for a collection of {request.subject}.", list[str]()
    if isinstance(request, VariationRequest):
        task, text = _task_and_parent(request)
        parent = [f"The text:\n{text}"]
    alone = TEXT_ALONE if request.shape is None else _SHAPE_ALONE
    common = [task, *_style(request), *_form(request), *_examples(request), alone]
    own = [*_attributes(request), *_manner(request), *parent]
    return "\n\n".join([*common, *own])


def _task_and_parent(request: VariationRequest) -> tuple[str, str]:
    """Return a fill-in-the-blank task (Xie et al. 2024, VARIATION_API), or a rephrasing task, and
    the parent as the prompt shows it."""
    spans = None if request.shape is None else _spans(request.shape, request.parent)
    opening = f"This message ends with a text from a collection of {request.subject}."
    if request.mask_share < _REPHRASE_BELOW or (request.shape is not None and spans is None):
        anew = "Write it anew in its language: keep what it is about, change how it is said."
        return f"{opening} {anew}", request.parent
    blanks = (
        f'Some of its words are blank, each marked by "{BLANK}". Write the text in full and in its '
        "language. Put words of your own choice for the blanks, more or fewer than there are, and "
        "change the others where the text reads better for it. Leave no blank."
    )
    masked = with_blanks(
        request.parent, share=request.mask_share, sample=request.sample, spans=spans
    )
    return f"{opening} {blanks}", masked


def _attributes(request: Request) -> list[str]:
    described = dict(request.descriptions)
    values = dict(request.attributes) | {
        name: f"none of {', '.join(values) or 'the usual values'}"
        for name, values in request.unlisted
    }
    if not values:
        return []
    lines = [
        f"- {_shown(name)}: {value}{f' ({described[name]})' if described.get(name) else ''}"
        for name, value in values.items()
    ]
    paragraphs = ["The new text is to fit this description:\n" + "\n".join(lines)]
    if request.unrequested:
        paragraphs.append(f"Any value will do for: {', '.join(map(_shown, request.unrequested))}.")
    return paragraphs


def _shown(name: str) -> str:
    return name.replace("_", " ")


def _style(request: Request) -> list[str]:
    return [f"The form of the texts of the collection: {request.style}"] if request.style else []


def _form(request: Request) -> list[str]:
    return [] if request.shape is None else [request.shape.instruction]


def _spans(shape: Shape, text: str) -> Sequence[Span] | None:
    """Return the positions of free text. A planned text without words has no positions."""
    try:
        return shape.spans(text)
    except ShapeError:
        return [(0, len(text))]


def _examples(request: Request) -> list[str]:
    if not request.examples:
        return []
    opening = (
        "These are texts of the collection. Write in their language, form and style, about a case "
        "of your own; copy nothing from them."
    )
    numbered = enumerate(request.examples, start=1)
    return [opening, *(f"Example {number}:\n{text}" for number, text in numbered)]


def _manner(request: Request) -> list[str]:
    sentences = []
    if request.language != ENGLISH:
        sentences.append(f"Write in {language_name(request.language)}.")
    if isinstance(request, VariationRequest) and request.tone:
        sentences.append(f"Write in a {request.tone} tone.")
    if request.shape is not None and request.lengths:
        sentences.append(request.shape.length_sentence(request.lengths))
    elif request.words is not None:
        sentences.append(f"Write about {request.words} words.")
    return [" ".join(sentences)] if sentences else []


def _list(request: Request) -> str:
    """Return a heading, the texts of the request, and the separator before the next text.

    With examples, each text has a line with its length and, if the attributes of examples are
    known and a requested value has letters, with its attributes. The prompt ends with this line of
    the requested text.
    """
    heading = request.subject[:1].upper() + request.subject[1:]
    # Code numbers alone do not help a model: with code numbers, it ended fewer texts.
    worded = any(character.isalpha() for _, value in request.attributes for character in value)
    labelled = worded and any(request.example_attributes)
    if request.attributes and not labelled:
        heading += f" ({_described(request.attributes)})"
    if request.language != ENGLISH:
        heading += f", in {language_name(request.language)}"
    if request.words is not None and not request.examples and not request.lengths:
        heading += f", about {request.words} words each"
    if request.style:
        heading += f". {request.style.removesuffix('.')}"
    if request.shape is not None:
        heading += f". {request.shape.instruction.removesuffix('.')}"
    if request.shape is not None and request.lengths:
        heading += f". {request.shape.length_sentence(request.lengths).removesuffix('.')}"
    known = request.example_attributes if labelled else [()] * len(request.examples)
    words = request.words if request.examples and not request.lengths else None
    texts = [
        _label(attributes, None if words is None else count_words(text)) + text
        for attributes, text in zip(known, request.examples, strict=True)
    ]
    if isinstance(request, VariationRequest):
        texts.append(request.parent)
    ending = _label(request.attributes if labelled else (), words)
    return f"\n{SEPARATOR}\n".join([heading + ":", *texts, ending])


def _label(attributes: Attributes, words: int | None) -> str:
    length = () if words is None else (f"{words} words",)
    line = "; ".join([*([_described(attributes)] if attributes else ()), *length])
    return f"[{line}]\n" if line else ""


def _described(attributes: Attributes) -> str:
    return "; ".join(f"{_shown(name)}: {value}" for name, value in attributes)


def _longest_that_fits(
    request: Request, write: Callable[[Request], str], *, room: int, count_tokens: CountTokens
) -> str:
    while True:
        prompt = write(request)
        tokens = count_tokens(prompt)
        if tokens <= room:
            return prompt
        if not request.examples:
            raise GeneratorError(
                f"a prompt without examples needs about {tokens} tokens, but the model's context "
                f"has only {max(room, 0)} tokens for a prompt. Lower the generator's max_tokens, "
                "use a model with a longer context, or request shorter texts (initialise.length)."
            )
        examples, attributes = list(request.examples), list(request.example_attributes)
        longest = max(range(len(examples)), key=lambda index: (len(examples[index]), index))
        del examples[longest], attributes[longest : longest + 1]
        request = replace(request, examples=tuple(examples), example_attributes=tuple(attributes))
