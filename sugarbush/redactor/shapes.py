"""Computes the shape of the word around each token. The shape is the token type of the model.

The bundled model does not distinguish capitals, and capitals help to recognise names.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

# no word, lower case, capitalised, capitals, mixed, digits, digits and letters, sign, other
COUNT = 9


def shape_of(word: str) -> int:  # noqa: PLR0911 (one line a shape)
    """Return the shape of a word, 1 to 8."""
    if word.isdigit():
        return 5
    if word.isalnum() and any(c.isdigit() for c in word):
        return 6
    if not word.isalpha():
        return 7
    if word.islower():
        return 1
    if len(word) > 1 and word.isupper():
        return 3
    if word[0].isupper() and (len(word) == 1 or word[1:].islower()):
        return 2
    return 4 if word.lower() != word.upper() else 8


def token_types(encoded: Any, pieces: list[str]) -> Tensor:
    """Return the shape of each token's word, (pieces, tokens). The shape is 0 if a token is in no
    word."""
    width = len(encoded["input_ids"][0])
    types = torch.zeros((len(pieces), width), dtype=torch.long)
    for row, piece in enumerate(pieces):
        shape_of_word: dict[int, int] = {}
        for token, word in enumerate(encoded.word_ids(row)):
            if word is None:
                continue
            if word not in shape_of_word:
                start, end = encoded.word_to_chars(row, word)
                shape_of_word[word] = shape_of(piece[start:end])
            types[row, token] = shape_of_word[word]
    return types
