"""Makes one training example per record: its control codes, then its text.

    product: loan | issue: fees
    I was charged twice ...<end>

Examples are not packed: a record never shares an example with another record. A text may contain
the name of a special token, such as `<|endoftext|>`. Such a name is tokenized as ordinary
characters. So only the real end of a record gets an end token. The loss is computed on the tokens
of the text and on the end token, but not on the codes. A text that is longer than the model's
context is cut and has no end token. The number of cut texts is private. This module computes the
number, so the module is on the audit list.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sugarbush.data.schema import Schema
from sugarbush.errors import ParamsError
from sugarbush.privacy.data_types import Private
from sugarbush.training.dpsgd.language_modelling import Example

_BETWEEN = " | "
_AFTER = "\n"
_LEAST_TEXT = 8  # minimum number of tokens for a text, after its codes


def control_codes(values: Sequence[tuple[str, str]]) -> str:
    """Return the control codes of a text. `attributes` are (name, value) in schema order."""
    return _BETWEEN.join(f"{name}: {value}" for name, value in values) + _AFTER


def examples_of(
    texts: Sequence[str],
    codes: NDArray[np.int64],
    *,
    schema: Schema,
    tokenizer: Any,
    max_length: int,
) -> list[tuple[Example]]:
    """Make one unit per record, with one example of at most `max_length` tokens. `codes` is (n, d).

    Element i depends on record i alone. Raises ParamsError if the longest codes of the schema leave
    no room for a text.
    """
    refuse_long_codes(schema, tokenizer, max_length)
    prompts = [control_codes(schema.decode(tuple(row))) for row in codes.tolist()]
    distinct = sorted(set(prompts))
    encoded = dict(zip(distinct, token_ids(tokenizer, distinct), strict=True))
    return [
        (_example(encoded[prompt], text, tokenizer.eos_token_id, max_length),)
        for prompt, text in zip(
            prompts, token_ids(tokenizer, texts, at_most=max_length), strict=True
        )
    ]


def plain_examples(
    texts: Sequence[str], *, tokenizer: Any, max_length: int
) -> list[tuple[Example]]:
    """Make one unit per text as in `examples_of`, but without codes."""
    return [
        (_example([], ids, tokenizer.eos_token_id, max_length),)
        for ids in token_ids(tokenizer, texts, at_most=max_length)
    ]


def token_ids(
    tokenizer: Any, texts: Sequence[str], *, at_most: int | None = None
) -> list[list[int]]:
    """Return the tokens of each text, without special tokens, at most `at_most` per text.

    If a text contains the name of a special token, the name is tokenized as ordinary characters.
    Without a limit, a tokenizer prints the length of a long text on stderr.
    """
    if not texts:
        return []
    ids: list[list[int]] = tokenizer(
        list(texts),
        add_special_tokens=False,
        split_special_tokens=True,
        truncation=at_most is not None,
        max_length=at_most,
    )["input_ids"]
    return ids


def refuse_long_codes(schema: Schema, tokenizer: Any, max_length: int) -> None:
    """Raise ParamsError if the longest code and a short text do not fit into `max_length`
    tokens."""
    longest = []
    for attribute in schema.attributes:
        lengths = [len(ids) for ids in token_ids(tokenizer, attribute.domain)]
        longest.append((attribute.name, attribute.domain[lengths.index(max(lengths))]))
    taken = len(token_ids(tokenizer, [control_codes(longest)])[0])
    if taken + _LEAST_TEXT > max_length:
        raise ParamsError(
            f"params.yaml: methods.dpft.max_length={max_length} leaves no room for a text after "
            f"the schema's control codes, which take up to {taken} tokens. Raise max_length."
        )


def truncated(units: Private[tuple[Example, ...]], *, end: int) -> int:
    """Count the texts that were cut. The number is private: write it to the private root only."""
    return sum(int(example.tokens[-1] != end) for unit in units._per_unit for example in unit)


def probe_examples(vocabulary: int, *, max_length: int) -> list[Example]:
    """Make two public examples of unequal length with repeated tokens, to test a clipper."""
    return [
        Example(
            tokens=(np.arange(length) * 7 % min(vocabulary, 11)).astype(np.int32), prompt_length=2
        )
        for length in (min(max_length, 12), min(max_length, 7))
    ]


def _example(prompt: list[int], text: list[int], end: int, max_length: int) -> Example:
    tokens = np.array([*prompt, *text, end][:max_length], dtype=np.int32)
    return Example(tokens=tokens, prompt_length=len(prompt))
