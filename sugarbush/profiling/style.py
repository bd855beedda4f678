"""Public yes/no rules on the form of a text, and a rough detector of its language."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

_EMOJI = re.compile("[\u2600-\u27bf\U0001f300-\U0001faff]")
_LINK = re.compile(r"https?://|www\.\w", re.IGNORECASE)
_GREETING = re.compile(
    r"\W{0,3}(?:@\w+\W{1,3})?(?:hi|hello|hey|dear|good (?:morning|day|afternoon|evening)|"
    r"greetings|hallo|guten (?:tag|morgen)|"
    r"liebe[rs]?|sehr geehrte|moin|bonjour|salut|cher|ch[eè]re|hola|buenos|"
    r"buenas|estimad[oa]|ciao|buongiorno|gentile|ol[aá]|bom dia|prezad[oa]|beste|geachte)\b",
    re.IGNORECASE,
)
_SIGN_OFF = re.compile(
    r"(?:\bregards|\bsincerely|\bcheers|\bthank you|\bthanks|\bbest wishes|\byours|"
    r"\bgr[uü](?:ß|ss)e|\bgr[uü](?:ß|ss)en|\bdanke|\bcordialement|\bmerci|\bsaludos|\batentamente|\bgracias|\bsaluti|"
    r"\bgrazie|\batenciosamente|\bobrigad[oa]|\bgroeten|\bbedankt)\W*(?:[\w.]+\W*){0,4}\Z",
    re.IGNORECASE,
)
_LIST = re.compile(r"(?m)^\s{0,4}(?:[-*•]|\d{1,2}[.)])\s+\S")
_PRICE = re.compile(r"[$€£¥]\s?\d|\d\s?(?:[$€£¥]|USD|EUR|GBP|CHF|dollars?|euros?)\b", re.IGNORECASE)
_TURN = re.compile(r"(?m)^\s{0,4}[^\W\d_][\w .'-]{0,30}:\s")
_SENTENCE_END = re.compile(r"[.!?…]+(?=\s|\Z)|\n+|[。！？]")
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")

Rule = Callable[[str], object]

# The words after "Most texts" or "Some texts". Every text of the rules is public.
RULES: Final[Mapping[str, Rule]] = {
    "begin with a greeting": _GREETING.match,
    "begin with a mention (@name)": re.compile(r"\W{0,2}@\w").match,
    "mention somebody (@name)": re.compile(r"(?<!\w)@\w").search,
    "have a hashtag": re.compile(r"(?<!\w)#\w").search,
    "are all in lower case": lambda text: text.lower() == text and text.upper() != text,
    "have an emoji": _EMOJI.search,
    "have a link": _LINK.search,
    "ask a question": re.compile(r"[?？]").search,
    "have an exclamation mark": re.compile(r"[!！]").search,
    "have a list": _LIST.search,
    "end with thanks or a sign-off": _SIGN_OFF.search,
    "have digits": re.compile(r"\d").search,
    "name a price": _PRICE.search,
    "have several paragraphs": re.compile(r"\S\s*\n\s*\S").search,
    "are dialogues with speaker names": lambda text: turns(text) > 1,
}

_SCRIPTS: Final = {
    "Greek": "\u0370-\u03ff",
    "Cyrillic script": "\u0400-\u04ff",
    "Hebrew": "\u0590-\u05ff",
    "Arabic script": "\u0600-\u06ff",
    "Devanagari script": "\u0900-\u097f",
    "Thai": "\u0e00-\u0e7f",
    "Japanese": "\u3040-\u30ff",
    "Korean": "\uac00-\ud7af",
    "Chinese": "\u4e00-\u9fff",
}
_SCRIPT_PATTERNS = {name: re.compile(f"[{letters}]") for name, letters in _SCRIPTS.items()}
# Frequent short words. A word of several languages counts for each of them.
_FUNCTION_WORDS: Final = {
    "English": "the and to of is in that it you for was are with have this not on my but they i",
    "German": "der die und das ist nicht ich zu ein eine mit auf den für es sie im dem wir auch",
    "French": "le la les et est des une que pas je pour dans qui sur avec vous ne du ce il",
    "Spanish": "el la los que de y es en una por con para no se las me lo pero mi muy",
    "Italian": "il che di e la non per una sono con del è le mi gli ho ma nel alla questo",
    "Portuguese": "o que de e do da não para uma com os em um por mais na eu me as foi",
    "Dutch": "de het een en van ik niet is dat op te met zijn voor in er maar ook naar bij",
}
_WORDS_OF = {name: frozenset(words.split()) for name, words in _FUNCTION_WORDS.items()}
UNKNOWN: Final = "another language"
LANGUAGES: Final = (*_WORDS_OF, *_SCRIPTS, UNKNOWN)
_READ: Final = 400  # characters of a text that decide its language
_LEAST_MARKS: Final = 2


def language(text: str) -> str:
    """Guess the language of a text by its script and its function words.

    >>> language("the parcel is not here"), language("das Paket ist nicht da"), language("ok")
    ('English', 'German', 'another language')
    """
    start = text[:_READ]
    letters = sum(map(str.isalpha, start))
    if not start.isascii():
        for name, pattern in _SCRIPT_PATTERNS.items():
            if 2 * len(pattern.findall(start)) > letters:
                return name
    words = [word.casefold() for word in _WORD.findall(start)]
    marks = {name: sum(word in known for word in words) for name, known in _WORDS_OF.items()}
    best = max(marks, key=marks.__getitem__)
    return best if marks[best] >= _LEAST_MARKS else UNKNOWN


def turns(text: str) -> int:
    """Return the number of lines that begin with a speaker's name and a colon.

    >>> turns("Agent: Hello!\\nCustomer: Hi.\\nAgent: How can I help?")
    3
    """
    return len(_TURN.findall(text))


def sentences(text: str) -> int:
    """Return the number of sentences or lines, at least 1."""
    return max(1, len(_SENTENCE_END.findall(text.strip())))
