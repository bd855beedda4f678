"""A public corpus as generator: real human text, no model, CPU only.

RANDOM_API draws texts near the prompt in embedding space, VARIATION_API moves from a text to one of
its neighbours. Such a generator can only write what somebody wrote before: where the pool holds
nothing like the private corpus, no method can steer it there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sugarbush.errors import ParamsError
from sugarbush.llm.client import Answer, RandomRequest, Request, VariationRequest
from sugarbush.params import PoolParams
from sugarbush.privacy.kinds import Released
from sugarbush.randomness import Rng, public_rng

Embed = Callable[[Sequence[str]], NDArray[np.float32]]

# As many of the examples in a prompt make its place in embedding space; the mean of all ten lies
# in the middle of the corpus, near no text in particular.
_EXAMPLES_OF_A_QUERY = 3
_BLOCK = 512


class PoolGenerator:
    """Draws from `texts` (n,) with unit `embeddings` (n, dim).

    A request without metadata and examples draws uniformly. One with examples draws by
    exp(cos/temperature) to the mean of three of them, one with metadata alone to a sentence of
    its values, a variation to its parent; each among the `neighbours` nearest. A variation is
    never its parent: neither the same text nor another copy of it. An answer depends on the seed
    and its own request alone, whatever else is asked.
    """

    def __init__(
        self,
        texts: Sequence[str],
        embeddings: NDArray[np.float32],
        *,
        params: PoolParams,
        seed: int,
        embed: Embed,
    ) -> None:
        first = {text: place for place, text in reversed(list(enumerate(texts)))}
        kept = sorted(first.values())
        if len(kept) < 2:
            raise ParamsError("generator.pool.sources: a pool needs at least two different texts")
        self._texts = [texts[place] for place in kept]
        self._embeddings = np.asarray(embeddings[kept], dtype=np.float32)
        self._places = {text: place for place, text in enumerate(self._texts)}
        self._params, self._seed, self._embed = params, seed, embed

    def generate(self, requests: Released[tuple[Request, ...]]) -> Released[tuple[Answer, ...]]:
        """One text of the pool a request, in order."""
        return requests.map(
            lambda wanted: tuple(
                answer
                for start in range(0, len(wanted), _BLOCK)
                for answer in self._block(wanted[start : start + _BLOCK])
            )
        )

    def _block(self, requests: Sequence[Request]) -> list[Answer]:
        rngs = [public_rng(self._seed, "pool", r.sample, r.subject) for r in requests]
        shown = [_query(request, rng) for request, rng in zip(requests, rngs, strict=True)]
        distinct = list(dict.fromkeys(text for texts in shown for text in texts))
        vectors = dict(zip(distinct, self._vectors(distinct), strict=True))
        answers = []
        for request, texts, rng in zip(requests, shown, rngs, strict=True):
            if not texts:
                place = int(rng.integers(len(self._texts)))
            else:
                query = np.mean([vectors[text] for text in texts], axis=0)
                parent = request.parent if isinstance(request, VariationRequest) else None
                place = self._near(query, rng, parent)
            answers.append(Answer(text=self._texts[place]))
        return answers

    def _vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Stored embeddings of what the pool holds, computed ones of the rest."""
        missing = [text for text in texts if text not in self._places]
        computed = dict(zip(missing, self._embed(missing), strict=True)) if missing else {}
        stored = self._embeddings
        rows: list[Any] = [
            stored[self._places[text]] if text in self._places else computed[text]
            for text in texts
        ]
        return np.asarray(rows, dtype=np.float32).reshape(len(texts), stored.shape[1])

    def _near(
        self, query: NDArray[np.float32], rng: Rng, parent: str | None
    ) -> int:
        """A place drawn by exp(cos/temperature) among the nearest that are not the parent."""
        length = float(np.linalg.norm(query))
        cosines = self._embeddings @ (query / length if length > 0 else query)
        if parent is not None and parent in self._places:
            cosines[self._places[parent]] = -np.inf
        count = min(self._params.neighbours, len(cosines) - 1)
        nearest = np.argpartition(-cosines, count - 1)[:count]
        nearest = nearest[np.lexsort((nearest, -cosines[nearest]))]
        weights = np.exp((cosines[nearest] - cosines[nearest[0]]) / self._params.temperature)
        return int(nearest[rng.choice(count, p=weights / weights.sum())])


def _query(request: Request, rng: Rng) -> tuple[str, ...]:
    """The texts whose mean embedding is the request's place; none: it has no place."""
    if isinstance(request, VariationRequest):
        return (request.parent,)
    assert isinstance(request, RandomRequest)
    if request.examples:
        count = min(_EXAMPLES_OF_A_QUERY, len(request.examples))
        chosen = rng.choice(len(request.examples), size=count, replace=False)
        return tuple(request.examples[i] for i in np.sort(chosen))
    if request.attributes:
        values = "; ".join(f"{name}: {value}" for name, value in request.attributes)
        return (f"{request.subject}. {values}",)
    return ()
