"""Attributes read off private texts by a language model, on a trusted endpoint only.

This is the one place where private text goes to an endpoint, and it can only be entered with the
settings of an endpoint for labels (`LabelsParams`; the generator's are another type) that say
`trusted: true`: a `Labeller` for any other cannot be made. What comes back stays
private: answers are kept, and paid calls written down, in the folder that the caller names, which
lies under data/private; no progress is shown; and no message repeats what the endpoint said, since
an endpoint may quote the text that it was sent.

Before any private text is sent the endpoint is asked about a harmless one; if it refuses to answer
by a JSON schema it is asked in words alone (sugarbush.attributes.label_prompts
holds both). A text without a usable answer goes to the bucket for anything else.

Guarantee: the codes of a text depend on that text (and on public settings) alone, so that
`Private.map_batch` may call `codes`. A model's mistakes are no matter of privacy.
"""

from __future__ import annotations

import asyncio
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
from sugarbush.generators.openai.endpoint import Call, Endpoint, open_client
from sugarbush.generators.openai.failures import CallError, StopError
from sugarbush.generators.openai.probe import longest_question, probe
from sugarbush.generators.prompts import Message
from sugarbush.randomness import seed_of

_STAGE = "extract_metadata"
_HARMLESS = "Good morning. I would like to know when the shop opens tomorrow."
_ATTEMPTS = 2
_SEED_LIMIT = 2**31
# So many failed calls are borne, and one among few texts (a filter may refuse it for ever), their
# texts going to the bucket; more end the stage.
_BORNE_SHARE = 0.05
_TEMPLATE_TOKENS = 64


