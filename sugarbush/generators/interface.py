"""The interface that every generator of candidates fulfils.

A `Request` says what is wanted; `sugarbush.generators.prompts` turns it into messages for a
language model, and the offline generators read its fields. A request holds released or public text
only: that is why `Generator.generate` takes `Released` requests and why nothing else can reach an
endpoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from sugarbush.errors import PrivacyError
from sugarbush.privacy.data_types import Released


class Problem(StrEnum):
    """Why an answer cannot be used."""

    EMPTY = "empty"
    REFUSAL = "refusal"
    TRUNCATED = "truncated"
    COPIED_PROMPT = "copied_prompt"
    COPIED_EXAMPLE = "copied_example"
    COPIED_PARENT = "copied_parent"
    WRONG_LANGUAGE = "wrong_language"
    NOT_TEXT = "not_text"
    FAILED = "failed"


@dataclass(frozen=True, kw_only=True)
class Request:
    """One text wanted. `sample` tells apart several wishes that are otherwise equal.

    `subject` is the public description of the corpus ("customer-service dialogues");
    `attributes` are pairs of DP (or schema) attribute name and value, in schema order; `examples`
    are donated texts; `words` is the target length in words, None when it is left open.
    """

    subject: str
    attributes: tuple[tuple[str, str], ...] = ()
    examples: tuple[str, ...] = ()
    words: int | None = None
    sample: int = 0


@dataclass(frozen=True, kw_only=True)
class RandomRequest(Request):
    """RANDOM_API: a text from nothing, from metadata, from examples, or from both (MAPLE)."""


@dataclass(frozen=True, kw_only=True)
class VariationRequest(Request):
    """VARIATION_API: a text near `parent`, `mask_share` of whose words may be rewritten."""

    parent: str
    mask_share: float
    tone: str = ""
    good: tuple[str, ...] = ()
    bad: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Answer:
    """`text` is None exactly when `problem` is set. Tokens are 0 where nothing is counted."""

    text: str | None
    problem: Problem | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached: bool = False


@dataclass(frozen=True, kw_only=True)
class Usage:
    """What a batch of answers cost."""

    calls: int = 0
    cached_calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    problems: dict[str, int] = field(default_factory=dict)


def usage_of(answers: Sequence[Answer]) -> Usage:
    """Totals over `answers`."""
    problems: dict[str, int] = {}
    for answer in answers:
        if answer.problem is not None:
            problems[answer.problem.value] = problems.get(answer.problem.value, 0) + 1
    return Usage(
        calls=sum(not a.cached for a in answers),
        cached_calls=sum(a.cached for a in answers),
        prompt_tokens=sum(a.prompt_tokens for a in answers if not a.cached),
        completion_tokens=sum(a.completion_tokens for a in answers if not a.cached),
        problems=problems,
    )


def released_requests(requests: object) -> tuple[Request, ...]:
    """The requests, if they are released: a caller may have gone past the type checker.

    Raises PrivacyError before anything reaches a model.
    """
    if not isinstance(requests, Released) or not all(
        isinstance(request, Request) for request in requests.value
    ):
        raise PrivacyError(
            "only released requests may reach a generator; got "
            f"{type(requests).__name__}. Nothing was sent."
        )
    return tuple(requests.value)


NO_REQUESTS: Released[tuple[Request, ...]] = Released(())


class Generator(Protocol):
    """A source of candidates. Returns one answer a request, in order; equal seeds, equal texts
    for the offline ones. `what` names the batch for people (a round, say)."""

    def generate(
        self, requests: Released[tuple[Request, ...]], *, what: str = "answers"
    ) -> Released[tuple[Answer, ...]]: ...
