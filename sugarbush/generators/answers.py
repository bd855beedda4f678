"""Checks completions and turns them into answers. Each unusable completion is requested once more.

The cache contains unchecked completions, so every run checks them again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from sugarbush.errors import GeneratorError
from sugarbush.generators.answer_cache import Completion
from sugarbush.generators.answer_checks import bare_text, check
from sugarbush.generators.interface import Answer, Problem, Request

T = TypeVar("T")

_ATTEMPTS = 2

# Placeholders for the answer to a request that will be sent, and to a request that is never sent
_NOT_YET = Answer(text=None, problem=Problem.FAILED, cached=True)
_NOT_ASKED = Answer(text=None, problem=Problem.FAILED)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The completions of some requests.

    `keys` maps the index of a request to its cache key. `completions` maps a cache key to its
    completion. A failed request has no completion. `fresh` contains the keys that were not in the
    cache.
    """

    keys: Mapping[int, str]
    completions: Mapping[str, Completion]
    fresh: Collection[str]


def fitting_prompts(
    requests: Sequence[Request],
    prompt: Callable[[Request], T],
    *,
    what: str,
    say: Callable[[str], None],
) -> dict[int, T]:
    """Return the prompts of `requests` by index. `prompt` raises GeneratorError if a prompt is too
    long.

    A request is left out if its prompt is too long. `say` prints the number of such requests. If
    all prompts are too long, the function raises the last error.
    """
    prompts, too_long = dict[int, T](), None
    for index, request in enumerate(requests):
        try:
            prompts[index] = prompt(request)
        except GeneratorError as error:
            too_long = error
    if too_long is not None:
        if not prompts:
            raise too_long
        say(f"{what}: {len(requests) - len(prompts)} not requested: {too_long}")
    return prompts


def answer_all(
    requests: Sequence[Request],
    indices: Collection[int],
    ask: Callable[[Sequence[int], int], Asked],
) -> tuple[Answer, ...]:
    """Return one answer per request, in order.

    Only the requests with an index in `indices` are answered. All other requests fail.

    `ask` receives the indices without a usable answer, and the number of the attempt.
    """
    answers = [_NOT_YET if i in indices else _NOT_ASKED for i in range(len(requests))]
    waiting = sorted(indices)
    for attempt in range(_ATTEMPTS):
        asked = ask(waiting, attempt)
        fresh = set(asked.fresh)
        for i, key in asked.keys.items():
            paid = key in fresh
            fresh.discard(key)  # equal requests are paid once
            answers[i] = _answer(
                asked.completions.get(key), requests[i], before=answers[i], paid=paid
            )
        waiting = [i for i in waiting if answers[i].problem not in {None, Problem.FAILED}]
    return tuple(answers)


def _answer(
    completion: Completion | None, request: Request, *, before: Answer, paid: bool
) -> Answer:
    """Return the answer to one request, with the tokens that this run paid in all attempts."""
    if completion is None:
        return before if before.problem is not Problem.FAILED else replace(before, cached=False)
    text = bare_text(completion.text or "", request)
    problem = (
        Problem.REFUSAL if completion.refused else check(text, request, completion.finish_reason)
    )
    if problem is None and request.shape is not None:
        text = request.shape.canonical(text)
    return Answer(
        text=None if problem else text,
        problem=problem,
        prompt_tokens=before.prompt_tokens + completion.prompt_tokens * paid,
        completion_tokens=before.completion_tokens + completion.completion_tokens * paid,
        cached=before.cached and not paid,
        cached_prompt_tokens=before.cached_prompt_tokens + completion.cached_prompt_tokens * paid,
    )
