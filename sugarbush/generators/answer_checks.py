"""Checks whether an answer can be used as a candidate.

A property of an answer is not a problem if an example or the parent has the same property. For
example, JSON is a correct answer for a corpus of JSON lines.

Limits: refusals are recognized by their usual first words in seven languages. Languages are
recognized by the script and, in the Latin script, by frequent words of seven languages. So texts in
the wrong language may pass if they are short, mixed, or in another language of the Latin script.
Copies are recognized by runs of eight words, so paraphrases pass.

Texts with half a surrogate pair or with control characters are refused, because they cannot be
stored or printed. Texts with a control token of a chat template are refused, too, unless an example
or the parent has the token (`sugarbush.generators.control_tokens`).
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence, Set
from functools import lru_cache

from sugarbush.data.shapes.interface import ShapeError
from sugarbush.generators.control_tokens import (
    final_text,
    has_new_token,
    without_next_turn,
    without_notes,
)
from sugarbush.generators.interface import Problem, Request, VariationRequest
from sugarbush.generators.prompts import BLANK, instructions
from sugarbush.languages import ENGLISH, UNSPACED, script_of

WordRun = tuple[str, ...]
_Look = tuple[Problem, Callable[[str], bool]]

# The number of words in an n-gram (run). Two people rarely write the same eight words in a row.
_RUN = 8
# The largest share of n-grams that an answer and an example may have in common
_COPIED_EXAMPLE_SHARE = 0.3
# A variation always shares n-grams with its parent. If 5% of the words change (the smallest
# setting), the shared part is about 0.66. If one word in eighty changes, the shared part is 0.9.
_COPIED_PARENT_SHARE = 0.9
# Only the first characters are searched, because a refusal or a comment comes before the text.
_OPENING_CHARACTERS = 240

_TOKEN = re.compile(rf"[{UNSPACED}]|[^\W_]+")

# These patterns match refusals in the output of `_plain_opening`. A support ticket may begin with
# "I cannot create an account", so a pattern must also contain a word for the requested text.
_CANNOT = r"i (?:cannot|am unable to|am not able to|will not|must decline to)"
_WRITE = (
    r"(?:(?:help|assist)(?: you)?(?: with)?|comply with|fulfill?|provide|generate|create|write"
    r"|produce|complete|continue)"
)
_IT = (
    r"(?:(?:that|this|such|your)(?: (?:request|kind|type|sort|texts?|content)\b|\W|$)"
    r"|(?:\w+ ){0,3}(?:texts?|content)\b)"
)
_REFUSALS = tuple(
    re.compile(pattern)
    for pattern in (
        rf"^{_CANNOT} {_WRITE} {_IT}",
        rf"^(?:i am (?:very |so )?sorry|sorry|i apologi[sz]e|unfortunately)\b.{{0,40}}?\b{_CANNOT} "
        rf"(?:{_WRITE} {_IT}|(?:comply|assist)\b)",
        r"\bas an? (?:ai|artificial intelligence|(?:large )?language model)\b",
        r"^es tut mir leid\b.{0,60}\b(?:kann|darf)\b.{0,60}\b(?:erstellen|schreiben|erfüllen)",
        r"^(?:je suis désolée?\W{1,3}(?:mais )?)?je ne peux pas (?:écrire|créer|générer|répondre)",
        r"^lo siento\W{1,3}(?:pero )?no puedo (?:ayudar|escribir|crear|generar|cumplir)",
        r"^(?:lamento|desculpe|sinto muito)\W{1,3}(?:mas )?não posso (?:ajudar|escrever|criar)",
        r"^(?:het spijt me|sorry)\b.{0,60}\bkan\b.{0,60}\b(?:schrijven|maken|helpen)",
        r"^mi dispiace\W{1,3}(?:ma )?non posso (?:aiutar|scrivere|creare|generare)",
    )
)
# These patterns match comments that announce the text, offer help, or describe the text.
_ANNOUNCEMENTS = tuple(
    re.compile(pattern)
    for pattern in (
        r"^(?:sure|certainly|of course|absolutely|okay)\b[^\n]{0,100}:\s*(?:\n|$)",
        r"^(?:sure|certainly|of course|absolutely)\b\W{1,3}here\b",
        r"^here(?:'s| is| are)\b[^\n]{0,60}\b(?:texts?|example|version|rewrit\w+|variation)\b"
        r"[^\n]{0,60}:\s*\n",
        r"^(?:sure\W{1,3})?i (?:am|would be|will be)[^\n]{0,20} (?:ready|happy|glad|here) to "
        r"(?:help|assist)\b[^\n]{0,60}\b(?:texts?|requests?|rewrit\w+|edit\w*|refine)\b",
        r"^(?:this|the) text (?:is about|describes|discusses|is in the format"
        r"|has been (?:modified|altered|rewritten))\b",
        r"^the \d+-word text\b",
        r"^¡?(?:natürlich|gerne|klar|selbstverständlich|claro|por supuesto|bien sûr|certo)"
        r"\b[^\n]{0,100}:\s*(?:\n|$)",
        r"^(?:hier (?:ist|sind|folgt)|aquí (?:está|tienes|tiene)|voici|ecco|aqui está|hier is)\b"
        r"[^\n]{0,60}\b(?:texte?[ns]?|textos?|testo|tekst|beispiel|ejemplo|exemple|version|versión)\b"
        r"[^\n]{0,60}:\s*\n",
    )
)
_MARKUP = re.compile(
    r"""\s*(?: ```                                   # a fence
      | <(?:!doctype|\?xml|[a-z][\w-]*)(?:\s[^<>]*)?>  # a tag
      | \#{1,6}\s+\S[^\n]*\n | \*\*[^*\n]+\*\*\s*\n   # a heading of Markdown
      | \\begin\{ )""",
    re.IGNORECASE | re.VERBOSE,
)
_OBJECT = re.compile(r"""\s*[\[{]\s*+(?:\{\s*)?"[^"\n]*"\s*:""")
# Matches half of a surrogate pair, or a control character that nobody types.
_UNPRINTABLE = re.compile("[\x00-\x08\x0e-\x1f\x7f\ud800-\udfff]")
_QUOTES = ('""', "“”", "„“", "«»")
_BLANKS = re.compile(rf"""(?:^|(?<=[\s"'(])){BLANK}+(?=[\s.,;:!?"')]|$)""")
_LABEL = re.compile(
    r"^\W*(?:example|beispiel|ejemplo|exemple|esempio|exemplo|voorbeeld)\s+\d+\s*:", re.IGNORECASE
)

_FEWEST_WORDS = 20  # minimum number of words for `language`
_FEWEST_FREQUENT = 4  # minimum number of different frequent words of the language
_LEAST_SHARE = 0.1  # minimum share of the language's frequent words among all words
_LEAST_LEAD = 2  # minimum ratio to the number of frequent words of any other language
_LETTERS = 400  # the first letters decide the script

# Frequent words of each language. A word may belong to several languages.
_FREQUENT = {
    "en": "the and of to is that it was for with you this have not are but they from he she his "
    "her my we were been which would there what your a as do no me in on at an so",
    "de": "der die das und ist nicht ein eine ich sie mit den dem von zu auf für sich es auch wir "
    "haben war als werden wurde noch nur aber",
    "fr": "le la les et est des une un pas que qui dans pour il elle je vous nous ce cette sur "
    "avec au aux était ont mais plus leur",
    "es": "el la los las y es que un una por con para no se lo su al del como más pero fue está "
    "muy había me mi",
    "it": "il lo la gli le e è che un una di per non con si del della dei nel sono mi ma come "
    "anche era più alla questo",
    "pt": "o a os as e é que um uma de do da dos em não para com se por mais foi mas ao na no eu "
    "você muito seu",
    "nl": "de het een en van ik is dat niet die op te zijn met voor er maar was als aan ook hij ze "
    "naar heb wordt bij om",
}
_LANGUAGES_OF: dict[str, tuple[str, ...]] = {
    word: tuple(code for code, words in _FREQUENT.items() if word in words.split())
    for words in _FREQUENT.values()
    for word in words.split()
}


def check(text: str | None, request: Request, finish_reason: str | None) -> Problem | None:
    """Return the problem of an answer to `request`, or None if the answer is usable.

    `finish_reason` has the values of OpenAI's API. "length" means that the answer was cut off.
    """
    if finish_reason in _BAD_ENDINGS:
        return _BAD_ENDINGS[finish_reason]
    if text is None or not any(_says_something(character) for character in text):
        return Problem.EMPTY
    prompt_texts = _prompt_texts(request)
    if request.shape is None:
        return _problem_of(text, request, prompt_texts, _LOOKS)
    if _refuses(text) and not any(map(_refuses, prompt_texts)):
        return Problem.REFUSAL
    try:
        text = request.shape.of_answer(text)
    except ShapeError:
        return Problem.WRONG_FORM
    return _problem_of(text, request, prompt_texts, _LOOKS_OF_A_SHAPE)


def _problem_of(
    text: str, request: Request, prompt_texts: tuple[str, ...], looks: Sequence[_Look]
) -> Problem | None:
    if has_new_token(text, prompt_texts):
        return Problem.NOT_TEXT
    for problem, looks_so in looks:
        if looks_so(text) and not any(looks_so(other) for other in prompt_texts):
            return problem
    if _repeats_prompt(text, request):
        return Problem.COPIED_PROMPT
    return _copied(text, request) or _foreign(text, request)


def _says_something(character: str) -> bool:
    """Whether the character is a letter, a digit, or a pictograph such as an emoji."""
    return character.isalnum() or unicodedata.category(character) == "So"


def bare_text(said: str, request: Request) -> str:
    """Return an answer without what a chat template wrote around it, without a next turn, without a
    note that it is invented, and without quotation marks around the text.

    A next turn in plain words, a note and quotation marks stay if an example or the parent has
    them, and turns stay in a shape of several parts, such as a conversation. Quotation marks also
    stay if the text contains such marks inside.
    """
    text, prompt_texts = final_text(said), _prompt_texts(request)
    if request.shape is None and not any(map(_has_next_turn, prompt_texts)):
        text = without_next_turn(text)
    if not any(map(_has_note, prompt_texts)):
        text = without_notes(text)
    if _in_quotes(text) and not any(map(_in_quotes, prompt_texts)):
        return text[1:-1].strip()
    return text


def language(text: str) -> str | None:
    """Return the ISO 639-1 code of the text's language.

    The function knows seven languages in the Latin script. For all other languages, the result is
    None.
    """
    words = [w.lower() for w in _TOKEN.findall(text)]
    if len(words) < _FEWEST_WORDS:
        return None
    frequencies = Counter(code for word in words for code in _LANGUAGES_OF.get(word, ()))
    different = Counter(code for word in set(words) for code in _LANGUAGES_OF.get(word, ()))
    (best, count), (_, next_count) = (*frequencies.most_common(2), ("", 0), ("", 0))[:2]
    clear = count >= _LEAST_SHARE * len(words) and count >= _LEAST_LEAD * next_count
    return best if clear and different[best] >= _FEWEST_FREQUENT else None


def script(text: str) -> str | None:
    """Return the script of most letters ("LATIN", "CYRILLIC", "CJK"), or None without letters."""
    letters = [c for c in text if c.isalpha()][:_LETTERS]
    if all(c.isascii() for c in letters):
        return "LATIN" if letters else None
    return Counter(map(_script_of, letters)).most_common(1)[0][0]


def _copied(text: str, request: Request) -> Problem | None:
    answer = word_runs(text)
    if isinstance(request, VariationRequest):
        parent = word_runs(request.parent)
        if _share(answer & parent, answer, parent) > _COPIED_PARENT_SHARE:
            return Problem.COPIED_PARENT
    held = [word_runs(example) for example in set(request.examples)]
    # An answer may contain an n-gram that many examples share, such as a greeting.
    count = Counter(run for runs in held for run in runs & answer)
    rare_runs = {run for run, times in count.items() if times <= max(1, len(held) // 3)}
    copied = any(_share(rare_runs & runs, answer, runs) > _COPIED_EXAMPLE_SHARE for runs in held)
    return Problem.COPIED_EXAMPLE if copied else None


def _repeats_prompt(text: str, request: Request) -> bool:
    """Return whether the text repeats a label, a blank or instructions of the prompt."""
    prompt_texts = _prompt_texts(request)
    if _LABEL.match(text) and not any(map(_LABEL.match, prompt_texts)):
        return True
    if (
        isinstance(request, VariationRequest)
        and _BLANKS.search(text)
        and not any(map(_BLANKS.search, prompt_texts))
    ):
        return True
    repeated = word_runs(text) & word_runs(instructions(request))
    return bool(repeated) and not any(repeated & word_runs(other) for other in prompt_texts)


def _foreign(text: str, request: Request) -> Problem | None:
    """Return WRONG_LANGUAGE if all examples and the parent have another script or language.

    The language of the request counts where an example is too short to show one, and if there is no
    example. English counts only by examples, because it is the default.
    """
    tongues = {_tongue(other) for other in _prompt_texts(request)}
    if request.language != ENGLISH:
        stated = script_of(request.language), _stated_language(request.language)
        tongues = {(own[0] or stated[0], own[1] or stated[1]) for own in tongues or {(None, None)}}
    answer_tongue = _tongue(text)
    for part in (0, 1):
        expected = {tongue[part] for tongue in tongues}
        if (
            answer_tongue[part] is not None
            and expected
            and expected.isdisjoint({answer_tongue[part], None})
        ):
            return Problem.WRONG_LANGUAGE
    return None


def _stated_language(code: str) -> str | None:
    base = code.partition("-")[0]
    return base if base in _FREQUENT else None


def _prompt_texts(request: Request) -> tuple[str, ...]:
    parent = (request.parent,) if isinstance(request, VariationRequest) else ()
    return (*parent, *request.examples)


def _in_quotes(text: str) -> bool:
    marks = text[:1] + text[-1:]
    return len(text) > 2 and marks in _QUOTES and not set(marks) & set(text[1:-1])


def _has_next_turn(text: str) -> bool:
    return without_next_turn(text) != text


def _has_note(text: str) -> bool:
    return without_notes(text) != text.strip()


def _refuses(text: str) -> bool:
    opening = _plain_opening(text)
    return any(pattern.search(opening) for pattern in _REFUSALS)


def _has_unprintable(text: str) -> bool:
    return _UNPRINTABLE.search(text) is not None


def _is_no_text(text: str) -> bool:
    if _has_unprintable(text):
        return True
    opening = _plain_opening(text)
    announced = any(pattern.search(opening) for pattern in _ANNOUNCEMENTS)
    return announced or _MARKUP.match(text) is not None or _is_json(text)


def _plain_opening(text: str) -> str:
    """Return the first characters, in lower case and without contractions such as "I'm"."""
    opening = text[:_OPENING_CHARACTERS].lower().replace("’", "'").lstrip(" \n\"'“*")
    opening = re.sub(r"\bcan(?:'t| not)\b", "cannot", opening)
    for short, written in (("i'm ", "i am "), ("i'd ", "i would "), ("i won't", "i will not")):
        opening = opening.replace(short, written)
    return opening


def _is_json(text: str) -> bool:
    """Return whether the text is JSON or begins like a JSON object."""
    if text.lstrip()[:1] not in {"{", "["}:
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return _OBJECT.match(text) is not None
    return True


def _share(common: Set[WordRun], a: Set[WordRun], b: Set[WordRun]) -> float:
    return len(common) / min(len(a), len(b)) if a and b else 0.0


@lru_cache(maxsize=1024)
def word_runs(text: str) -> frozenset[WordRun]:
    """Return all 8-grams of words in a text, in lower case. A shorter text is one n-gram."""
    words = [w.lower() for w in _TOKEN.findall(text)]
    if len(words) < _RUN:
        return frozenset([tuple(words)] if words else [])
    return frozenset(zip(*(words[i:] for i in range(_RUN)), strict=False))


@lru_cache(maxsize=1024)
def _tongue(text: str) -> tuple[str | None, str | None]:
    main_script = script(text)
    return main_script, language(text) if main_script == "LATIN" else None


def _script_of(letter: str) -> str:
    name = unicodedata.name(letter, "UNKNOWN").partition(" ")[0]
    return "CJK" if name in {"HIRAGANA", "KATAKANA"} else name


_BAD_ENDINGS = {"length": Problem.TRUNCATED, "content_filter": Problem.REFUSAL}
_LOOKS: tuple[_Look, ...] = ((Problem.REFUSAL, _refuses), (Problem.NOT_TEXT, _is_no_text))
# The parser of the shape has already refused comments, and JSON may be the right form.
_LOOKS_OF_A_SHAPE: tuple[_Look, ...] = (
    (Problem.REFUSAL, _refuses),
    (Problem.NOT_TEXT, _has_unprintable),
)