class Labeller:
    """Reads `attributes` off texts, with the endpoint of `params`.

    `folder` keeps answers and paid calls, and must be private; the caps of `params` hold for what
    is written down there. `account` is the `privacy.dataset`.
    Raises ParamsError unless the endpoint is trusted.
    """

    def __init__(
        self,
        params: LabelEndpoint,
        attributes: Sequence[Attribute],
        *,
        folder: Path,
        account: str,
    ) -> None:
        if not params.trusted:
            raise ParamsError(
                f"params.yaml: {params.setting}.trusted is false, and attributes with source: llm "
                f"in the schema ({', '.join(a.name for a in attributes)}) are asked of the "
                f"endpoint with every private text. If {params.base_url} may see them, set "
                f"{params.setting}.trusted: true; else give the attributes keywords or zero_shot. "
                "Nothing was sent."
            )
        # Labels want the likeliest answer, not a varied one.
        certain = {"temperature": None if params.temperature is None else 0.0}
        self._params = params.model_copy(update=certain)
        self._attributes, self._folder = tuple(attributes), folder
        self._meter = Meter(folder, account=account, stage=_STAGE, params=params)

    def check(self) -> None:
        """See that the endpoint answers with these settings, and that the question fits.

        Raises ParamsError or GeneratorError saying what to change; nothing private is sent.
        """
        self._call("", attempt=0, structured=True)
        tokens = self._params.context_tokens - self._params.max_tokens - _TEMPLATE_TOKENS
        worst_cost = self._meter.worst_cost([longest_question(tokens)])
        self._meter.admit(worst_cost)
        completion = asyncio.run(self._probe(tokens))
        self._meter.settle(
            worst_cost,
            what="check",
            prompt_tokens=completion.prompt_tokens,
            completion_tokens=completion.completion_tokens,
        )

    async def _probe(self, tokens: int) -> Completion:
        async with open_client(self._params) as client:
            return (await probe(client, self._params, tokens=tokens)).completion

    def codes(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Codes `(n, d)` int64, attributes in the order given.

        Raises GeneratorError when the endpoint refuses, a cap is reached, or more than one call and
        more than a twentieth of them fail; every answer received is kept, and the next run asks for
        the others.
        """
        if not len(texts):
            return np.empty((0, len(self._attributes)), dtype=np.int64)
        with open_cache(self._folder) as cache:
            answers = asyncio.run(self._ask(list(texts), cache))
        read = [self._read(answer) or self._buckets() for answer in answers]
        return np.array(read, dtype=np.int64)

    def values(self, texts: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """The same as values of the domain, `(n,)` by attribute name."""
        codes = self.codes(texts)
        return {
            attribute.name: tuple(attribute.domain[code] for code in codes[:, place])
            for place, attribute in enumerate(self._attributes)
        }

    async def _ask(self, texts: list[str], cache: AnswerCache) -> list[str | None]:
        """The usable answers, None where two were not, or none came."""
        turns = asyncio.Semaphore(self._params.concurrency)
        async with open_client(self._params) as client:
            desk = _Desk(Endpoint(client, self._params), self._meter, cache, self._params.setting)
            structured = await self._takes_schema(desk)

            async def label(text: str) -> str | None:
                async with turns:
                    return await self._label(desk, text, structured=structured)

            answers = await asyncio.gather(*map(label, texts))
        if desk.end is not None:
            raise desk.end
        if desk.failed > max(1, _BORNE_SHARE * len(texts)):
            raise _down(self._params)
        return answers

    async def _takes_schema(self, desk: _Desk) -> bool:
        """Whether the endpoint answers a harmless question with `response_format`, or without.

        Raises GeneratorError when it does neither: nothing private has been sent then.
        """
        for structured in (True, False):
            call = self._call(_HARMLESS, attempt=0, structured=structured)
            if await desk.answer(call) is not None:
                desk.failed = 0
                return structured
        raise desk.end or _down(self._params)

    async def _label(self, desk: _Desk, text: str, *, structured: bool) -> str | None:
        for attempt in range(_ATTEMPTS):
            call = self._call(text, attempt=attempt, structured=structured)
            completion = await desk.answer(call)
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
                purpose="labels",
                base_url=params.base_url,
                model=params.model,
                temperature=params.temperature,
                top_p=params.top_p,
                max_tokens=params.max_tokens,
                reasoning_effort=params.reasoning_effort,
                prompt=prompt,
                schema=schema,
                attempt=attempt,
            ),
            messages=(Message(role="user", content=prompt),),
            seed=seed_of(attempt, "labels") % _SEED_LIMIT,
            worst_cost=self._meter.worst_cost([prompt]),
            response_format=schema,
        )

    def _read(self, answer: str | None) -> list[int] | None:
        return None if answer is None else read_labels(answer, self._attributes)

    def _buckets(self) -> list[int]:
        return [len(attribute.domain) - 1 for attribute in self._attributes]


class _Desk:
    """Asks for what is not kept, until something ends the run."""

    def __init__(self, endpoint: Endpoint, meter: Meter, cache: AnswerCache, setting: str) -> None:
        self.failed, self._setting = 0, setting
        self.end: GeneratorError | None = None
        self._endpoint, self._meter, self._cache = endpoint, meter, cache

    async def answer(self, call: Call) -> Completion | None:
        """The endpoint's answer, kept before it is used; None when there is none.

        Nothing that the endpoint says of a failure is repeated.
        """
        kept = self._cache.get(call.key)
        if kept is not None or self.end is not None:
            return kept
        try:
            self._meter.admit(call.worst_cost)
        except CapReachedError:
            self._stop(f"max_calls or max_cost of {self._setting} is reached; raise it")
            return None
        try:
            completion = await self._endpoint.complete(call)
        except (CallError, StopError) as error:
            self._meter.release(call.worst_cost)
            self.failed += 1
            if isinstance(error, StopError):
                self._stop("the endpoint refuses every call; 'sugarbush check' says why. Mend it")
            return None
        self._cache.put(call.key, completion)
        self._meter.settle(
            call.worst_cost,
            what="labels",
            prompt_tokens=completion.prompt_tokens,
            completion_tokens=completion.completion_tokens,
        )
        return completion

    def _stop(self, why: str) -> None:
        if self.end is None:
            self.end = GeneratorError(
                f"{_STAGE}: {why}, then run again: every answer received is kept."
            )
            self._endpoint.close()


def _down(params: LabelEndpoint) -> GeneratorError:
    return GeneratorError(
        f"{_STAGE}: too many calls to {params.base_url} ({params.setting}.base_url) fail. Every "
        "answer received is kept; see with 'sugarbush check' that it answers, and run again."
    )
