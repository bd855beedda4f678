"""Candidates from a causal language model on this machine, through transformers.

A model with a chat template is asked by `prompts.render`, any other goes on with
`prompts.continuation`. Prompts are packed by length into batches of at most `batch_tokens` tokens,
padded on the left under an attention mask. An answer that fails the checks is asked for once more
with another seed, and then dropped.

The answers of a batch are kept the moment it is written, under what was asked and of which weights:
a process that is killed loses one batch, and the next one writes only what is missing. Batches are
packed as if nothing were kept, so that what is missing is written in the batches that it would have
stood in.

Equal requests, settings and seeds give equal texts on one machine, killed or not. Each text is
drawn with uniforms of its own, so that it does not depend on which others are asked for beside it,
but for rounding: a matrix product adds up in another order in a batch of another shape, which
hardly ever changes a text in float32 and sometimes does in bfloat16 (docs/decisions/0211).

Guarantee: takes `Released` requests and nothing else.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sugarbush.generators.answer_cache import AnswerCache, Completion, call_key, open_cache
from sugarbush.generators.answers import Asked, answer_all, those_that_fit
from sugarbush.generators.huggingface.batch import Row, pack, write_batch
from sugarbush.generators.huggingface.model import LocalModel, load_model
from sugarbush.generators.huggingface.settings import HuggingFace
from sugarbush.generators.interface import NO_REQUESTS, Answer, Request, released_requests
from sugarbush.generators.progress import progress
from sugarbush.generators.prompts import SEPARATOR, continuation, render
from sugarbush.privacy.data_types import Released
from sugarbush.randomness import public_rng

PROVIDER = "huggingface"

# A model that only goes on does not count words: it gets room for the words asked for, in tokens
# of English and a sentence's end more, and is cut back to its last whole sentence.
_TOKENS_PER_WORD = 1.5
_LEAST_TOKENS = 16
_LEAST_KEPT_SHARE = 0.5
_SENTENCE_END = re.compile(r"[.!?…]['\"’”)\]]*(?=\s|$)|[。！？]|\n")
# A small model does not always write the whole separator: a line of two signs is one too.
_NEXT_TEXT = re.compile(rf"{SEPARATOR}|^##\s*$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class _Wish:
    """One answer to write: the tokens of its prompt, the most to add, the examples not shown."""

    request: Request
    ids: list[int]
    limit: int
    left_out: int


class HuggingFaceGenerator:
    """The `huggingface` provider. Answers are kept in the folder `state`."""

    def __init__(
        self, params: HuggingFace, *, seed: int, state: Path, say: Callable[[str], None]
    ) -> None:
        self._params, self._seed, self._state, self._say = params, seed, state, say

    def check(self, planned: Released[tuple[Request, ...]] = NO_REQUESTS) -> None:
        """Load the model and see that each of `planned` fits its context.

        Raises ParamsError naming the setting that cannot be used, GeneratorError for a prompt.
        """
        local = load_model(self._params)
        for request in released_requests(planned):
            self._wish(local, request)

    def generate(
        self, requests: Released[tuple[Request, ...]], *, what: str = "answers"
    ) -> Released[tuple[Answer, ...]]:
        """One answer a request, in order; an answer without a text says why.

        `what` names the batch beside the progress bar. A prompt that is too long for the model
        costs no other its answer.
        Raises PrivacyError for anything that is not released, ParamsError when the model cannot be
        used, GeneratorError when every prompt or a batch is too large for it, StorageError; what
        was written by then is kept.
        """
        wanted = released_requests(requests)
        local = load_model(self._params)
        wishes = self._wishes(local, wanted, what)
        with open_cache(self._state) as cache:

            def ask(places: Sequence[int], attempt: int) -> Asked:
                keys = {i: self._key(local, wishes[i], attempt) for i in places}
                by_key = {keys[i]: wishes[i] for i in places}
                had = cache.kept(by_key)
                fresh = self._written(local, by_key, had, attempt=attempt, cache=cache, what=what)
                completions = {k: _read(local, c) for k, c in (had | fresh).items()}
                return Asked(keys=keys, completions=completions, fresh=fresh.keys())

            return Released(answer_all(wanted, wishes, ask), requests.ledger_ids)

    def _wishes(
        self, local: LocalModel, wanted: tuple[Request, ...], what: str
    ) -> dict[int, _Wish]:
        wishes = those_that_fit(
            wanted, lambda request: self._wish(local, request), what=what, say=self._say
        )
        if left_out := sum(wish.left_out for wish in wishes.values()):
            shown = sum(len(wish.request.examples) for wish in wishes.values())
            self._say(
                f"{what}: {left_out} of {shown} examples were left out: the model's context of "
                f"{local.context_tokens} tokens has no room"
            )
        return wishes

    def _wish(self, local: LocalModel, request: Request) -> _Wish:
        context_tokens, limit = local.context_tokens, self._params.max_tokens
        if local.chats:
            (message,) = render(
                request,
                context_tokens=context_tokens,
                max_tokens=limit,
                count_tokens=lambda text: len(local.encode(local.chat(text))),
            )
            prompt = local.chat(message.content)
        else:
            if request.words is not None:
                limit = min(limit, _tokens_for(request.words))
            prompt = continuation(
                request,
                context_tokens=context_tokens,
                max_tokens=limit,
                count_tokens=lambda text: len(local.encode(text)),
            )
        left_out = sum(example not in prompt for example in request.examples)
        ids = local.encode(prompt)
        return _Wish(request=request, ids=ids, limit=limit, left_out=left_out)

    def _key(self, local: LocalModel, wish: _Wish, attempt: int) -> str:
        """What an answer is kept under: the weights and not their name, which may get others."""
        return call_key(
            provider=PROVIDER,
            model=local.fingerprint,
            dtype=str(local.model.dtype),
            temperature=self._params.temperature,
            top_p=self._params.top_p,
            prompt=wish.ids,
            max_tokens=wish.limit,
            seed=self._seed,
            sample=wish.request.sample,
            attempt=attempt,
        )

    def _written(
        self,
        local: LocalModel,
        wishes: Mapping[str, _Wish],
        had: Mapping[str, Completion],
        *,
        attempt: int,
        cache: AnswerCache,
        what: str,
    ) -> dict[str, Completion]:
        """Answers by key to those of `wishes` that are not in `had`, each batch kept at once."""
        written: dict[str, Completion] = {}
        if not wishes.keys() - had.keys():
            return written
        keys = list(wishes)
        batches = pack(
            [len(wishes[key].ids) for key in keys],
            [wishes[key].limit for key in keys],
            batch_tokens=self._params.batch_tokens,
        )
        label = f"{what}, asked again" if attempt else what
        with progress(len(keys) - len(had), what=label) as advance:
            for batch in batches:
                missing = [keys[i] for i in batch if keys[i] not in had]
                if not missing:
                    continue
                rows = [self._row(wishes[key], attempt) for key in missing]
                completions = write_batch(local, rows, self._params)
                fresh = dict(zip(missing, completions, strict=True))
                cache.put_all(fresh)  # first of all: now no kill can take it away
                written |= fresh
                advance(len(missing), "")
        return written

    def _row(self, wish: _Wish, attempt: int) -> Row:
        rng = public_rng(self._seed, PROVIDER, wish.request.sample, attempt)
        return Row(ids=wish.ids, uniforms=rng.random(wish.limit))


def _read(local: LocalModel, completion: Completion) -> Completion:
    """What a model wrote as an answer; one that goes on with a list has written the next text."""
    if local.chats:
        return completion
    ended = completion.finish_reason == "stop"
    text, ended = _first_of_list(completion.text or "", ended=ended)
    return replace(completion, text=text, finish_reason="stop" if ended else "length")


def _first_of_list(text: str, *, ended: bool) -> tuple[str, bool]:
    """The text up to the separator or, where it was cut off, up to its last whole sentence.

    And whether it ends there: with less than half left it counts as cut off.
    """
    first, *others = _NEXT_TEXT.split(text, maxsplit=1)
    if ended or others:
        return first, True
    ends = [found.end() for found in _SENTENCE_END.finditer(first)]
    if not ends or ends[-1] < _LEAST_KEPT_SHARE * len(first):
        return first, False
    return first[: ends[-1]], True


def _tokens_for(words: int) -> int:
    return max(_LEAST_TOKENS, math.ceil(_TOKENS_PER_WORD * words))
