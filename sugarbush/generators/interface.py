"""The interface of a generator: requests in, texts out.

A generator is one module and one entry point in the group `sugarbush.generators`. The entry point
names a subclass of `GeneratorSettings`. This class contains the generator's settings, opens the
generator, and describes it to the rest of the library. `sugarbush/examples/generator.py` is the
shortest example.

A `Request` describes one text. `sugarbush.generators.prompts` turns it into messages for a language
model; other generators read its fields. Only `Released` requests are accepted, so private text
cannot reach a generator.
"""

from __future__ import annotations

import datetime
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from sugarbush.errors import PrivacyError
from sugarbush.privacy.data_types import Released
from sugarbush.settings import Section

if TYPE_CHECKING:
    from sugarbush.generators.openai.settings import EndpointSettings

# Maps texts (n,) to unit vectors (n, dim).
Embed = Callable[[Sequence[str]], NDArray[np.float32]]


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
    """One text to write.

    `subject` is the public description of the corpus ("customer-service dialogues"). `attributes`
    are pairs of name and value, from the DP table or the schema, in the schema's order. `examples`
    are donated texts. `words` is the target length; None means any length. `sample` distinguishes
    requests that are otherwise equal.
    """

    subject: str
    attributes: tuple[tuple[str, str], ...] = ()
    examples: tuple[str, ...] = ()
    words: int | None = None
    sample: int = 0


@dataclass(frozen=True, kw_only=True)
class RandomRequest(Request):
    """RANDOM_API: a new text, optionally from metadata and examples (MAPLE)."""


@dataclass(frozen=True, kw_only=True)
class VariationRequest(Request):
    """VARIATION_API: a text near `parent`; `mask_share` of its words may be rewritten."""

    parent: str
    mask_share: float
    tone: str = ""

    def __repr__(self) -> str:
        # Generators derive the seed of a text from this string. So it stays as in version 0.1, in
        # which a request had the fields `good` and `bad`.
        own = ", ".join(f"{one.name}={getattr(self, one.name)!r}" for one in fields(self))
        return f"VariationRequest({own}, good=(), bad=())"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A text or a problem: `text` is None exactly when `problem` is set.

    The numbers of tokens are 0 if the generator does not count them.
    """

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
    """Check at run time that the requests are released, and return them.

    Raises PrivacyError if they are not released. No model has received anything by then.
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
    """An open generator."""

    def generate(
        self, requests: Released[tuple[Request, ...]], *, what: str = "answers"
    ) -> Released[tuple[Answer, ...]]:
        """One answer per request, in order. `what` names the batch for the operator ("round 1").

        Guarantee: each answer depends on the seed and its own request, not on other requests.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class GeneratorContext:
    """What a generator may use besides its own settings.

    `seed` is public. `state` is a folder for answers and a journal of paid calls. `account` is the
    `privacy.dataset`, to which the caps apply. `stage` is the pipeline stage that needs the texts.
    Relative paths in settings start at `base`. `embed` is for public text. `say` prints a line for
    the operator. `memory` keeps objects that are slow to open, such as public files, for later
    contexts of the same corpus.
    """

    seed: int
    state: Path
    account: str
    stage: str
    base: Path
    embed: Embed
    say: Callable[[str], None]
    memory: dict[Any, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, kw_only=True)
class GeneratorFacts:
    """The entries of the release card about a generator.

    `endpoint` is None if nothing was sent to another machine. `sources` names public corpora.
    """

    provider: str
    model: str | None = None
    endpoint: str | None = None
    sources: tuple[str, ...] = ()


class Price(Section):
    """Price of a million tokens. Use the same currency for all prices."""

    input: Annotated[float, Field(ge=0)]
    """Price of a million prompt tokens."""
    output: Annotated[float, Field(ge=0)]
    """Price of a million answer tokens."""
    date: str
    """The day on which the price was read, in quotes: '2026-11-01'."""

    @field_validator("date", mode="before")
    @classmethod
    def _is_quoted(cls, date: object) -> object:
        """YAML reads a date without quotes as a date object, and then DVC cannot read any
        setting."""
        if not isinstance(date, str):
            raise ValueError("must be a date in quotes, such as '2026-11-01'")
        return datetime.date.fromisoformat(date).isoformat()


def cost_of(price: Price | None, *, prompt_tokens: float, completion_tokens: float) -> float | None:
    """Compute the cost of the tokens, in the currency of the price; None if there is no price."""
    if price is None:
        return None
    return (price.input * prompt_tokens + price.output * completion_tokens) / 1_000_000


class GeneratorSettings(Section):
    """The settings of one generator, and how to open it. A plug-in is a subclass.

    Mark fields that do not affect the texts as `Annotated[T, NOT_IN_OUTPUT]`.

    >>> class Parrot(GeneratorSettings):
    ...     name = "parrot"
    ...     words: str = "hello"
    ...     def open(self, context):
    ...         return self
    ...     def generate(self, requests, *, what="answers"):
    ...         return requests.map(lambda asked: tuple(Answer(text=self.words) for _ in asked))
    >>> Parrot().generate(Released((RandomRequest(subject="letters"),))).value[0].text
    'hello'
    """

    name: ClassVar[str]
    """The name of the entry point, and of its section under `generator` in params.yaml."""
    one_domain: ClassVar[bool] = False
    """Whether the generator writes texts of one fixed domain, regardless of the corpus."""

    @abstractmethod
    def open(self, context: GeneratorContext) -> Generator:
        """The opened generator. Import heavy libraries here, not at module level."""

    def identity(self) -> dict[str, Any]:
        """All settings that affect the texts, as JSON values. They are part of cache keys."""
        return self.output_settings()

    def facts(self) -> GeneratorFacts:
        """The generator's entries of the release card. They are public: show only the last part of
        a path."""
        return GeneratorFacts(provider=self.name)

    def preflight(self, context: GeneratorContext, planned: Released[tuple[Request, ...]]) -> None:
        """Check that the generator can answer `planned`, the longest requests of a run.

        Raises a SugarbushError that says what to change. Does nothing by default.
        """

    def public_files(self) -> tuple[str, ...]:
        """Return the data files that the texts depend on. Their paths are as in the settings."""
        return ()

    def public_texts(self, base: Path) -> tuple[str, ...]:
        """Public texts that the generator returns unchanged.

        No private record may equal one of them.
        """
        return ()

    @property
    def answer_token_limit(self) -> int | None:
        """The maximum number of tokens in an answer; None if there is no limit."""
        return None

    @property
    def price(self) -> Price | None:
        """Price of tokens; None if they are free or the price is unknown."""
        return None

    @property
    def endpoint(self) -> EndpointSettings | None:
        """The endpoint that receives the requests; None if the generator runs on this machine."""
        return None
