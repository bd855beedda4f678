"""Trains a very small GPT-2 for tests, and saves it like a real model.

It learns to write sentences like those of `sentences`, as the next text of a list or as the answer
in a chat, and to end them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedModel, PreTrainedTokenizerFast

from sugarbush.generators.huggingface.batch import pad_left
from sugarbush.generators.interface import RandomRequest
from sugarbush.generators.prompts import SEPARATOR, continuation, render
from sugarbush.randomness import public_rng

END = "<|end|>"
CHAT_TEMPLATE = (
    "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)
CONTEXT_TOKENS = 512

_THINGS = ("lamp", "chair", "kettle", "phone", "table", "clock", "rug", "mirror")
_FAULTS = (
    "arrived with a crack", "stopped after a day", "is the wrong colour", "has not come yet",
    "makes a strange noise", "was sent to my old address",
)  # fmt: skip
_WISHES = (
    "Please send another one.", "I would like my money back.", "Can somebody fetch it on Friday?",
    "What should I do with it now?", "Nobody answered my letter.",
)  # fmt: skip


def sentences(count: int, *, seed: int = 1) -> list[str]:
    """Return `count` invented complaints of about fifteen words."""
    rng = public_rng(seed, "sentences")
    return [
        f"The {_THINGS[rng.integers(8)]} that I bought {_FAULTS[rng.integers(6)]}. "
        f"{_WISHES[rng.integers(5)]}"
        for _ in range(count)
    ]


def save_tiny_gpt2(folder: Path, *, chats: bool) -> Path:
    """Make, train and save a model and its tokenizer. `chats` adds a chat template."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        tokenizer = make_tokenizer(chats=chats)
        config = GPT2Config(
            vocab_size=len(tokenizer), n_positions=CONTEXT_TOKENS, n_embd=64, n_layer=2, n_head=2,
            bos_token_id=tokenizer.eos_token_id, eos_token_id=tokenizer.eos_token_id,
        )  # fmt: skip
        model = GPT2LMHeadModel(config)
        train(model, tokenizer)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def make_tokenizer(*, chats: bool) -> PreTrainedTokenizerFast:
    """Train a byte-level BPE tokenizer, like GPT-2's, on the sentences and on prompts."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    bpe.train_from_iterator(
        [*sentences(300), *[_prompt(chats=chats)] * 20, f"\n{SEPARATOR}\n" * 300],
        trainers.BpeTrainer(
            vocab_size=600,
            special_tokens=[END, "<|user|>", "<|assistant|>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    tokenizer = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=bpe, eos_token=END, bos_token=END, model_max_length=CONTEXT_TOKENS
    )
    if chats:
        tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def _prompt(*, chats: bool) -> str:
    request = RandomRequest(subject="complaints", words=20)
    if chats:
        return render(request, context_tokens=4096, max_tokens=64)
    return continuation(request, context_tokens=4096, max_tokens=64)


def _document(tokenizer: Any, number: int) -> list[int]:
    """Return the tokens of one training document: a chat, or a list of a few texts."""
    if not tokenizer.chat_template:
        texts = sentences(3, seed=number)
        text = _prompt(chats=False) + f"\n{SEPARATOR}\n".join([*texts, END])
        return list(tokenizer(text)["input_ids"])
    chat = tokenizer.apply_chat_template(
        [{"role": "user", "content": _prompt(chats=True)}],
        tokenize=False,
        add_generation_prompt=True,
    )
    return list(tokenizer(f"{chat}{sentences(1, seed=number)[0]}{END}")["input_ids"])


def train(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast) -> None:
    """Train the model long enough to write complete sentences and to end them."""
    documents = [_document(tokenizer, number) for number in range(400)]
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    for start in range(0, len(documents), 4):
        ids, mask = pad_left(documents[start : start + 4], pad_id=0)
        labels = ids.masked_fill(mask == 0, -100)
        model(input_ids=ids, attention_mask=mask, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
