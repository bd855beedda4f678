"""Tests that the name of a special token in a text is read as plain text.

The tokens of a text end where the text ends, and decode to the same text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers import models as tokenizer_models
from transformers import PreTrainedTokenizerFast

from research.leakage.selective import marked_examples
from research.next_token import _Encoded
from sugarbush.data.schema import Attribute, Schema
from sugarbush.generators.huggingface.model import LocalModel
from sugarbush.training.crt.dedup import MASK
from sugarbush.training.crt.policies import make_policy
from sugarbush.training.crt.units import add_mask_token, text_units
from sugarbush.training.dpsgd import models
from sugarbush.training.dpsgd.data import control_codes, examples_of, plain_examples

LONG = 400
NAMES = ("<|endoftext|>", "<s>", "</s>", "<|user|>", "<|im_end|>", "<pad>", "<unk>", "[SEP]")
# Pieces of texts. Texts that are joined from them contain names of special tokens: complete names,
# halves of names, and names inside other names.
PIECES = st.sampled_from(
    [*NAMES, "<|endof", "text|>", "|", "<", "product: loan\n", " a", "é", "\n"]
)
TEXTS = st.lists(PIECES | st.text(max_size=6), max_size=12).map("".join)
SCHEMA = Schema(
    subject="complaints",
    attributes=(Attribute(name="end", values=("<|endoftext|>", "no </s>"), column="end"),),
)


def _as_gpt2() -> Any:
    return models.train_tokenizer(["the man asked <|endoftext|> about fees"] * 9, vocabulary=300)


def _as_a_chat_model() -> Any:
    """Return a byte tokenizer with a dozen special tokens. It adds one of them before each text."""
    bpe = Tokenizer(
        tokenizer_models.BPE(
            {c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}, []
        )
    )
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe, bos_token="<s>", eos_token="</s>", pad_token="<pad>",
        unk_token="<unk>", extra_special_tokens=["<|user|>", "<|im_end|>", "[SEP]"],
    )  # fmt: skip


@pytest.fixture(scope="module", params=[_as_gpt2, _as_a_chat_model])
def tokenizer(request: pytest.FixtureRequest) -> Any:
    make: Callable[[], Any] = request.param
    return make()


def _inner(tokens: np.ndarray, tokenizer: Any) -> list[int]:
    """Return the tokens of the text itself, without the special tokens around it."""
    ids = tokens.tolist()
    start = ids[0] == tokenizer.eos_token_id
    assert ids[-1] == tokenizer.eos_token_id
    return ids[start:-1]


def _is_plain(ids: list[int], text: str, tokenizer: Any) -> None:
    assert not set(ids) & set(tokenizer.all_special_ids)
    assert tokenizer.decode(ids, clean_up_tokenization_spaces=False) == text


@given(texts=st.lists(TEXTS, min_size=1, max_size=4))
@settings(max_examples=60)
def test_an_example_of_dpft_ends_once(tokenizer: Any, texts: list[str]) -> None:
    codes = np.arange(len(texts)).reshape(-1, 1) % 3
    units = examples_of(texts, codes, schema=SCHEMA, tokenizer=tokenizer, max_length=LONG)
    for (example,), code, text in zip(units, codes.tolist(), texts, strict=True):
        prompt = control_codes(SCHEMA.decode(tuple(code)))
        _is_plain(_inner(example.tokens, tokenizer), prompt + text, tokenizer)
        _is_plain(example.tokens[: example.prompt_length].tolist(), prompt, tokenizer)
    for (example,), text in zip(
        plain_examples(texts, tokenizer=tokenizer, max_length=LONG), texts, strict=True
    ):
        _is_plain(_inner(example.tokens, tokenizer), text, tokenizer)


@given(text=TEXTS)
@settings(max_examples=60)
def test_a_unit_of_crt_ends_once(tokenizer: Any, text: str) -> None:
    ((unit,),) = text_units([text], tokenizer=tokenizer, max_length=LONG)
    _is_plain(_inner(unit.tokens, tokenizer), text, tokenizer)
    (marked,) = marked_examples(
        [text], policy=make_policy(["regex"], threshold=0.5), tokenizer=tokenizer, max_length=LONG
    )
    assert marked.tokens.tolist() == unit.tokens.tolist()


@given(text=TEXTS)
@settings(max_examples=30)
def test_texts_are_judged_by_the_tokens_that_they_are_trained_by(tokenizer: Any, text: str) -> None:
    (ids,) = _Encoded(tokenizer, [text], LONG)._tokens
    _is_plain(ids, text, tokenizer)


@given(text=TEXTS)
@settings(max_examples=30)
def test_a_list_that_a_local_model_goes_on_with_holds_no_end(tokenizer: Any, text: str) -> None:
    local = LocalModel(
        model=None, tokenizer=tokenizer, device=None, context_tokens=LONG, pad_id=0, end_ids=(),
        fingerprint="", chats=False, dtype="", engine="",
    )  # type: ignore[arg-type]  # fmt: skip
    _is_plain(local.encode(text), text, tokenizer)


def test_a_mask_is_still_one_token() -> None:
    tokenizer = _as_gpt2()
    add_mask_token(tokenizer)
    text = f"{MASK} asked<|endoftext|>"
    ((unit,),) = text_units([text], tokenizer=tokenizer, max_length=LONG)
    mask = tokenizer.get_added_vocab()[MASK]
    assert unit.tokens.tolist().count(mask) == 1
    assert unit.given is not None
    assert unit.tokens[unit.given].tolist() == [mask]
    assert unit.tokens.tolist().count(tokenizer.eos_token_id) == 2
