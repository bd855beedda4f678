"""Decides which values name the same user.

A user with two names would get the protection of one name only. So the code prefers to merge two
users, which is always safe: the merged user has at most as many records as one user may have.
"""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal
from typing import Any
from uuid import UUID

# Invisible characters that are not in category Cf or Cc: fillers, joiners, variation selectors.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u2800\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8"
    "\ufffc\U00016fe4\U0001d159\U000e0000-\U000e0fff]"
)
_UNSEEN = ("Cf", "Cc", "Cn", "Co", "Cs")
_WHOLE = re.compile(r"(-?\d+)\.0+")


def is_user_name(value: Any) -> bool:
    """Return whether a cell can name a user: a text, a whole number or a UUID.

    >>> [is_user_name(value) for value in ("Ana", 7, 7.0, 7.5, True, {"id": 7}, [7])]
    [True, True, True, False, False, False, False]
    """
    import numpy as np

    if isinstance(value, bool | np.bool_):
        return False
    if isinstance(value, Decimal):
        return value.is_finite() and value == value.to_integral_value()
    if isinstance(value, float | np.floating):
        return bool(np.isfinite(value) and value == np.floor(value))
    return isinstance(value, str | int | np.integer | UUID)


def normalised_user(name: str) -> str:
    """Return the same text for all spellings of a user.

    The function ignores case, width (Unicode NFKC), spaces, and invisible, private and unassigned
    characters. A whole number may end with `.0`, as in a file that was written from floats.

    >>> len({normalised_user(name) for name in ("Ana", " ANA", "A\u200bna", "\uff21na")})
    1
    >>> normalised_user("17.0"), normalised_user("١٧")
    ('17', '17')
    """
    while True:
        # Case changes decomposed characters, because iota subscript becomes a letter of its own.
        apart = unicodedata.normalize("NFD", unicodedata.normalize("NFKC", name))
        plain = unicodedata.normalize("NFKC", apart.upper().casefold())  # `upper` merges ı and i
        plain = "".join(map(_plain_character, plain.replace("i\u0307", "i")))  # İ
        visible = "".join(c for c in _INVISIBLE.sub("", plain) if _is_visible(c))
        folded = unicodedata.normalize("NFKC", "".join(visible.split()).replace("\u2212", "-"))
        if folded == name:
            break
        name = folded
    whole = _WHOLE.fullmatch(name)
    name = whole[1] if whole else name
    return "0" if name == "-0" else name


def _plain_character(character: str) -> str:
    return str(unicodedata.digit(character)) if character.isdecimal() else character


def _is_visible(character: str) -> bool:
    return character.isspace() or unicodedata.category(character) not in _UNSEEN
