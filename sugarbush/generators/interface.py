"""Defines the interface of a generator. A generator receives requests and returns texts.

A generator is one module and one entry point in the group `sugarbush.generators`. The entry point
names a subclass of `GeneratorSettings`. The subclass contains the settings of the generator, and
opens the generator. The shortest example is `sugarbush/examples/generator.py`.

A `Request` describes one text. `sugarbush.generators.prompts` turns a request into a message for a
language model. Other generators read the fields of the request. Generators accept only `Released`
requests, so private text cannot reach them.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from sugarbush.errors import ParamsError, PrivacyError
from sugarbush.generators.prices import Price
from sugarbush.languages import ENGLISH
from sugarbush.privacy.data_types import Released
from sugarbush.settings import Section

if TYPE_CHECKING:
    from sugarbush.data.shapes.interface import Lengths, Shape
    from sugarbush.generators.openai.endpoint_settings import EndpointSettings

# Maps texts (n,) to unit vectors (n, dim)
Embed = Callable[[Sequence[str]], NDArray[np.float32]]


Attributes = tuple[tuple[str, str], ...]  # name and value of each attribute


class Problem(StrEnum):
    """The reason why an answer is unusable."""

    EMPTY = "empty"
    REFUSAL = "refusal"
    TRUNCATED = "truncated"
    COPIED_PROMPT = "copied_prompt"
    COPIED_EXAMPLE = "copied_example"
    COPIED_PARENT = "copied_parent"
    WRONG_LANGUAGE = "wrong_language"
    NOT_TEXT = "not_text"
    WRONG_FORM = "wrong_form"
    FAILED = "failed"


@dataclass(frozen=True, kw_only=True)
class Request:
    """Describes one text that a generator should write.

    `subject` is the public description of the corpus ("customer-service dialogues"), and `style`
    that of the form of its texts. `attributes` contains pairs (name, value) in the schema's order.
    The values come from the DP table or the schema. `descriptions` has pairs (name, description of
    the value). `unlisted` contains attributes without a listed value, each with the values that the
    text must not have, and `unrequested` the names of attributes that may have any value.
    `examples` contains
    donated texts. `example_attributes` contains their known attributes. `words` is the requested
    length; None means any length. `language` is the code of the texts' language. Requests that are
    otherwise equal have different values of `sample`. `shape` is the form of the text; None means
    one string of any form. `lengths` are the requested lengths of its parts, from which `words`
    follows.
    """

    subject: str
    attributes: Attributes = ()
    examples: tuple[str, ...] = ()
    words: int | None = None
    sample: int = 0
    # Generators derive the seed of a text from `repr`, and version 0.2 did not have this field.
    example_attributes: tuple[Attributes, ...] = field(default=(), repr=False)
    style: str = field(default="", repr=False)
    language: str = field(default=ENGLISH, repr=False)
    shape: Shape | None = field(default=None, repr=False, compare=False)
    lengths: Lengths = field(default=(), repr=False)
    descriptions: Attributes = field(default=(), repr=False)
    unlisted: tuple[tuple[str, tuple[str, ...]], ...] = field(default=(), repr=False)
    unrequested: tuple[str, ...] = field(default=(), repr=False)

    @property
    def without_attributes(self) -> Self:
        """The request without a word about attributes."""
        return replace(self, attributes=(), descriptions=(), unlisted=(), unrequested=())


@dataclass(frozen=True, kw_only=True)
class RandomRequest(Request):
    """A request for a new text (RANDOM_API)."""


@dataclass(frozen=True, kw_only=True)
class VariationRequest(Request):
    """A request for a variation of `parent` (VARIATION_API). A `mask_share` of its words may
    change."""

    parent: str
    mask_share: float
    tone: str = ""

    def __repr__(self) -> str:
        # Generators derive the seed of a text from this string, so another string would change all
        # variations. `good` and `bad` were fields in version 0.1.
        names = [entry.name for entry in fields(self) if entry.repr]
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"VariationRequest({values}, good=(), bad=())"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The text or the problem of one request. `text` is None exactly if `problem` is set.

    `cached_prompt_tokens` counts the part of `prompt_tokens` that an earlier prompt also had, and
    that was not computed again. If the generator counts no tokens, the numbers of tokens are 0.
    """

    text: str | None
    problem: Problem | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached: bool = False
    cached_prompt_tokens: int = 0


@dataclass(frozen=True, kw_only=True)
class Usage:
    """The cost of a batch of answers, in calls and tokens.

    `cached_calls` need no call, because their answers are stored. `cached_prompt_tokens` counts the
    part of `prompt_tokens` that an earlier prompt also had.
    """

    calls: int = 0
    cached_calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_prompt_tokens: int = 0
    problems: dict[str, int] = field(default_factory=dict)


def usage_of(answers: Sequence[Answer]) -> Usage:
    """Return the total cost of `answers`."""
    problems = Counter(a.problem.value for a in answers if a.problem is not None)
    return Usage(
        calls=sum(not a.cached for a in answers),
        cached_calls=sum(a.cached for a in answers),
        prompt_tokens=sum(a.prompt_tokens for a in answers if not a.cached),
        completion_tokens=sum(a.completion_tokens for a in answers if not a.cached),
        cached_prompt_tokens=sum(a.cached_prompt_tokens for a in answers if not a.cached),
        problems=dict(problems),
    )


