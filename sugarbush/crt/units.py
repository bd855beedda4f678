"""One record, one training example: the text between two ends.

    <end>I was charged twice by <MASK> ...<end>

The loss is on the text and its last end; the first one is what generation starts from. The
tokenizer is a public one: a vocabulary made from the corpus would tell of its secrets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sugarbush.dpsgd.data import token_ids
from sugarbush.dpsgd.language_modelling import Example


def text_units(texts: Sequence[str], *, tokenizer: Any, max_length: int) -> list[tuple[Example]]:
    """One unit a text, of at most `max_length` tokens; a longer one is cut and has no end."""
    end = tokenizer.eos_token_id
    return [
        (Example(tokens=np.array([end, *ids, end][:max_length], dtype=np.int32), prompt_length=1),)
        for ids in token_ids(tokenizer, texts, at_most=max_length)
    ]
