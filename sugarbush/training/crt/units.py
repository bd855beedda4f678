"""Makes one training example per record: the text between two end tokens.

    <end>I was charged twice by <MASK> ...<end>

The loss is on the text and its last end token. Generation starts after the first end token. A mask
is one token. The model reads masks but is not trained to predict masks, because then it would
predict names worse. The tokenizer is public, because a vocabulary from the corpus would reveal
secrets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from sugarbush.training.crt.dedup import MASK
from sugarbush.training.dpsgd.data import token_ids
from sugarbush.training.dpsgd.language_modelling import Example


def add_mask_token(tokenizer: Any) -> None:
    """Make the mask a separate token at the end of the vocabulary."""
    tokenizer.add_tokens([MASK])


def give_room_for_mask(model: Any, tokenizer: Any) -> None:
    """Add the mask to a model of transformers. The vector of the mask is the mean of all other
    token vectors.

    Some models have more token vectors than their tokenizer has tokens. All these vectors stay.
    """
    mask = tokenizer.get_added_vocab()[MASK]
    rows = model.get_input_embeddings().num_embeddings
    model.resize_token_embeddings(max(rows, mask + 1), mean_resizing=False)
    with torch.no_grad():
        for layer in (model.get_input_embeddings(), model.get_output_embeddings()):
            layer.weight[mask] = layer.weight[:mask].mean(0)


def text_units(texts: Sequence[str], *, tokenizer: Any, max_length: int) -> list[tuple[Example]]:
    """Make one unit per text. A text that is longer than `max_length` has no end token."""
    end, mask = tokenizer.eos_token_id, tokenizer.get_added_vocab().get(MASK)
    units = []
    for ids in token_ids(tokenizer, texts, at_most=max_length):
        tokens = np.array([end, *ids, end][:max_length], dtype=np.int32)
        given = tokens == mask if mask in ids else None
        units.append((Example(tokens=tokens, prompt_length=1, given=given),))
    return units
