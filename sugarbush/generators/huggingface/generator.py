"""Generates texts by a causal language model on this machine, through transformers.

In form `chat`, a model with a chat template gets the prompt of `prompts.render`. In form `list`,
and without a chat template, the model continues the text of `prompts.continuation`. Prompts are
packed by length into batches of at most `batch_tokens` tokens. An answer that fails the checks is
requested once more with another seed, and then dropped.

The answers of a batch are cached when the batch is complete, so a killed process loses at most one
batch. The division into batches does not depend on cached answers. So a resumed run computes a
missing answer in the same batch as before.

Equal requests, settings and seeds give equal texts on one machine. Each text has its own random
numbers. The other texts of a batch change a text only by rounding, because the order of additions
depends on the batch's shape. Rounding rarely changes a text in float32, but sometimes changes a
text in bfloat16 (docs/decisions/local-models.md).

Guarantee: the generator accepts only `Released` requests.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sugarbush.errors import ParamsError
from sugarbush.generators.answer_cache import AnswerCache, Completion, call_key, open_cache
from sugarbush.generators.answers import Asked, answer_all, fitting_prompts
from sugarbush.generators.huggingface.batch import PrefixStates, PromptRow, pack, write_batch
from sugarbush.generators.huggingface.model import LocalModel, load_model
from sugarbush.generators.huggingface.model_settings import TOP_P, LocalModelSettings
from sugarbush.generators.huggingface.steering import checked_steering
from sugarbush.generators.interface import (
    NO_REQUESTS,
    Answer,
    Generator,
    Request,
    released_requests,
)
from sugarbush.generators.prompts import SEPARATOR, continuation, render
from sugarbush.generators.released_numbers import ReleasedNumbers
from sugarbush.generators.shared_prefixes import shared_prefixes
from sugarbush.privacy.data_types import Released, merge_ids
from sugarbush.progress import progress
from sugarbush.randomness import public_rng

PROVIDER = "huggingface"

# A model that continues a list follows the lengths of its examples more than the requested length.
# So its answer may be somewhat longer than the longest example. A longer answer is cut after its
# last whole sentence.
_TOKENS_PER_WORD = 1.5
_LONGER_THAN_EXAMPLES = 1.25
_LEAST_TOKENS = 16
_LEAST_KEPT_SHARE = 0.5
_SENTENCE_END = re.compile(r"[.!?…]['\"’”)\]]*(?=\s|$)|[。！？]|\n")
# A model may repeat the line of attributes before its text (`prompts.continuation`).
_LABEL = re.compile(r"\A\s*\[(?:[^\]\n]+: [^\]\n]+|\d+ words)\]\s*\n\s*")
# A small model may write only two characters of the separator.
_NEXT_TEXT = re.compile(rf"{SEPARATOR}|^##\s*$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class _Prompt:
    """A request, its token ids, its limit of answer tokens, and its number of omitted examples."""

    request: Request
    ids: array[int]  # a list would take ten times the memory, for up to 10,000 prompts
    limit: int
    left_out: int


class HuggingFaceGenerator(Generator):
    """A generator that runs a model on this machine. Answers are cached in the folder `state`."""

    def __init__(
        self,
        params: LocalModelSettings,
        *,
        seed: int,
        state: Path,
        say: Callable[[str], None],
        numbers: ReleasedNumbers | None = None,
    ) -> None:
        self._params, self._seed, self._state, self._say = params, seed, state, say
        self._numbers = ReleasedNumbers() if numbers is None else numbers
        self._prefixes: PrefixStates | None = None  # for all requests of this generator

    def with_released(self, **numbers: Released[Any]) -> HuggingFaceGenerator:
        """Return the generator with released vectors `steering`: layer to vector (hidden size,).

        A vector is added to the hidden states after its layer, at the last position of the prompt
        and at every new token. `ActivationReader` reads hidden states of the same layers. Raises
        ParamsError if the model lacks a layer, or if a vector has another size.
        """
        released = ReleasedNumbers.checked(numbers, names=("steering",), generator=PROVIDER)
        steering = released.values.get("steering", {})
        if not isinstance(steering, Mapping):
            raise ParamsError("steering: map each layer to its vector, such as {12: vector}")
        checked_steering(load_model(self._params), steering)
        return HuggingFaceGenerator(
            self._params, seed=self._seed, state=self._state, say=self._say, numbers=released
        )

    def check(self, planned: Released[tuple[Request, ...]] = NO_REQUESTS) -> None:
        """Load the model and check that each request of `planned` fits into its context.

        Raises ParamsError if a setting is wrong, and GeneratorError if a prompt is too long.
        """
        local = load_model(self._params)
        for request in released_requests(planned):
            self._prompt(local, request)

    def generate(
        self, requests: Released[tuple[Request, ...]], *, what: str = "answers"
    ) -> Released[tuple[Answer, ...]]:
        """Return one answer per request, in order. An answer has a text or a `problem`.

        The progress bar shows `what`. A request fails only if its prompt is too long. Raises
        PrivacyError for requests that are not released, and ParamsError if the model cannot be
        used. Raises GeneratorError if all prompts or a batch are too large for the model, and
        StorageError if the disk fails. Finished answers stay in the cache.
        """
        request_values = released_requests(requests)
        local = load_model(self._params)
        prompts = self._prompts(local, request_values, what)
        with open_cache(self._state) as cache:

            def ask(indices: Sequence[int], attempt: int) -> Asked:
                keys = {i: self._key(local, prompts[i], attempt) for i in indices}
                by_key = {keys[i]: prompts[i] for i in indices}
                had = cache.find(by_key)
                fresh = self._written(local, by_key, had, attempt=attempt, cache=cache, what=what)
                completions = {k: _read(local, c) for k, c in (had | fresh).items()}
                return Asked(keys=keys, completions=completions, fresh=fresh.keys())

            ids = merge_ids(requests, Released(None, self._numbers.ledger_ids))
            return Released(answer_all(request_values, prompts, ask), ids)

    def _prompts(
        self, local: LocalModel, requests: tuple[Request, ...], what: str
    ) -> dict[int, _Prompt]:
        prompts = fitting_prompts(
            requests, lambda request: self._prompt(local, request), what=what, say=self._say
        )
        if left_out := sum(prompt.left_out for prompt in prompts.values()):
            example_count = sum(len(prompt.request.examples) for prompt in prompts.values())
            self._say(
                f"{what}: {left_out} of {example_count} examples were left out, because the "
                f"model's context of {local.context_tokens} tokens has no room"
            )
        return prompts

    def _prompt(self, local: LocalModel, request: Request) -> _Prompt:
        context_tokens, limit = local.context_tokens, self._params.max_tokens
        if local.chats:
            message = render(
                request,
                context_tokens=context_tokens,
                max_tokens=limit,
                count_tokens=lambda text: len(local.encode(local.chat(text))),
            )
            prompt = local.chat(message)
        else:
            limit = min(limit, _list_limit(local, request) or limit)
            prompt = continuation(
                request,
                context_tokens=context_tokens,
                max_tokens=limit,
                count_tokens=lambda text: len(local.encode(text)),
            )
        left_out = sum(example not in prompt for example in request.examples)
        ids = array("i", local.encode(prompt))
        return _Prompt(request=request, ids=ids, limit=limit, left_out=left_out)

    def _key(self, local: LocalModel, prompt: _Prompt, attempt: int) -> str:
        """Return the cache key. It contains a hash of the weights, which may change under one
        name."""
        return call_key(
            provider=PROVIDER,
            model=local.fingerprint,
            dtype=str(local.model.dtype),
            temperature=self._params.temperature,
            top_p=TOP_P,
            prompt=prompt.ids.tolist(),
            max_tokens=prompt.limit,
            seed=self._seed,
            sample=prompt.request.sample,
            attempt=attempt,
            # Without numbers, the keys are those of version 0.3.
            **({"released": self._numbers.digest} if self._numbers.digest else {}),
        )

    def _written(
        self,
        local: LocalModel,
        prompts: Mapping[str, _Prompt],
        had: Mapping[str, Completion],
        *,
        attempt: int,
        cache: AnswerCache,
        what: str,
    ) -> dict[str, Completion]:
        """Return the answers that `had` lacks, by key. Each finished batch is cached."""
        written: dict[str, Completion] = {}
        if not prompts.keys() - had.keys():
            return written
        keys = list(prompts)
        shared = shared_prefixes([prompts[key].ids for key in keys])
        batches = pack(
            [len(prompts[key].ids) for key in keys],
            [prompts[key].limit for key in keys],
            prefixes=shared,
            batch_tokens=self._params.batch_tokens,
        )
        if self._prefixes is None:
            self._prefixes = PrefixStates(local, most_tokens=self._params.batch_tokens)
        # An unusable answer is requested once more.
        label, unit = (f"{what}, second try", "unusable answers") if attempt else (what, "answers")
        with progress(len(keys) - len(had), what=label, unit=unit) as advance:
            for batch in batches:
                missing = [i for i in batch if keys[i] not in had]
                if not missing:
                    continue
                rows = [
                    self._row(prompts[keys[i]], attempt, shared=shared[i].length) for i in missing
                ]
                completions = write_batch(
                    local,
                    rows,
                    self._params,
                    steering=self._numbers.values.get("steering", {}),
                    prefixes=self._prefixes,
                )
                fresh = dict(zip((keys[i] for i in missing), completions, strict=True))
                cache.put_all(fresh)
                written |= fresh
                advance(len(missing))
        return written

    def _row(self, prompt: _Prompt, attempt: int, *, shared: int) -> PromptRow:
        rng = public_rng(self._seed, PROVIDER, prompt.request.sample, attempt)
        return PromptRow(ids=prompt.ids.tolist(), uniforms=rng.random(prompt.limit), shared=shared)


def _list_limit(local: LocalModel, request: Request) -> int | None:
    """Return the token limit of the next text of a list, or None without a requested length."""
    if request.words is None:
        return None
    longest = max((len(local.encode(text)) for text in request.examples), default=0)
    by_words, by_examples = _TOKENS_PER_WORD * request.words, _LONGER_THAN_EXAMPLES * longest
    return max(_LEAST_TOKENS, math.ceil(by_words), math.ceil(by_examples))


def _read(local: LocalModel, completion: Completion) -> Completion:
    """Return the answer in a completion. Without a chat format, it is the first text of a list."""
    if local.chats:
        return completion
    ended = completion.finish_reason == "stop"
    text, ended = _first_of_list(completion.text or "", ended=ended)
    return replace(completion, text=text, finish_reason="stop" if ended else "length")


def _first_of_list(text: str, *, ended: bool) -> tuple[str, bool]:
    """Return the text up to the separator or, without a separator, up to its last whole sentence.

    Also return whether the text is complete. If the cut would remove more than half of the
    characters, the text is returned whole and counts as cut off.
    """
    first, *others = _NEXT_TEXT.split(_LABEL.sub("", text), maxsplit=1)
    if ended or others:
        return first, True
    ends = [match.end() for match in _SENTENCE_END.finditer(first)]
    if not ends or ends[-1] < _LEAST_KEPT_SHARE * len(first):
        return first, False
    return first[: ends[-1]], True
