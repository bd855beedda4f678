"""Uses a public corpus as a generator. Texts are found by their embeddings.

RANDOM_API samples pool texts near the prompt. VARIATION_API samples neighbours of the parent. The
pool writes no new text, so the requested length and mask share have no effect.

The pool must be public and must not contain a private record. `sugarbush.generators.pool_files`
describes a pool that is part of a private file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from sugarbush.data.shapes.interface import Shape, ShapeError
from sugarbush.errors import GeneratorError, InvariantError, ParamsError
from sugarbush.generators.interface import (
    Answer,
    Embed,
    Generator,
    GeneratorContext,
    GeneratorFacts,
    GeneratorSettings,
    Problem,
    Request,
    VariationRequest,
    released_requests,
)
from sugarbush.generators.pool_files import PoolSource, load_pool
from sugarbush.generators.released_numbers import ReleasedNumbers
from sugarbush.privacy.data_types import Released, merge_ids
from sugarbush.randomness import Rng, public_rng
from sugarbush.settings import PUBLIC_TEXTS

_EXAMPLES_A_QUERY = 3  # the search starts from the mean embedding of this many examples
_PAIRS_A_BLOCK = 1 << 24  # pairs (request, pool text) in one block; their cosines need 64 MiB
_TINY = np.finfo(np.float32).tiny


@dataclass(frozen=True, kw_only=True)
class _Search:
    """A search near the mean embedding of `texts`. The search never returns a copy of `parent`."""

    texts: tuple[str, ...] = ()
    parent: str | None = None


_NOTHING = _Search()


class Pool(GeneratorSettings):
    """Uses a public corpus as a generator. Texts are found by their embeddings.

    >>> pool = Pool(sources=[{"file": "reviews.csv", "text_column": "text"}])
    >>> pool.public_files()
    ('reviews.csv',)
    >>> Pool(texts=["A fine lamp.", "The chair broke."]).facts().sources
    ('2 texts given in Python',)
    """

    name: ClassVar[str] = "pool"
    follows_requests: ClassVar[bool] = False

    sources: tuple[PoolSource, ...] = ()
    """The public files."""
    texts: Annotated[tuple[str, ...], PUBLIC_TEXTS] = ()
    """Public texts, without a file; for the Python API."""
    temperature: Annotated[float, Field(gt=0)] = 0.05
    """Sampling temperature: the probability of a text is proportional to exp(cosine /
    temperature)."""
    neighbours: Annotated[int, Field(ge=1)] = 200
    """Number of nearest pool texts from which a variation is sampled."""

    @field_validator("texts", mode="before")
    @classmethod
    def _listed(cls, texts: object) -> object:
        """Accept other lists of texts too, such as a column of a frame."""
        named = isinstance(texts, str | Mapping)
        return list(texts) if isinstance(texts, Iterable) and not named else texts

    def output_settings(self) -> dict[str, Any]:
        sources = [source.output_settings() for source in self.sources]
        return super().output_settings() | {"sources": sources}

    def open(self, context: GeneratorContext) -> PoolGenerator:
        key = (self.name, self.sources, self.texts, context.base)
        if key not in context.memory:
            texts = self.public_texts(context.base, context.shape)
            context.memory[key] = texts, context.embed(texts)
        return PoolGenerator(
            *context.memory[key], params=self, seed=context.seed, embed=context.embed
        )

    def facts(self) -> GeneratorFacts:
        given = (f"{len(self.texts):,} texts given in Python",) if self.texts else ()
        files = (Path(source.file).name for source in self.sources)
        licences = (source.licence or "not stated" for source in self.sources)
        return GeneratorFacts(
            provider=self.name,
            sources=(*files, *given),
            licences=(*licences, *("not stated" for _ in given)),
        )

    def preflight(self, context: GeneratorContext, planned: Released[tuple[Request, ...]]) -> None:
        self.public_texts(context.base, context.shape)

    def public_files(self) -> tuple[str, ...]:
        return tuple(source.file for source in self.sources)

    def public_texts(self, base: Path, shape: Shape | None = None) -> tuple[str, ...]:
        given = [text for text in self.texts if text.strip()]
        if shape is not None:
            given = [_canonical(text, shape) for text in given]
        if given and not self.sources:
            return tuple(dict.fromkeys(given))
        return tuple(dict.fromkeys((*load_pool(self.sources, base=base, shape=shape), *given)))


class PoolGenerator(Generator):
    """Samples pool texts for requests.

    `embeddings` (n, d) float32 contains the unit vectors of `texts` (n,). `embed` returns unit
    vectors of other texts. If the pool contains a text twice, the text is twice as likely. A copy
    of the parent or of an example is never returned.

    Guarantee: each answer depends only on the seed and its own request. The Gumbel-max trick
    samples a text. The Gumbel-max trick is more robust to rounding errors of the matrix product
    than a cumulative sum.
    """

    def __init__(
        self,
        texts: Sequence[str],
        embeddings: NDArray[np.float32],
        *,
        params: Pool,
        seed: int,
        embed: Embed,
        numbers: ReleasedNumbers | None = None,
    ) -> None:
        if len(embeddings) != len(texts):
            raise InvariantError(
                f"the pool has {len(texts)} texts but {len(embeddings)} embeddings"
            )
        self._texts = tuple(texts)
        self._embeddings = np.ascontiguousarray(embeddings, dtype=np.float32)
        self._params = params
        self._seed = seed
        self._embed = embed
        self._numbers = ReleasedNumbers() if numbers is None else numbers
        self._indices: dict[str, list[int]] = {}
        for index, text in enumerate(self._texts):
            self._indices.setdefault(text, []).append(index)
        if len(self._indices) < 2:
            raise GeneratorError(
                "the pool has fewer than two different texts. Add files to generator.pool.sources"
            )

    def generate(
        self, requests: Released[tuple[Request, ...]], *, what: str = "answers"
    ) -> Released[tuple[Answer, ...]]:
        """Return one pool text per request, in order. The answers contain no token counts.

        A text's probability is proportional to exp(cosine / temperature). RANDOM_API compares the
        text with the mean of three examples or, without examples, with the attribute values.
        Without examples and attributes, all texts are equally likely. VARIATION_API compares the
        text with the parent, and samples from the `neighbours` nearest texts. An answer fails if no
        text is left.
        """
        ids = merge_ids(requests, Released(None, self._numbers.ledger_ids))
        return Released(self._answers(released_requests(requests)), ids)

    def with_released(self, **numbers: Released[Any]) -> PoolGenerator:
        """Return the pool with a released vector `query` (dim,).

        The vector is added to the unit vector of every prompt, in the space of the embeddings.
        Requests without examples and attributes are compared with the vector alone.
        """
        released = ReleasedNumbers.checked(numbers, names=("query",), generator=Pool.name)
        size = self._embeddings.shape[1]
        if (shape := np.shape(released.values.get("query", np.empty(size)))) != (size,):
            raise ParamsError(f"query: a vector of {size} numbers is needed, not the shape {shape}")
        return PoolGenerator(
            self._texts, self._embeddings, params=self._params, seed=self._seed, embed=self._embed,
            numbers=released,
        )  # fmt: skip

    def _answers(self, requests: tuple[Request, ...]) -> tuple[Answer, ...]:
        rngs = [public_rng(self._seed, "pool", repr(request)) for request in requests]
        asked_by: dict[_Search, list[int]] = {}
        for index, (request, rng) in enumerate(zip(requests, rngs, strict=True)):
            asked_by.setdefault(_prompt(request, rng), []).append(index)
        answers = {
            index: Answer(text=self._texts[rngs[index].integers(len(self._texts))])
            for index in (() if "query" in self._numbers.values else asked_by.pop(_NOTHING, ()))
        }
        prompts = list(asked_by)
        directions = self._directions(prompts)
        block = max(1, _PAIRS_A_BLOCK // len(self._texts))
        for start in range(0, len(prompts), block):
            cosines = directions[start : start + block] @ self._embeddings.T
            for row, prompt in zip(cosines, prompts[start : start + block], strict=True):
                near = self._near(row, prompt)
                scores = row[near] / np.float32(self._params.temperature)
                for index in asked_by[prompt]:
                    answers[index] = self._draw(near, scores, requests[index], rngs[index])
        return tuple(answers[index] for index in range(len(requests)))

    def _near(self, cosines: NDArray[np.float32], prompt: _Search) -> NDArray[np.int64]:
        """Return the sorted indices of all pool texts or, with a parent, of its neighbours."""
        if prompt.parent is None:
            return np.arange(len(cosines))
        copies = self._indices.get(prompt.parent, [])
        count = self._params.neighbours + len(copies)
        near = np.arange(len(cosines))
        if count < len(cosines):
            near = np.argpartition(-cosines, count - 1)[:count].astype(np.int64)
        near = near[~np.isin(near, copies)]
        nearest_first = near[np.argsort(-cosines[near], kind="stable")]
        return np.sort(nearest_first[: self._params.neighbours])

    def _draw(
        self, near: NDArray[np.int64], scores: NDArray[np.float32], request: Request, rng: Rng
    ) -> Answer:
        """Sample one text with probability proportional to exp(score), by the Gumbel-max trick.

        An example of the request is never sampled.
        """
        # -log(Exp(1)) is a standard Gumbel variate.
        exponential = rng.standard_exponential(len(near), dtype=np.float32)
        perturbed = scores - np.log(np.maximum(exponential, _TINY))
        example_indices = [
            index for text in set(request.examples) for index in self._indices.get(text, ())
        ]
        if example_indices:
            perturbed[np.isin(near, example_indices)] = -np.inf
        best = int(np.argmax(perturbed)) if len(near) else -1
        if best < 0 or np.isneginf(perturbed[best]):
            return Answer(text=None, problem=Problem.COPIED_EXAMPLE)
        return Answer(text=self._texts[near[best]])

    def _directions(self, prompts: Sequence[_Search]) -> NDArray[np.float32]:
        """Return the mean embedding of each prompt's texts, scaled to length 1: (m, d).

        A released vector `query` is added, and the sum is scaled to length 1 again.
        """
        texts = dict.fromkeys(text for prompt in prompts for text in prompt.texts)
        new = [text for text in texts if text not in self._indices]
        embedded = dict(zip(new, self._embed(new), strict=True)) if new else {}
        vectors = {
            text: embedded[text] if text in embedded else self._embeddings[self._indices[text][0]]
            for text in texts
        }
        means: NDArray[np.float32] = np.zeros(
            (len(prompts), self._embeddings.shape[1]), dtype=np.float32
        )
        for row, prompt in enumerate(prompts):
            if prompt.texts:
                means[row] = np.mean([vectors[text] for text in prompt.texts], axis=0)
        directions = _unit(means)
        query = self._numbers.values.get("query")
        return directions if query is None else _unit(directions + query.astype(np.float32))


def _canonical(text: str, shape: Shape) -> str:
    try:
        return shape.canonical(text)
    except ShapeError as error:
        raise ParamsError(f"generator.pool.texts: a text {error}") from None


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled: NDArray[np.float32] = vectors / np.maximum(lengths, _TINY)
    return scaled


def _prompt(request: Request, rng: Rng) -> _Search:
    if isinstance(request, VariationRequest):
        return _Search(texts=(request.parent,), parent=request.parent)
    if request.examples:
        count = min(_EXAMPLES_A_QUERY, len(request.examples))
        chosen = rng.choice(len(request.examples), size=count, replace=False)
        return _Search(texts=tuple(request.examples[i] for i in sorted(chosen)))
    if request.attributes:
        values = (f"{name.replace('_', ' ')}: {value}" for name, value in request.attributes)
        return _Search(texts=(", ".join(values),))
    return _NOTHING
