"""Names of languages, the number of words in a text, and words without a meaning of their own.

A language is a code of ISO 639, with a region if necessary: `de`, `pt-BR`. Scripts without spaces
between words (Chinese, Japanese, Thai, Lao, Khmer, Burmese) count one word for each character.
"""

from __future__ import annotations

import re
from typing import Final

ENGLISH: Final = "en"  # the language of prompts if a schema states none
CODE: Final = r"^[a-z]{2,3}(-[A-Za-z0-9]{2,8})*$"

_NAMES: Final = {
    "ar": "Arabic", "bg": "Bulgarian", "bn": "Bengali", "ca": "Catalan", "cs": "Czech",
    "da": "Danish", "de": "German", "el": "Greek", "en": "English", "es": "Spanish",
    "et": "Estonian", "fa": "Persian", "fi": "Finnish", "fr": "French", "he": "Hebrew",
    "hi": "Hindi", "hr": "Croatian", "hu": "Hungarian", "id": "Indonesian", "it": "Italian",
    "ja": "Japanese", "ko": "Korean", "lt": "Lithuanian", "lv": "Latvian", "nb": "Norwegian",
    "nl": "Dutch", "no": "Norwegian", "pl": "Polish", "pt": "Portuguese", "ro": "Romanian",
    "ru": "Russian", "sk": "Slovak", "sl": "Slovenian", "sr": "Serbian", "sv": "Swedish",
    "th": "Thai", "tr": "Turkish", "uk": "Ukrainian", "ur": "Urdu", "vi": "Vietnamese",
    "zh": "Chinese",
}  # fmt: skip
_CODES: Final = {name: code for code, name in _NAMES.items()}
# The script of most letters of a text, as `answer_checks.script` names it. All others are Latin.
_SCRIPTS: Final = {
    "ar": "ARABIC", "bg": "CYRILLIC", "bn": "BENGALI", "el": "GREEK", "fa": "ARABIC",
    "he": "HEBREW", "hi": "DEVANAGARI", "ja": "CJK", "ko": "HANGUL", "ru": "CYRILLIC",
    "th": "THAI", "uk": "CYRILLIC", "ur": "ARABIC", "zh": "CJK",
}  # fmt: skip
_BOTH: Final = frozenset({"sr"})  # written in two scripts
UNSPACED: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
_UNSPACED = re.compile(rf"([{UNSPACED}])")

# Words that say nothing about a subject, besides those of English in scikit-learn.
_MORE_STOP_WORDS: Final = (
    "i'm i've i'll i'd it's that's there's don't didn't doesn't can't couldn't won't wouldn't "
    "isn't wasn't aren't you're we're they're just got get going like know make say said "
    "der die das und ist nicht ich ein eine mit auf den für sie dem wir auch von zu es im des wird "
    "sind war hat le la les et est des une que pas je pour dans qui sur avec vous ne du ce il nous "
    "mais mon el los de en por con para no se las me lo pero mi muy es un al como su che di non "
    "sono del gli ho ma nel alla questo do da não uma os em um mais na eu as foi het een van niet "
    "dat op te zijn voor er maar ook naar bij"
)
MORE_STOP_WORDS: Final = frozenset(_MORE_STOP_WORDS.split())


def language_name(code: str) -> str:
    """Return the English name of a language.

    >>> language_name("de"), language_name("pt-BR"), language_name("xy")
    ('German', 'Portuguese (pt-BR)', "the language with the ISO 639 code 'xy'")
    """
    base, _, region = code.partition("-")
    name = _NAMES.get(base, f"the language with the ISO 639 code '{base}'")
    return f"{name} ({code})" if region else name


def language_code(name: str) -> str | None:
    """Return the code of a language by its English name, or None."""
    return _CODES.get(name)


def script_of(code: str) -> str | None:
    """Return the script of a language, such as LATIN, or None for an unknown language."""
    base = code.partition("-")[0]
    if base not in _NAMES or base in _BOTH:
        return None
    return _SCRIPTS.get(base, "LATIN")


def words_in(text: str) -> list[str]:
    """Return the words of a text, separated by white space. In a script without spaces, each
    character is a word.

    >>> len(words_in("Das Paket fehlt.")), len(words_in("包裹没有到"))
    (3, 5)
    """
    return text.split() if text.isascii() else _UNSPACED.sub(r" \1 ", text).split()


def count_words(text: str) -> int:
    """Return the number of words of a text (`words_in`)."""
    return len(words_in(text))


def folded(text: str) -> str:
    """Return a word without upper and lower case, for a comparison with words of a pattern.

    A pattern without case accepts two further letters for i: a capital I with a dot, and a small i
    without one.

    >>> folded("APR\u0130L"), folded("Apr\u0131l")
    ('april', 'april')
    """
    return text.casefold().replace("\u0307", "").replace("\u0131", "i")
