"""Reads attributes from private texts with a language model on a trusted endpoint.

Only this module sends private text to an endpoint. A `Labeller` needs a `LabelEndpoint` with
`trusted: true`; the generator's settings have another type. Answers and the journal of paid calls
stay in a folder under data/private. Only one labeller per account sends calls at a time. Therefore
the caps apply to all labellers together, and equal prompts are sent once. The
progress bar shows a percentage only. The module never repeats the endpoint's words, because these
words may quote a text.

The first prompt contains a harmless text. The answer shows whether the endpoint accepts a JSON
schema as `response_format`. If the endpoint refuses a schema, only the prompt describes the form of
the answer. A text without a usable answer gets the value `other`: the endpoint rejects the text, or
two answers are unusable. A call without any answer, for example after a timeout, ends the stage,
because such a failure depends on the load and so on other texts.

Guarantee: the codes of a text depend only on that text and public settings. Therefore
`Private.map_batch` may call `codes`. Assumption: the answer of the endpoint does not depend on the
other texts. A server that answers several calls in one batch may round differently, so the card
states this assumption.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sugarbush.attributes.label_prompts import answer_schema, label_prompt, read_labels
from sugarbush.attributes.settings import LabelEndpoint
from sugarbush.data.schema import Attribute
from sugarbush.errors import GeneratorError, ParamsError
from sugarbush.generators.answer_cache import AnswerCache, Completion, call_key, open_cache
from sugarbush.generators.openai.cost import CapReachedError, Meter
from sugarbush.generators.openai.endpoint import Call
from sugarbush.generators.openai.endpoints import Endpoints, open_endpoints
from sugarbush.generators.openai.failures import CallError, RejectedError, StopError
from sugarbush.generators.openai.probe import paid_probe
from sugarbush.progress import progress
from sugarbush.randomness import seed_of

_STAGE = "extract_metadata"
_HARMLESS = "Good morning. I would like to know when the shop opens tomorrow."
_ATTEMPTS = 2
_SEED_LIMIT = 2**31
# A larger fraction of rejected texts ends the stage. One rejected text is always allowed, because
# a content filter may reject the same text in every run.
_TOLERATED_SHARE = 0.05
_TEMPLATE_TOKENS = 64


class Labeller:
    """Reads `attributes` from texts, with the endpoint of `params`.

    `folder` must be private. The folder contains the answers and the journal of paid calls. The
    caps apply to this journal. `account` is `privacy.dataset`. Raises ParamsError if the endpoint
    is not trusted.
    """

    def __init__(
        self, params: LabelEndpoint, attributes: Sequence[Attribute], *, folder: Path, account: str
    ) -> None:
        if not params.trusted:
            raise ParamsError(
                f"params.yaml: {params.setting}.trusted is false. The schema has attributes with "
                f"`source: llm` ({', '.join(a.name for a in attributes)}), and their endpoint "
                f"receives every private text. If {params.address} may see the texts, set "
                f"`{params.setting}.trusted: true`. Otherwise give the attributes keywords or "
                "zero_shot descriptions. Nothing was sent."
            )
        # Labels need no variety, so temperature 0 asks for the likeliest answer.
        certain = {"temperature": None if params.temperature is None else 0.0}
        self._params = params.model_copy(update=certain)
        self._attributes, self._folder = tuple(attributes), folder
        self._meter = Meter(folder, account=account, stage=_STAGE, params=params)

    def check(self, text: str) -> None:
        """Check that the endpoint answers and that the prompt of `text` fits. `text` is public.

        Raises ParamsError or GeneratorError. The message says what to change.
        """
        longest = self._call(text, attempt=0, structured=True).prompt
        paid_probe(self._params, self._meter, longest=longest, say=_say)

    def codes(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Return codes `(n, d)` int64, with one column per attribute in the constructor's order.

        Raises GeneratorError if the endpoint refuses every call, a call gets no answer, or a cap is
        reached. Also raises GeneratorError if the endpoint rejects more than max(1, 5% of the
        texts). Received answers stay in the cache for the next run.
        """
        if not len(texts):
            return np.empty((0, len(self._attributes)), dtype=np.int64)
        with open_cache(self._folder) as cache:
            answers = self._cached(texts, cache)
            if answers is None:
                with self._meter.alone(_say):
                    answers = asyncio.run(self._ask(list(texts), cache))
        other = [len(attribute.domain) - 1 for attribute in self._attributes]
        return np.array([self._read(answer) or other for answer in answers], dtype=np.int64)

    def values(self, texts: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Return the result of `codes` as text: `(n,)` values for each attribute name."""
        codes = self.codes(texts)
        return {
            attribute.name: tuple(attribute.domain[code] for code in codes[:, column])
            for column, attribute in enumerate(self._attributes)
        }

    def _cached(self, texts: Sequence[str], cache: AnswerCache) -> list[str | None] | None:
        """Return the result of `_ask` if all answers are cached, otherwise None."""
        forms = [
            structured
            for structured in (True, False)
            if cache.get(self._call(_HARMLESS, attempt=0, structured=structured).key) is not None
        ]
        answers: list[str | None] = []
        for text in texts if forms else ():
            answers.append(None)
            for attempt in range(_ATTEMPTS):
                key = self._call(text, attempt=attempt, structured=forms[0]).key
                if (completion := cache.get(key)) is None:
                    return None
                if self._read(completion.text) is not None:
                    answers[-1] = completion.text
                    break
        return answers if forms else None

    async def _ask(self, texts: list[str], cache: AnswerCache) -> list[str | None]:
        """Return one usable answer per text.

        The answer is None after a rejected call or two unusable answers.
        """
        async with open_endpoints(self._params, _say) as endpoints:
            asker = _Asker(endpoints, self._meter, cache, self._params)
            structured = await self._takes_schema(asker)

            with progress(len(texts), what="labels by a model", private=True) as advance:

                async def label(text: str) -> str | None:
                    answer = await self._label(asker, text, structured=structured)
                    advance()
                    return answer

                answers = await asyncio.gather(*map(label, texts))
        if asker.end is not None:
            raise asker.end
        if asker.unanswered:
            raise _down(self._params, "a call to {} got no answer")
        if asker.rejected > max(1, _TOLERATED_SHARE * len(texts)):
            raise _down(self._params, "too many calls to {} fail")
        return answers

    async def _takes_schema(self, asker: _Asker) -> bool:
        """Ask about a harmless text, and return whether the endpoint accepts `response_format`.

        The method sends no private text. Raises GeneratorError if the endpoint does not answer.
        """
        for structured in (True, False):
            call = self._call(_HARMLESS, attempt=0, structured=structured)
            if await asker.answer(call) is not None:
                asker.rejected = asker.unanswered = 0
                return structured
        raise asker.end or _down(self._params, "calls to {} fail")

    async def _label(self, asker: _Asker, text: str, *, structured: bool) -> str | None:
        for attempt in range(_ATTEMPTS):
            call = self._call(text, attempt=attempt, structured=structured)
            completion = await asker.answer(call)
            if completion is None:
                return None
            if self._read(completion.text) is not None:
                return completion.text
        return None

    def _call(self, text: str, *, attempt: int, structured: bool) -> Call:
        params = self._params
        room = params.context_tokens - params.max_tokens - _TEMPLATE_TOKENS
        prompt = label_prompt(text, self._attributes, room=room)
        schema = answer_schema(self._attributes) if structured else None
        return Call(
            key=call_key(
                purpose="labels", **params.key_fields, prompt=prompt, schema=schema, attempt=attempt
            ),
            prompt=prompt,
            seed=seed_of(attempt, "labels") % _SEED_LIMIT,
            worst_cost=self._meter.worst_cost(prompt),
            response_format=schema,
        )

    def _read(self, answer: str | None) -> list[int] | None:
        return None if answer is None else read_labels(answer, self._attributes)


class _Asker:
    """Sends the calls that have no cached answer, until an error ends the run.

    Equal calls at the same time are sent once and share the answer. Other labellers wait until this
    labeller has finished (`Meter.alone`). The other labellers then read the answers from the cache.
    """

    def __init__(
        self, endpoints: Endpoints, meter: Meter, cache: AnswerCache, params: LabelEndpoint
    ) -> None:
        self.rejected, self.unanswered, self._setting = 0, 0, params.setting
        self.end: GeneratorError | None = None
        self._endpoints, self._meter, self._cache = endpoints, meter, cache
        self._turns = asyncio.Semaphore(params.most_calls_at_once)
        self._in_flight: dict[str, asyncio.Task[Completion | None]] = {}

    async def answer(self, call: Call) -> Completion | None:
        """Return the answer, or None if the call failed. An answer is cached before it is used."""
        cached = self._cache.get(call.key)
        if cached is not None:
            return cached
        if call.key not in self._in_flight:
            self._in_flight[call.key] = asyncio.create_task(self._send(call))
        return await self._in_flight[call.key]

    async def _send(self, call: Call) -> Completion | None:
        async with self._turns:
            return None if self.end is not None else await self._complete(call)

    async def _complete(self, call: Call) -> Completion | None:
        try:
            self._meter.admit(call.worst_cost)
        except CapReachedError:
            self._stop(f"max_calls or max_cost of {self._setting} is reached. Raise the limit")
            return None
        try:
            completion = await self._endpoints.complete(call)
        except (CallError, StopError) as error:
            self._meter.release(call.worst_cost)
            if isinstance(error, RejectedError):
                self.rejected += 1
            else:
                self.unanswered += 1
            if isinstance(error, StopError):
                self._stop(
                    "the endpoint refuses every call. 'sugarbush check' shows why. Fix the cause"
                )
            return None
        self._meter.settle(
            call.worst_cost,
            completion,
            what="labels",
            store=lambda: self._cache.put(call.key, completion),
        )
        return completion

    def _stop(self, why: str) -> None:
        if self.end is None:
            self.end = GeneratorError(
                f"{_STAGE}: {why}, then run again. All received answers are cached."
            )
            self._endpoints.close()


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _down(params: LabelEndpoint, problem: str) -> GeneratorError:
    endpoint = f"{params.address} ({params.setting}.base_url)"
    return GeneratorError(
        f"{_STAGE}: {problem.format(endpoint)}. Run 'sugarbush check' until it succeeds, then run "
        "again. All received answers are cached."
    )
