"""Generates texts by a causal language model on this machine.

OpenVINO GenAI runs a GGUF file on a CPU, if it can read the file. transformers runs all other
models, and every model with steering vectors (`engines.py`).

In form `chat`, a model with a chat template gets the prompt of `prompts.render`. In form `list`,
and without a chat template, the model continues the text of `prompts.continuation`. A batch has at
most `batch_tokens` tokens. An answer that fails the checks is requested once more with another
seed, and then dropped.

Answers are cached when their batch is complete, or with OpenVINO when they are. So a killed process
loses at most one batch. With transformers, the division into batches does not depend on cached
answers, so a resumed run computes a missing answer in the same batch as before.

Equal requests, settings and seeds give equal texts on one machine by one engine. Each text has its
own random numbers. The other texts of a batch change a text only by rounding, because the order of
additions depends on the batch's shape. Rounding rarely changes a text in float32, but sometimes
changes a text in bfloat16 (docs/decisions/local-models.md).

Guarantee: the generator accepts only `Released` requests.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from sugarbush.errors import ParamsError
from sugarbush.generators.answer_cache import AnswerCache, Completion, call_key, open_cache
from sugarbush.generators.answers import Asked, answer_all, fitting_prompts
from sugarbush.generators.huggingface.engines import open_writer, slow_reason
from sugarbush.generators.huggingface.model import TextModel, load_model
from sugarbush.generators.huggingface.model_settings import LocalModelSettings
from sugarbush.generators.huggingface.steering import checked_steering
from sugarbush.generators.huggingface.writer import Prompt, Writer
from sugarbush.generators.interface import (
    NO_REQUESTS,
    Answer,
    Generator,
    Request,
    released_requests,
)
from sugarbush.generators.prompts import SEPARATOR, continuation, render
from sugarbush.generators.released_numbers import ReleasedNumbers
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
    ids: array[int]
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
        self._writer: Writer | None = None

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

    def _open(self) -> Writer:
        """Return the program that writes the texts. The model is loaded at the first call."""
        if self._writer is None:
            steering = self._numbers.values.get("steering", {})
            if reason := slow_reason(self._params):
                self._say(reason)
            self._writer = open_writer(self._params, steering=steering)
        return self._writer

    def check(self, planned: Released[tuple[Request, ...]] = NO_REQUESTS) -> None:
        """Load the model and check that each request of `planned` fits into its context.

        Raises ParamsError if a setting is wrong, and GeneratorError if a prompt is too long.
        """
        local = self._open().local
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
        local = self._open().local
        prompts = self._prompts(local, request_values, what)
        with open_cache(self._state) as cache:

            def ask(indices: Sequence[int], attempt: int) -> Asked:
                keys = {i: self._key(local, prompts[i], attempt) for i in indices}
                by_key = {keys[i]: prompts[i] for i in indices}
                had = cache.find(by_key)
                fresh = self._written(by_key, had, attempt=attempt, cache=cache, what=what)
                completions = {k: _read(local, c) for k, c in (had | fresh).items()}
                return Asked(keys=keys, completions=completions, fresh=fresh.keys())

            ids = merge_ids(requests, Released(None, self._numbers.ledger_ids))
            return Released(answer_all(request_values, prompts, ask), ids)

    def _prompts(
        self, local: TextModel, requests: tuple[Request, ...], what: str
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

    def _prompt(self, local: TextModel, request: Request) -> _Prompt:
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

    def _key(self, local: TextModel, prompt: _Prompt, attempt: int) -> str:
        """Return the cache key. It contains a hash of the weights, which may change under one
        name."""
        return call_key(
            provider=PROVIDER,
            model=local.fingerprint,
            dtype=local.dtype,
            temperature=self._params.temperature,
            top_p=self._params.top_p,
            prompt=prompt.ids.tolist(),
            max_tokens=prompt.limit,
            seed=self._seed,
            sample=prompt.request.sample,
            attempt=attempt,
            # Without an engine and numbers, the keys are those of version 0.3.
            **({"engine": local.engine} if local.engine else {}),
            **({"released": self._numbers.digest} if self._numbers.digest else {}),
        )

    def _written(
        self,
        prompts: Mapping[str, _Prompt],
        had: Mapping[str, Completion],
        *,
        attempt: int,
        cache: AnswerCache,
        what: str,
    ) -> dict[str, Completion]:
        """Return the answers that `had` lacks, by key. Each answer is cached when it is written."""
        written: dict[str, Completion] = {}
        keys = list(prompts)
        missing = [i for i, key in enumerate(keys) if key not in had]
        if not missing:
            return written
        asked = [self._asked(prompt, attempt) for prompt in prompts.values()]
        # An unusable answer is requested once more.
        label, unit = (f"{what}, second try", "unusable answers") if attempt else (what, "answers")
        with progress(len(missing), what=label, unit=unit) as advance:
            for completions in self._open().write(asked, missing=missing):
                fresh = {keys[i]: completion for i, completion in completions.items()}
                cache.put_all(fresh)
                written |= fresh
                advance(len(fresh))
        return written

    def _asked(self, prompt: _Prompt, attempt: int) -> Prompt:
        random = partial(public_rng, self._seed, PROVIDER, prompt.request.sample, attempt)
        return Prompt(ids=prompt.ids, limit=prompt.limit, random=random)


def _list_limit(local: TextModel, request: Request) -> int | None:
    """Return the token limit of the next text of a list, or None without a requested length."""
    if request.words is None:
        return None
    longest = max((len(local.encode(text)) for text in request.examples), default=0)
    by_words, by_examples = _TOKENS_PER_WORD * request.words, _LONGER_THAN_EXAMPLES * longest
    return max(_LEAST_TOKENS, math.ceil(by_words), math.ceil(by_examples))


def _read(local: TextModel, completion: Completion) -> Completion:
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
