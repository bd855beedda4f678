"""Writes texts with a trained model: an exact number of texts for each control code.

This module is post-processing of released values: the model, and codes from the DP metadata.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from transformers import GenerationConfig

from sugarbush.errors import GeneratorError
from sugarbush.privacy.data_types import Released, merge_ids
from sugarbush.randomness import seed_of
from sugarbush.training.device import enough_memory
from sugarbush.training.dpsgd.data import token_ids
from sugarbush.training.dpsgd.settings import SamplingSettings

TOP_K: Final = 50  # a token is sampled from at most this many tokens, as in Yue et al. 2023
TOP_P: Final = 0.9  # and from tokens with this total probability
ATTEMPTS: Final = 20
BATCH: Final = 64  # texts that are written at once


@dataclass(frozen=True, kw_only=True)
class Generation:
    """One text per prompt, in order; `redrawn` counts the empty texts that were discarded."""

    texts: tuple[str, ...]
    redrawn: int
    tokens: int


def generate(
    model: Released[Any],
    prompts: Released[Sequence[str]],
    *,
    tokenizer: Any,
    settings: SamplingSettings,
    seed: int,
    max_length: int,
    after_end: bool = False,
    attempts: int = ATTEMPTS,
) -> Released[Generation]:
    """Write one text after each of `prompts`, in their order. Calls with equal seeds return equal
    texts. At most `BATCH` texts are written at once.

    `max_length` is in tokens, including the tokens of the prompt. Prompts are plain text. With
    `after_end`, the end token comes before each prompt, and a prompt may be empty. A text is
    written again if it is empty or only repeats its prompt. Raises GeneratorError when some texts
    are still empty after `attempts` draws.
    """
    texts: list[str] = [""] * len(prompts.value)
    redrawn = tokens = 0
    for attempt in range(attempts):
        missing = [index for index, text in enumerate(texts) if not text]
        redrawn += len(missing) if attempt else 0
        for number, batch in enumerate(_batches(missing, prompts.value, tokenizer)):
            drawn = _continue(
                model.value,
                [prompts.value[index] for index in batch],
                tokenizer,
                settings,
                max_length=max_length,
                seed=seed_of(seed, "generate", attempt, number),
                after_end=after_end,
            )
            for index, text in zip(batch, drawn.texts, strict=True):
                texts[index] = "" if text == prompts.value[index].strip() else text
            tokens += drawn.tokens
    if not all(texts):
        raise GeneratorError(
            f"the fine-tuned model left {texts.count('')} of {len(texts)} texts empty in "
            f"{attempts} draws each. The model learned too little: train for more epochs, "
            "or at a larger privacy.epsilon."
        )
    generation = Generation(texts=tuple(texts), redrawn=redrawn, tokens=tokens)
    return Released(generation, merge_ids(model, prompts))


def _batches(indices: Sequence[int], prompts: Sequence[str], tokenizer: Any) -> Iterator[list[int]]:
    """Yield batches of indices. All prompts of a batch have the same length, so that no prompt
    needs padding."""
    by_length: dict[int, list[int]] = defaultdict(list)
    distinct = sorted(set(prompts))
    lengths = dict(zip(distinct, map(len, token_ids(tokenizer, distinct)), strict=True))
    for index in indices:
        by_length[lengths[prompts[index]]].append(index)
    for length in sorted(by_length):
        alike = by_length[length]
        for start in range(0, len(alike), BATCH):
            yield alike[start : start + BATCH]


@torch.inference_mode()
def _continue(
    model: Any,
    prompts: Sequence[str],
    tokenizer: Any,
    settings: SamplingSettings,
    *,
    max_length: int,
    seed: int,
    after_end: bool,
) -> Generation:
    device, end = next(model.parameters()).device, tokenizer.eos_token_id
    start = [end] if after_end else []
    ids = torch.tensor(
        [[*start, *prompt_ids] for prompt_ids in token_ids(tokenizer, prompts)], device=device
    )
    config = GenerationConfig(  # type: ignore[no-untyped-call]
        do_sample=True,
        top_k=TOP_K,
        top_p=TOP_P,
        temperature=settings.temperature,
        max_length=max_length,
        use_cache=True,
        eos_token_id=end,
        pad_token_id=end,  # fills the rows of finished texts; the padding is removed below
    )
    memory = enough_memory(device, setting="methods.<method>.max_length", value=max_length)
    with memory, torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        model.eval()
        drawn = model.generate(ids, attention_mask=torch.ones_like(ids), generation_config=config)[
            :, ids.shape[1] :
        ]
    texts = tokenizer.batch_decode(drawn, skip_special_tokens=True)
    return Generation(
        texts=tuple(text.strip() for text in texts), redrawn=0, tokens=int((drawn != end).sum())
    )