def released_requests(requests: object) -> tuple[Request, ...]:
    """Return the requests, after a run-time check that they are released.

    Raises PrivacyError for other requests, before any request is sent.
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
    """An open generator. A class of a generator inherits from this class."""

    def generate(
        self, requests: Released[tuple[Request, ...]], *, what: str = "answers"
    ) -> Released[tuple[Answer, ...]]:
        """Return one answer per request, in order.

        Progress bars and messages show `what`, such as "round 1". Guarantee: each answer depends
        only on the seed and its own request.
        """
        ...

    def with_released(self, **numbers: Released[Any]) -> Generator:
        """Return a generator that uses released numbers, such as a steering vector.

        The numbers replace those of an earlier call. Every answer of the new generator has the
        ledger ids of the numbers, and cache keys change with the numbers. Raises PrivacyError for
        numbers that are not `Released`. The default implementation accepts no numbers and raises
        ParamsError.
        """
        raise ParamsError(
            f"{type(self).__name__} accepts no released numbers. The generators huggingface "
            "(steering) and pool (query) do"
        )


@dataclass(frozen=True, kw_only=True)
class GeneratorContext:
    """Values that a generator may use besides its own settings.

    `seed` is public. `state` is a folder for answers and for the journal of paid calls. `account`
    is the value of `privacy.dataset`. Each account has its own caps on calls and cost. `stage` is
    the stage that needs the texts. Relative paths in settings start at `base`. `embed` embeds
    public texts. `say` prints a line for the operator. `memory` keeps objects that are slow to
    load, such as public files. Later contexts of the same corpus reuse these objects. `shape` is
    the form of a record; None means one string.
    """

    seed: int
    state: Path
    account: str
    stage: str
    base: Path
    embed: Embed
    say: Callable[[str], None]
    memory: dict[Any, Any] = field(default_factory=dict, repr=False)
    shape: Shape | None = None


@dataclass(frozen=True, kw_only=True)
class GeneratorFacts:
    """Facts about a generator, for the release card.

    `endpoint` is None if no request leaves this machine. `sources` contains names of public files,
    and `licences` the licence of each.
    """

    provider: str
    model: str | None = None
    endpoint: str | None = None
    sources: tuple[str, ...] = ()
    licences: tuple[str, ...] = ()


class GeneratorSettings(Section):
    """The settings of one generator. A plug-in is a subclass.

    Mark a field as `Annotated[T, NOT_IN_OUTPUT]` if it does not affect the texts.

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
    """The name of the entry point, and of the generator's section in params.yaml."""
    one_domain: ClassVar[bool] = False
    """Whether the generator writes texts of one fixed domain, regardless of the corpus."""
    follows_requests: ClassVar[bool] = True
    """Whether a text may have a value because a prompt requested it. A pool's texts existed before
    the requests, so a request gives no information about a text.
    """
    example_sets: ClassVar[int] = 0
    """The number of example sets that the prompts of a run share
    (`sugarbush.generators.examples`); 0: each request has its own nearest examples."""

    @abstractmethod
    def open(self, context: GeneratorContext) -> Generator:
        """Open the generator. Import heavy libraries here, not at module level."""

    def identity(self) -> dict[str, Any]:
        """Return all settings that affect the texts, as JSON values for cache keys."""
        return self.output_settings()

    def facts(self) -> GeneratorFacts:
        """Return the entries for the public release card. Show only the last part of a path."""
        return GeneratorFacts(provider=self.name)

    def require_packages(self) -> None:
        """Raise ParamsError if an optional package that these settings need is missing.

        Called before a record is read. Import nothing here. The default needs no such package.
        """

    def preflight(self, context: GeneratorContext, planned: Released[tuple[Request, ...]]) -> None:
        """Check that the generator can answer the longest requests of a run, `planned`.

        Raises a SugarbushError that says what to change. The default implementation does nothing.
        """

    def alternatives(self, *, examples: bool) -> tuple[GeneratorSettings, ...]:
        """Return the settings that a rehearsal compares. The default has no alternative.

        `examples` states whether prompts contain donated examples.
        """
        return (self,)

    def differences(self, other: GeneratorSettings) -> tuple[str, ...]:
        """Return the settings that differ from `other`, as assignments for params.yaml."""
        before = other.model_dump(mode="json")
        return tuple(
            f"generator.{self.name}.{name}={json.dumps(value)}"
            for name, value in self.model_dump(mode="json").items()
            if before.get(name) != value
        )

    def public_files(self) -> tuple[str, ...]:
        """Return the data files that affect the texts, with their paths in the settings."""
        return ()

    def public_texts(self, base: Path, shape: Shape | None = None) -> tuple[str, ...]:
        """Return the public texts that the generator may copy, as canonical texts of `shape`.

        No private record may equal such a text. Without `shape`, a text is one string.
        """
        return ()

    @property
    def allowed_for_any_texts(self) -> bool:
        """Whether the settings allow a generator of one domain for texts of another domain."""
        return False

    @property
    def answer_token_limit(self) -> int | None:
        """The maximum number of tokens in an answer, or None."""
        return None

    @property
    def price(self) -> Price | None:
        """The price of tokens, or None if tokens are free or their price is unknown."""
        return None

    @property
    def endpoint(self) -> EndpointSettings | None:
        """The endpoint that receives the requests, or None for a generator on this machine."""
        return None
