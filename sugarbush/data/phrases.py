"""Words and phrases of a collection, for prompts.

A phrase may come from private texts, through a profile, and is part of the prompt of a language
model. So it is one short line of words, without quotation marks, brackets and other signs of a
format.
"""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import BeforeValidator

_MOST_PHRASES: Final = 200  # in one list
_LONGEST: Final = 64  # characters; a profile has two words of 30
_MOST_WORDS: Final = 6
# Letters of all languages with their marks, digits, and signs inside names such as AT&T or wi-fi.
_ALLOWED: Final = re.compile(r"(?:[^\W_]|[\u0300-\u036f\u0900-\u0dff\u0e00-\u0eff]|[ '’&.+/#-])+")


def phrase_list(listed: object) -> tuple[str, ...]:
    """Return the phrases of a list without repetitions. Raises ValueError for the first wrong one.

    >>> phrase_list([" late flight ", 747, "late flight"])
    ('late flight', '747')
    """
    if not isinstance(listed, list | tuple):
        raise ValueError("must be a list of phrases, such as [late flight, lost luggage]")
    if len(listed) > _MOST_PHRASES:
        raise ValueError(f"{len(listed)} phrases, but at most {_MOST_PHRASES}. Delete the others")
    phrases = dict.fromkeys(
        str(phrase).strip(" ") if isinstance(phrase, str | int) else "" for phrase in listed
    )
    for number, phrase in enumerate(phrases, start=1):
        if problem := _problem(phrase):
            raise ValueError(f"phrase {number} {problem}")
    return tuple(phrases)


def _problem(phrase: str) -> str | None:
    if not any(map(str.isalnum, phrase)):
        return "has no letter and no digit. Delete it, or write it as text in quotation marks"
    if len(phrase) > _LONGEST or len(phrase.split()) > _MOST_WORDS:
        return f"has more than {_LONGEST} characters or {_MOST_WORDS} words. Shorten it"
    if not _ALLOWED.fullmatch(phrase):
        return "must be one line of letters, digits, spaces and the signs '’&.+/#-. Rewrite it"
    return None


Phrases = Annotated[tuple[str, ...], BeforeValidator(phrase_list)]
