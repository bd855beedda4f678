"""A local model completes batches of prompts, which are packed by shared beginning and by length.

The keys and values of a beginning that prompts share are computed once (`PrefixStates`).

transformers draws the random numbers of a batch from one stream, so a text would depend on its
batch. Here each token depends only on the scores of its row and on its own public random number
(docs/decisions/local-models.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import (
    DynamicCache,
    LogitsProcessor,
    LogitsProcessorList,
    StoppingCriteria,
    StoppingCriteriaList,
)
from transformers.cache_utils import DynamicLayer

from sugarbush.errors import GeneratorError
from sugarbush.generators.answer_cache import Completion
from sugarbush.generators.control_tokens import control_tokens
from sugarbush.generators.huggingface.model import LocalModel, TextModel
from sugarbush.generators.huggingface.model_settings import LocalModelSettings
from sugarbush.generators.huggingface.steering import Steering, steered
from sugarbush.generators.huggingface.writer import Prompt
from sugarbush.generators.prompts import SEPARATOR
from sugarbush.generators.shared_prefixes import SharedPrefix, shared_prefixes

_TAIL_TOKENS = 6  # the separator has at most five tokens, so the last six are searched for it
_SPARE_TOKENS = 32  # keys and values are copied once per this number of new tokens
_SEGMENT_TOKENS = 32  # after each segment of this many tokens, finished rows leave the batch
_LIKELIEST = 512  # all tokens of a row are sorted only if its nucleus has more tokens than this


@dataclass(frozen=True, kw_only=True)
class PromptRow:
    """A prompt's tokens, and one public random number in [0, 1) for each token of the answer.

    The first `shared` tokens are those of other prompts, too.
    """

    ids: list[int]
    uniforms: NDArray[np.float64]
    shared: int = 0


def write_batch(
    local: LocalModel,
    rows: Sequence[PromptRow],
    params: LocalModelSettings,
    *,
    steering: Steering,
    prefixes: PrefixStates,
) -> list[Completion]:
    """Return the model's completion of each prompt, with the vectors of `steering`.

    Raises GeneratorError, with the setting to change, if the device has too little memory for the
    batch.
    """
    ids, mask = pad_left([row.ids for row in rows], pad_id=local.pad_id)
    limits = torch.tensor([len(row.uniforms) for row in rows], device=local.device)
    uniforms = torch.zeros(len(rows), int(limits.max()))
    for index, row in enumerate(rows):
        uniforms[index, : len(row.uniforms)] = torch.from_numpy(row.uniforms)
    width = ids.shape[1]
    try:
        # A vector changes no token before the last one of a prompt, so prefixes have none.
        cache, reused = prefixes.cache(rows)
        with torch.inference_mode(), steered(local.model, steering):
            added = _added_tokens(
                local,
                _Batch(
                    ids=ids.to(local.device),
                    mask=mask.to(local.device),
                    uniforms=uniforms.to(local.device),
                    limits=limits,
                    indices=torch.arange(len(rows)),
                ),
                width=width,
                params=params,
                cache=cache,
            )
    except torch.OutOfMemoryError:
        raise GeneratorError(
            f"the model ran out of memory on {local.device} with a batch of {len(rows)} texts; "
            f"lower generator.huggingface.batch_tokens={params.batch_tokens} or max_tokens"
        ) from None
    return [
        completion(
            local,
            tokens,
            limit=len(row.uniforms),
            prompt_tokens=len(row.ids),
            cached_prompt_tokens=count,
        )
        for row, tokens, count in zip(rows, added, reused, strict=True)
    ]


class TransformersWriter:
    """Writes the answers to prompts in packed batches, with the vectors of `steering`.

    The division into batches depends on all prompts, not only on the missing ones. So a resumed run
    computes a missing answer in the same batch as an uninterrupted run.
    """

    def __init__(
        self, local: LocalModel, params: LocalModelSettings, *, steering: Steering
    ) -> None:
        self.local, self._params, self._steering = local, params, steering
        self._prefixes = PrefixStates(local, most_tokens=params.batch_tokens)

    def write(
        self, prompts: Sequence[Prompt], *, missing: Sequence[int]
    ) -> Iterator[dict[int, Completion]]:
        """Yield the answers of each batch, by index."""
        shared = shared_prefixes([prompt.ids for prompt in prompts])
        batches = pack(
            [len(prompt.ids) for prompt in prompts],
            [prompt.limit for prompt in prompts],
            prefixes=shared,
            batch_tokens=self._params.batch_tokens,
        )
        wanted = set(missing)
        for batch in batches:
            indices = [i for i in batch if i in wanted]
            if not indices:
                continue
            rows = [
                PromptRow(
                    ids=prompts[i].ids.tolist(),
                    uniforms=prompts[i].random().random(prompts[i].limit),
                    shared=shared[i].length,
                )
                for i in indices
            ]
            completions = write_batch(
                self.local, rows, self._params, steering=self._steering, prefixes=self._prefixes
            )
            yield dict(zip(indices, completions, strict=True))


@dataclass(frozen=True, kw_only=True)
class _Batch:
    """The rows with unfinished answers: `ids` and `mask` (b, t), and their `indices` (b,)."""

    ids: Tensor
    mask: Tensor
    uniforms: Tensor
    limits: Tensor
    indices: Tensor

    def take(self, rows: Tensor, *, ids: Tensor) -> _Batch:
        """Keep only `rows` of the batch. `ids` are the tokens of the whole batch so far."""
        grown = torch.nn.functional.pad(self.mask, (0, ids.shape[1] - self.mask.shape[1]), value=1)
        return _Batch(
            ids=ids[rows],
            mask=grown[rows],
            uniforms=self.uniforms[rows],
            limits=self.limits[rows],
            indices=self.indices[rows.cpu()],
        )


def _added_tokens(
    local: LocalModel, batch: _Batch, *, width: int, params: LocalModelSettings, cache: Any
) -> list[list[int]]:
    """Return the tokens that the model adds to each row, until an end token or the row's limit.

    `cache` has the keys and values of the first tokens of all rows.
    """
    added: list[list[int]] = [[] for _ in batch.indices]
    end_ids = torch.tensor(local.end_ids, device=local.device, dtype=torch.int64)
    while len(batch.indices):
        ends = _Ends(width, batch.limits, None if local.chats else local.tokenizer)
        output = local.model.generate(
            batch.ids,
            attention_mask=batch.mask,
            cache=cache,
            max_new_tokens=min(
                _SEGMENT_TOKENS, width + int(batch.limits.max()) - batch.ids.shape[1]
            ),
            do_sample=False,  # `_Sampler` has already drawn the token
            logits_processor=LogitsProcessorList([_Sampler(width, batch.uniforms, params)]),
            stopping_criteria=StoppingCriteriaList([ends]),
            return_dict_in_generate=True,
        )
        ids, cache = output.sequences, output.cache
        ended = ends.ended | torch.isin(ids[:, batch.ids.shape[1] :], end_ids).any(dim=1)
        for index, tokens in zip(batch.indices.tolist(), ids[:, width:].tolist(), strict=True):
            added[index] = tokens
        going_on = (~ended).nonzero()[:, 0]
        if len(going_on) < len(ended):
            cache.batch_select_indices(going_on)
        batch = batch.take(going_on, ids=ids)
    return added


def pack(
    lengths: Sequence[int],
    limits: Sequence[int],
    *,
    prefixes: Sequence[SharedPrefix],
    batch_tokens: int,
) -> list[list[int]]:
    """Divide prompts into batches, so that padding is small. Returns indices.

    Prompts with the same prefix follow each other, and other prompts come by length. A batch of n
    rows needs n times (longest prompt + largest limit) tokens, at most `batch_tokens`. A prompt
    that needs more tokens is a batch of its own. In a batch, all rows compute as many tokens as the
    row with the longest rest. So a much longer rest than the first one begins a batch.
    """
    rests = [length - prefix.length for length, prefix in zip(lengths, prefixes, strict=True)]

    def sort_key(index: int) -> tuple[int, ...]:
        prefix = prefixes[index]
        group = prefix.leader if prefix.length else -1
        return (-prefix.length, group, -lengths[index], -limits[index], index)

    batches: list[list[int]] = []
    longest, limit, rest = 0, 0, 0
    for index in sorted(range(len(lengths)), key=sort_key):
        longest, limit = max(longest, lengths[index]), max(limit, limits[index])
        full = batches and (len(batches[-1]) + 1) * (longest + limit) > batch_tokens
        if not batches or full or rests[index] > 2 * rest + _SPARE_TOKENS:
            batches.append([])
            longest, limit, rest = lengths[index], limits[index], rests[index]
        batches[-1].append(index)
    return batches


def pad_left(prompts: Sequence[list[int]], *, pad_id: int) -> tuple[Tensor, Tensor]:
    """Return ids and attention mask (b, longest). The padding is before each prompt."""
    width = max(len(prompt) for prompt in prompts)
    ids = torch.full((len(prompts), width), pad_id, dtype=torch.int64)
    mask = torch.zeros_like(ids)
    for row, prompt in enumerate(prompts):
        ids[row, width - len(prompt) :] = torch.tensor(prompt)
        mask[row, width - len(prompt) :] = 1
    return ids, mask


def pick_tokens(scores: Tensor, uniforms: Tensor, *, temperature: float, top_p: float) -> Tensor:
    """Draw one token per row from softmax(scores / temperature), restricted to its nucleus.

    The nucleus is the smallest set of the most likely tokens with a total probability of at least
    `top_p` (Holtzman et al. 2020). A token is drawn by inverting the distribution function.
    Shapes: `scores` (b, v) float, `uniforms` (b,) in [0, 1); result (b,) int64.
    """
    probabilities = torch.softmax(scores.float() / temperature, dim=-1)
    if top_p >= 1:
        return _invert(probabilities, uniforms)
    likeliest, tokens = probabilities.topk(min(_LIKELIEST, probabilities.shape[-1]), dim=-1)
    picked = _pick_sorted(likeliest, tokens, uniforms, top_p=top_p)
    wide = (likeliest.sum(dim=-1) < top_p).nonzero()[:, 0]
    if len(wide):
        sorted_rows = probabilities[wide].sort(dim=-1, descending=True, stable=True)
        picked[wide] = _pick_sorted(*sorted_rows, uniforms[wide], top_p=top_p)
    return picked


def _pick_sorted(likeliest: Tensor, tokens: Tensor, uniforms: Tensor, *, top_p: float) -> Tensor:
    """Draw one of `tokens` (b, k) per row. Their probabilities `likeliest` (b, k) must be in
    descending order.
    """
    before = likeliest.cumsum(dim=-1) - likeliest
    size = (before < top_p).sum(dim=-1)
    rank = _invert(likeliest * (before < top_p), uniforms).minimum(size - 1)
    return tokens.gather(-1, rank[:, None])[:, 0]


def _invert(weights: Tensor, uniforms: Tensor) -> Tensor:
    """Draw indices (b,) in proportion to `weights` (b, v), but never an index of weight 0."""
    sums = weights.cumsum(dim=-1)
    whole = sums[:, -1]
    # `uniforms` are below 1, but rounding may make `uniforms * whole` equal to `whole`. Without the
    # minimum, the result would then be `v`, which is not an index.
    marks = torch.minimum(uniforms.to(whole) * whole, whole.nextafter(torch.zeros_like(whole)))
    return (sums <= marks[:, None]).sum(dim=-1)


class SpareRoomLayer(DynamicLayer):  # type: ignore[no-untyped-call]
    """Keys and values of one layer, with spare room for new tokens.

    DynamicLayer copies all keys and values at each new token.
    """

    _room: tuple[Tensor, Tensor] | None = None

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Append the states (b, h, t, d) and return all states of the layer."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        old = self.get_seq_length()
        size = old + key_states.shape[-2]
        if self._room is None or self._room[0].shape[-2] < size:
            self._room = (
                _with_room(self.keys, key_states, size),
                _with_room(self.values, value_states, size),
            )
        keys, values = self._room
        keys[..., old:size, :] = key_states
        values[..., old:size, :] = value_states
        self.keys, self.values = keys[..., :size, :], values[..., :size, :]
        return self.keys, self.values

    def fill(self, states: Sequence[Any], counts: Sequence[int], *, tokens: int) -> None:
        """Begin row i with the first `counts[i]` states of `states[i]` (1, h, t, d), padded on the
        left, with room for `tokens` tokens in all."""
        self.lazy_initialization(states[0].keys, states[0].values)
        width = max(counts)
        keys = _side_by_side([state.keys for state in states], counts, size=tokens)
        values = _side_by_side([state.values for state in states], counts, size=tokens)
        self._room = (keys, values)
        self.keys, self.values = keys[..., :width, :], values[..., :width, :]

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep these rows of the batch."""
        super().batch_select_indices(indices)
        self._room = None


