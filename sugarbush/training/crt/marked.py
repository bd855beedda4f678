"""Texts for selective training: unchanged, with a flag on every token that a policy covers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sugarbush.training.crt.redact import Policy
from sugarbush.training.crt.selective import MarkedExample


def marked_units(
    texts: Sequence[str], *, policy: Policy, tokenizer: Any, max_length: int
) -> list[tuple[MarkedExample]]:
    """One unit per text, between two end tokens and cut at `max_length` tokens.

    A token is private when any of its characters is in a span of `policy`. If the name of a special
    token occurs in a text, it is read as ordinary text.
    """
    end = tokenizer.eos_token_id
    encoded = tokenizer(
        list(texts),
        add_special_tokens=False,
        split_special_tokens=True,
        return_offsets_mapping=True,
    )
    units = []
    for ids, offsets, spans in zip(
        encoded["input_ids"], encoded["offset_mapping"], policy.spans(texts), strict=True
    ):
        private = [any(s.start < b and a < s.end for s in spans) for a, b in offsets]
        units.append(
            (
                MarkedExample(
                    tokens=np.array([end, *ids, end][:max_length], dtype=np.int32),
                    private=np.array([False, *private, False][:max_length]),
                ),
            )
        )
    return units
