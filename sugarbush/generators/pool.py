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

from sugarbush.errors import GeneratorError, InvariantError
from sugarbush.generators.interface import (
    Answer,
    Embed,
    GeneratorContext,
    GeneratorFacts,
    GeneratorSettings,
    Problem,
    Request,
    VariationRequest,
)
from sugarbush.generators.pool_files import PoolSource, load_pool
from sugarbush.privacy.data_types import Released
from sugarbush.progress import progress
from sugarbush.randomness import Rng, public_rng
from sugarbush.settings import PUBLIC_TEXTS

_EXAMPLES_A_QUERY = 3  # the search starts from the mean embedding of this many examples
_PAIRS_A_BLOCK = 1 << 24  # pairs (request, pool text) in one block; their cosines need 64 MiB
_EMBEDDED_AT_ONCE = 512
_TINY = np.finfo(np.float32).tiny


@dataclass(frozen=True, kw_only=True)
class _Prompt:
    """A search near the mean embedding of `texts`. The search never returns a copy of `parent`."""

    texts: tuple[str, ...] = ()
    parent: str | None = None


_NOTHING = _Prompt()


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
            texts = self.public_texts(context.base)
            context.memory[key] = texts, _indexed(texts, context.embed)
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
        self.public_texts(context.base)

    def public_files(self) -> tuple[str, ...]:
        return tuple(source.file for source in self.sources)

    def public_texts(self, base: Path) -> tuple[str, ...]:
        given = [text for text in self.texts if text.strip()]
        if given and not self.sources:
            return tuple(dict.fromkeys(given))
        return tuple(dict.fromkeys((*load_pool(self.sources, base=base), *given)))


class PoolGenerator:
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
        self._places: dict[str, list[int]] = {}
        for place, text in enumerate(self._texts):
            self._places.setdefault(text, []).append(place)
        if len(self._places) < 2:
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
        return requests.map(self._answers)

    def _answers(self, requests: tuple[Request, ...]) -> tuple[Answer, ...]:
        rngs = [public_rng(self._seed, "pool", repr(request)) for request in requests]
        asked_by: dict[_Prompt, list[int]] = {}
        for place, (request, rng) in enumerate(zip(requests, rngs, strict=True)):
            asked_by.setdefault(_prompt(request, rng), []).append(place)
        answers = {
            place: Answer(text=self._texts[rngs[place].integers(len(self._texts))])
            for place in asked_by.pop(_NOTHING, [])
        }
        prompts = list(asked_by)
        directions = self._directions(prompts)
        block = max(1, _PAIRS_A_BLOCK // len(self._texts))
        for start in range(0, len(prompts), block):
            cosines = directions[start : start + block] @ self._embeddings.T
            for row, prompt in zip(cosines, prompts[start : start + block], strict=True):
                near = self._near(row, prompt)
                scores = row[near] / np.float32(self._params.temperature)
                for place in asked_by[prompt]:
                    answers[place] = self._draw(near, scores, requests[place], rngs[place])
        return tuple(answers[place] for place in range(len(requests)))

    def _near(self, cosines: NDArray[np.float32], prompt: _Prompt) -> NDArray[np.int64]:
        """Return the sorted indices of all pool texts or, with a parent, of its neighbours."""
        if prompt.parent is None:
            return np.arange(len(cosines))
        copies = self._places.get(prompt.parent, [])
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
        shown = [place for text in set(request.examples) for place in self._places.get(text, ())]
        if shown:
            perturbed[np.isin(near, shown)] = -np.inf
        best = int(np.argmax(perturbed)) if len(near) else -1
        if best < 0 or np.isneginf(perturbed[best]):
            return Answer(text=None, problem=Problem.COPIED_EXAMPLE)
        return Answer(text=self._texts[near[best]])

    def _directions(self, prompts: Sequence[_Prompt]) -> NDArray[np.float32]:
        """Return the mean embedding of each prompt's texts, scaled to length 1: (m, d)."""
        texts = dict.fromkeys(text for prompt in prompts for text in prompt.texts)
        new = [text for text in texts if text not in self._places]
        embedded = dict(zip(new, self._embed(new), strict=True)) if new else {}
        vectors = {
            text: embedded[text] if text in embedded else self._embeddings[self._places[text][0]]
            for text in texts
        }
        means: NDArray[np.float32] = np.zeros(
            (len(prompts), self._embeddings.shape[1]), dtype=np.float32
        )
        for row, prompt in enumerate(prompts):
            means[row] = np.mean([vectors[text] for text in prompt.texts], axis=0)
        lengths = np.linalg.norm(means, axis=1, keepdims=True)
        directions: NDArray[np.float32] = means / np.maximum(lengths, _TINY)
        return directions


def _indexed(texts: Sequence[str], embed: Embed) -> NDArray[np.float32]:
    """Embed the pool (n, d), and show the progress. Cached embeddings take seconds."""
    blocks = []
    with progress(len(texts), what="index of the pool", unit="texts") as advance:
        for start in range(0, len(texts), _EMBEDDED_AT_ONCE):
            block = texts[start : start + _EMBEDDED_AT_ONCE]
            blocks.append(embed(block))
            advance(len(block))
    return np.concatenate(blocks)


def _prompt(request: Request, rng: Rng) -> _Prompt:
    if isinstance(request, VariationRequest):
        return _Prompt(texts=(request.parent,), parent=request.parent)
    if request.examples:
        count = min(_EXAMPLES_A_QUERY, len(request.examples))
        chosen = rng.choice(len(request.examples), size=count, replace=False)
        return _Prompt(texts=tuple(request.examples[i] for i in sorted(chosen)))
    if request.attributes:
        values = (f"{name.replace('_', ' ')}: {value}" for name, value in request.attributes)
        return _Prompt(texts=(", ".join(values),))
    return _NOTHING