def _with_room(old: Tensor | None, new: Tensor, size: int) -> Tensor:
    """Return a tensor with room for `size` tokens and spare tokens, which begins with `old`."""
    room = new.new_empty(*new.shape[:-2], size + _SPARE_TOKENS, new.shape[-1])
    if old is not None and old.numel():
        room[..., : old.shape[-2], :] = old
    return room


def _side_by_side(states: Sequence[Any], counts: Sequence[int], *, size: int) -> Tensor:
    _, heads, _, depth = states[0].shape
    room: Tensor = states[0].new_empty(len(states), heads, size, depth)
    width = max(counts)
    for row, (state, count) in enumerate(zip(states, counts, strict=True)):
        room[row, :, : width - count] = 0  # masked, but a product with NaN would be NaN
        room[row, :, width - count : width] = state[0, :, :count]
    return room


class PrefixStates:
    """Keys and values of the prefixes that prompts share. Each is computed once, alone.

    The prefixes of the last batch are kept. Earlier prefixes are kept while all prefixes together
    have at most `most_tokens` tokens. So prompts with equal prefixes should follow each other. A
    model with another kind of layer state (sliding windows, recurrent layers) computes all tokens
    of every prompt.
    """

    def __init__(self, local: LocalModel, *, most_tokens: int) -> None:
        self._local, self._most_tokens = local, most_tokens
        layers = _empty_cache(local.model).layers
        self._can_share = bool(layers) and all(type(layer) is SpareRoomLayer for layer in layers)
        self._kept: dict[tuple[int, ...], list[Any]] = {}

    @torch.inference_mode()
    def cache(self, rows: Sequence[PromptRow]) -> tuple[Any, list[int]]:
        """Return a cache for the rows, and the number of tokens of each row that it saves.

        The cache has the first tokens of all prompts, without the last t tokens of each, where t is
        the length of the longest rest after a prefix. So no row has padding inside its prompt.
        """
        cache: Any = _empty_cache(self._local.model)
        rest = max(len(row.ids) - row.shared for row in rows)
        counts = [max(len(row.ids) - rest, 0) for row in rows]
        if not self._can_share or not any(row.shared for row in rows):
            return cache, [0] * len(rows)
        needed = [tuple(row.ids[: row.shared]) for row in rows]
        new = {prefix for prefix in needed if prefix and prefix not in self._kept}
        states_by_prefix = {
            prefix: self._kept.get(prefix) or self._computed(prefix)
            for prefix in dict.fromkeys(needed)
            if prefix
        }
        free = self._most_tokens - sum(map(len, states_by_prefix))
        for prefix, states in self._kept.items():  # the latest are first
            if prefix not in states_by_prefix and len(prefix) <= free:
                states_by_prefix[prefix] = states
                free -= len(prefix)
        self._kept = states_by_prefix
        width, any_states = max(len(row.ids) for row in rows), next(iter(self._kept.values()))
        for number, layer in enumerate(cache.layers):
            states = [self._kept.get(prefix, any_states)[number] for prefix in needed]
            layer.fill(states, counts, tokens=width + _SPARE_TOKENS)
        reused = []
        for prefix, count in zip(needed, counts, strict=True):
            reused.append(0 if prefix in new else count)
            new.discard(prefix)
        return cache, reused

    def _computed(self, prefix: tuple[int, ...]) -> list[Any]:
        cache = _empty_cache(self._local.model)
        ids = torch.tensor([prefix], device=self._local.device)
        self._local.model.base_model(ids, cache=cache, use_cache=True)
        return list(cache.layers)


