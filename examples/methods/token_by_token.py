"""Writes texts token by token. Each token is drawn from noisy votes of the records.

The toy model is a table of bigrams: after a token, a record votes for the next token that is
commonest in its own text. A record without the token votes for the end. All records vote for every
token of every text. One ledger entry pays for all histograms, before the first of them.

The vocabulary is public. A token is drawn in proportion to its noisy votes, with public random
numbers. A text ends if no word has more votes than noise alone could give.

Guarantee: `texts * words` noisy histograms of sensitivity `records_per_unit`, as one charge. The
histogram of a token depends on earlier tokens, which are released: adaptive composition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

import sugarbush as sb
from sugarbush import extend
from sugarbush.privacy import DiscreteGaussian

START = ""  # before the first word; as a next word, it ends a text
_VOTES = "votes:token_by_token"


class TokenByToken(extend.OneStageMethod):
    """Writes texts of a public vocabulary, each word by noisy votes of the records.

    >>> [request.count for request in TokenByToken(count=100, words=8).budget_requests()]
    [800]
    """

    name: ClassVar[str] = "token_by_token"

    vocabulary: tuple[str, ...] = ("the", "a", "is", "and")
    """Public words that a text may have."""
    count: extend.AtLeastOne = 20
    """Number of texts. The release has this number of texts."""
    words: extend.AtLeastOne = 8
    """Maximum number of words of a text."""

    @property
    def facts(self) -> extend.MethodFacts:
        settings = self.model_dump(mode="json")
        return extend.MethodFacts(reads_codes=False, card_settings=settings)

    def budget_requests(self) -> tuple[extend.BudgetRequest, ...]:
        setting = f"methods.{self.name}.count={self.count}"
        count = self.count * self.words
        return (extend.BudgetRequest(name=_VOTES, count=count, setting=setting),)

    def check(self, context: extend.MethodContext) -> None:
        if not self.vocabulary:
            raise ValueError(f"methods.{self.name}.vocabulary: name at least one word")

    def evolve(
        self,
        inputs: extend.MethodInputs,
        first: sb.Released[extend.Population] | None,
        *,
        forced: bool,
    ) -> extend.FinalSet:
        private, public = inputs.private, inputs.public
        noise = private.budget.of(_VOTES)
        key = {
            "version": 1,
            **private.cache_key(),
            "settings": self.output_settings(),
            "seed": public.seed,
            "privacy": public.privacy.promise,
            "stddev": noise.stddev,
        }
        texts = private.corpus.records().map_batch(lambda records: records.texts)
        with private.open_store("evolve-token_by_token", key, forced=forced) as store:

            def draw() -> sb.Released[NDArray[np.int64]]:
                return token_by_token(
                    texts,
                    self.vocabulary,
                    texts=self.count,
                    words=self.words,
                    stddev=noise.stddev,
                    session=private.session(stage="evolve@token_by_token", run=store.run),
                    seed=public.seed,
                )

            tokens = store.array("tokens", draw)
        written = spelled(tokens.value, self.vocabulary)
        codes = np.full((len(written), len(public.schema.names)), -1)
        lineage = extend.Lineage(
            final=extend.Population.first(written, codes=codes),
            usage=extend.Usage(),
            ledger_ids=tokens.ledger_ids,
        )
        return extend.FinalSet(lineage=lineage, run=store.run)


def token_by_token(
    records: sb.Private[str],
    vocabulary: Sequence[str],
    *,
    texts: int,
    words: int,
    stddev: float,
    session: sb.PrivacySession,
    seed: int = 1,
) -> sb.Released[NDArray[np.int64]]:
    """Return the words of `texts` texts, `(texts, words)`: indices in `START, *vocabulary`.

    Raises BudgetExceededError before the first draw. After a crash, a new run charges all draws.
    """
    names = [START, *vocabulary]
    event = DiscreteGaussian(
        stddev=stddev, sensitivity=session.records_per_unit, count=texts * words
    )
    draws = session.planned(event)
    tables = records.map_batch(lambda batch: [_bigrams(text, names) for text in batch])
    tokens = np.zeros((texts, words), dtype=np.int64)
    ids: list[str] = []
    for number in range(texts):
        for position in range(words):
            last = names[tokens[number, position - 1]] if position else START
            votes = extend.noisy_histogram(
                tables.map_batch(partial(_next_of, last)),
                size=len(names),
                stddev=stddev,
                session=draws,
            )
            ids.extend(votes.ledger_ids)
            uniforms = extend.public_rng(seed, "token by token", number, position).random(
                len(names)
            )
            tokens[number, position] = _drawn(_likely(votes.value, stddev), uniforms)
            if not tokens[number, position]:
                break
    return sb.Released(tokens, tuple(dict.fromkeys(ids)))


def spelled(tokens: NDArray[np.int64], vocabulary: Sequence[str]) -> tuple[str, ...]:
    """Return the texts of rows of words. A text ends before its first 0."""
    names = [START, *vocabulary]
    return tuple(" ".join(names[i] for i in row).strip() for row in tokens.tolist())


def _next_of(word: str, tables: Sequence[dict[str, int]]) -> list[int]:
    return [table.get(word, 0) for table in tables]


def _bigrams(text: str, names: Sequence[str]) -> dict[str, int]:
    """Return the commonest next word of each word, as its index. The text alone decides."""
    known = {name: index for index, name in enumerate(names)}
    tokens = [START, *(word for word in text.lower().split() if word in known), START]
    pairs = Counter(pairwise(tokens))
    chosen: dict[str, int] = {}
    for (word, following), _ in sorted(pairs.items(), key=lambda pair: (-pair[1], pair[0])):
        chosen.setdefault(word, known[following])
    return chosen


def _likely(votes: NDArray[np.int64], stddev: float) -> NDArray[np.int64]:
    """Set votes to 0 that may be noise alone: those below two standard deviations."""
    return np.where(votes > 2 * stddev, votes, 0)


def _drawn(votes: NDArray[np.int64], uniforms: NDArray[np.float64]) -> int:
    """Draw an index in proportion to the votes (the Gumbel-max trick). Without votes, return 0."""
    with np.errstate(divide="ignore"):
        scores = np.log(np.maximum(votes, 0)) - np.log(-np.log(uniforms))
    return int(np.argmax(scores))
