"""Prompts share their beginning, and a local model computes it once, with equal answers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from sugarbush.generators.huggingface.batch import PrefixStates, PromptRow, pack, write_batch
from sugarbush.generators.huggingface.model import LocalModel
from sugarbush.generators.huggingface.settings import HuggingFace
from sugarbush.generators.shared_prefixes import SharedPrefix, shared_prefixes
from tests.integration.llm.tiny_gpt2 import make_tokenizer

VOCABULARY = 600


def saved(prefixes: list[SharedPrefix]) -> int:
    groups: dict[int, list[int]] = {}
    for prefix in prefixes:
        groups.setdefault(prefix.leader, []).append(prefix.length)
    return sum((len(lengths) - 1) * lengths[0] for lengths in groups.values())


@given(st.lists(st.text("ab", min_size=1, max_size=6), max_size=9))
def test_a_group_shares_a_beginning_and_one_group_of_all_saves_no_more(prompts: list[str]) -> None:
    prefixes = shared_prefixes(prompts)
    for prompt, prefix in zip(prompts, prefixes, strict=True):
        assert prompt.startswith(prompts[prefix.leader][: prefix.length])
        assert prefix.length < len(prompt)
    for length in range(min((len(prompt) for prompt in prompts), default=0)):
        if len({prompt[:length] for prompt in prompts}) == 1:
            assert saved(prefixes) >= (len(prompts) - 1) * length


def test_a_group_has_one_leader_and_one_length() -> None:
    prompts = ["set one: a", "set two: a", "other", "set one: b", "set two: b", "set one: c"]
    prefixes = shared_prefixes(prompts)
    assert [each.leader for each in prefixes] == [0, 1, 2, 0, 1, 0]
    assert [each.length for each in prefixes] == [9, 9, 0, 9, 9, 9]


# A local model


def gpt2(vocabulary: int) -> Any:
    return GPT2LMHeadModel(
        GPT2Config(vocab_size=vocabulary, n_positions=256, n_embd=32, n_layer=2, n_head=4)
    )


def llama(vocabulary: int) -> Any:
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=vocabulary, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256,
        )
    )  # fmt: skip


def local_model(make: Callable[[int], Any]) -> LocalModel:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = make(VOCABULARY).float().eval()
        for parameter in model.parameters():  # far from uniform, so that no two scores are near
            parameter.data.mul_(4.0)
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0
    return LocalModel(
        model=model,
        tokenizer=make_tokenizer(chats=True),
        device=torch.device("cpu"),
        context_tokens=256,
        pad_id=0,
        end_ids=(),
        fingerprint="",
        dtype="torch.float32",
        chats=True,
    )


PARAMS = HuggingFace(model="tiny", temperature=1.0)


def prompts_of(sets: int, rows: int) -> list[list[int]]:
    """Prompts with `sets` different beginnings, and ends of different lengths."""
    rng = np.random.default_rng(1)
    beginnings = [rng.integers(1, VOCABULARY, 30 + 7 * i).tolist() for i in range(sets)]
    ends = [rng.integers(1, VOCABULARY, 2 + i % 5).tolist() for i in range(rows)]
    return [beginnings[i % sets] + end for i, end in enumerate(ends)]


def written(
    local: LocalModel,
    prompts: list[list[int]],
    *,
    share: bool,
    batch_tokens: int = 10_000,
    states: PrefixStates | None = None,
) -> tuple[list[tuple[str | None, int]], int]:
    """Return the greedy completions in order, and the number of computed prompt tokens."""
    none = [SharedPrefix(length=0, leader=i) for i in range(len(prompts))]
    prefixes = shared_prefixes(prompts) if share else none
    rows = [
        # With the number 0, the likeliest token is drawn.
        PromptRow(ids=prompt, uniforms=np.zeros(40), shared=prefix.length)
        for prompt, prefix in zip(prompts, prefixes, strict=True)
    ]
    states = PrefixStates(local, most_tokens=0) if states is None else states
    found, computed = {}, 0
    lengths, limits = [len(prompt) for prompt in prompts], [40] * len(prompts)
    for batch in pack(lengths, limits, prefixes=prefixes, batch_tokens=batch_tokens):
        answers = write_batch(local, [rows[i] for i in batch], PARAMS, steering={}, prefixes=states)
        for i, answer in zip(batch, answers, strict=True):
            found[i] = (answer.text, answer.completion_tokens)
            computed += answer.prompt_tokens - answer.cached_prompt_tokens
    return [found[i] for i in range(len(prompts))], computed


@pytest.mark.parametrize("make", [gpt2, llama])
@pytest.mark.parametrize("batch_tokens", [100, 300, 10_000])
def test_shared_beginnings_leave_greedy_answers_equal(
    make: Callable[[int], Any], batch_tokens: int
) -> None:
    """The second segment of 32 tokens, rows that leave a batch, several prefixes in a batch, a
    prefix in several batches, and a prompt that shares nothing are all in this test."""
    local, prompts = local_model(make), [*prompts_of(3, 13), [5, 4, 3, 2, 1] * 20]
    alone, every = written(local, prompts, share=False, batch_tokens=batch_tokens)
    shared, fewer = written(local, prompts, share=True, batch_tokens=batch_tokens)
    assert shared == alone
    assert len({text for text, _ in alone}) == len(prompts)
    assert every == sum(map(len, prompts))
    assert fewer < 0.5 * every


@pytest.mark.slow
@pytest.mark.parametrize(("most_tokens", "times"), [(0, 6), (111, 3)])
def test_a_prefix_is_computed_once_while_it_is_kept(
    most_tokens: int, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three prefixes have 30, 37 and 44 tokens, so 111 tokens are enough to keep all."""
    local, computed, inner = local_model(llama), [], PrefixStates._computed

    def counted(self: PrefixStates, prefix: tuple[int, ...]) -> list[Any]:
        computed.append(prefix)
        return inner(self, prefix)

    monkeypatch.setattr(PrefixStates, "_computed", counted)
    prompts, states = prompts_of(3, 30), PrefixStates(local, most_tokens=most_tokens)
    first, _ = written(local, prompts, share=True, batch_tokens=400, states=states)
    assert len(computed) == 3
    again, _ = written(local, prompts, share=True, batch_tokens=400, states=states)
    assert again == first
    assert len(computed) == times


def test_prompts_with_equal_prefixes_are_neighbours_in_batches() -> None:
    prompts = prompts_of(4, 40)
    prefixes = shared_prefixes(prompts)
    lengths = [len(prompt) for prompt in prompts]
    batches = pack(lengths, [40] * 40, prefixes=prefixes, batch_tokens=500)
    assert sorted(i for batch in batches for i in batch) == list(range(40))
    leaders = [prefixes[i].leader for batch in batches for i in batch]
    assert sum(a != b for a, b in pairwise(leaders)) == 3