def _empty_cache(model: Any) -> DynamicCache:
    cache = DynamicCache(config=model.config)
    cache.layers = [
        SpareRoomLayer()  # type: ignore[no-untyped-call]
        if type(layer) is DynamicLayer
        else layer
        for layer in cache.layers
    ]
    return cache


class _Sampler(LogitsProcessor):
    """Draws one token per row with the row's own random numbers. All other tokens get the score
    minus infinity."""

    def __init__(self, width: int, uniforms: Tensor, params: LocalModelSettings) -> None:
        self._width, self._uniforms, self._params = width, uniforms, params

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        # On a GPU transformers may run a few more steps after all rows have ended.
        step = min(input_ids.shape[1] - self._width, self._uniforms.shape[1] - 1)
        tokens = pick_tokens(
            scores,
            self._uniforms[:, step],
            temperature=self._params.temperature,
            top_p=self._params.top_p,
        )
        return torch.full_like(scores, -math.inf).scatter_(1, tokens[:, None], 0.0)


class _Ends(StoppingCriteria):
    """Ends a row at its own limit and, with a tokenizer, at the separator. `ended` (b,) is true for
    finished rows."""

    def __init__(self, width: int, limits: Tensor, tokenizer: Any | None) -> None:
        self._width, self._limits, self._tokenizer = width, limits, tokenizer
        self.ended = torch.zeros_like(limits, dtype=torch.bool)

    def __call__(self, input_ids: Tensor, scores: Any, **_: Any) -> Tensor:
        added = input_ids.shape[1] - self._width
        self.ended |= self._limits <= added
        if self._tokenizer is not None:
            tails = self._tokenizer.batch_decode(input_ids[:, -min(added, _TAIL_TOKENS) :])
            self.ended |= torch.tensor(
                [SEPARATOR in tail for tail in tails], device=self.ended.device
            )
        return self.ended


def has_separator(tokenizer: Any, tokens: list[int]) -> bool:
    """Return whether the last of the tokens contain the separator."""
    return SEPARATOR in tokenizer.decode(tokens[-_TAIL_TOKENS:])


def _decoded(tokenizer: Any, tokens: list[int]) -> str:
    """Return the text of tokens. Tokens that end a turn, a channel or thoughts stay: without them,
    `control_tokens.final_text` could not find the words of the assistant."""
    added = tokenizer.added_tokens_decoder
    special = {token for token in set(tokens) if token in added and added[token].special}
    dropped = {token for token in special if not control_tokens(tokenizer.decode([token]))}
    if special == dropped:
        return str(tokenizer.decode(tokens, skip_special_tokens=True))
    return str(tokenizer.decode([token for token in tokens if token not in dropped]))


def completion(
    local: TextModel,
    tokens: list[int],
    *,
    limit: int,
    prompt_tokens: int,
    cached_prompt_tokens: int,
) -> Completion:
    """Return the completion that the model's new tokens make, up to an end token or the limit."""
    tokens = tokens[:limit]
    length = next((i for i, token in enumerate(tokens) if token in local.end_ids), None)
    return Completion(
        text=_decoded(local.tokenizer, tokens[:length]),
        finish_reason="length" if length is None else "stop",
        refused=False,
        prompt_tokens=prompt_tokens,
        completion_tokens=len(tokens) if length is None else length + 1,
        cached_prompt_tokens=cached_prompt_tokens,
    )
