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

import numpy as np
from numpy.typing import NDArray

import sugarbush as sb
from sugarbush import extend
from sugarbush.privacy import DiscreteGaussian

START = ""  # before the first word; as a next word, it ends a text


def token_by_token(
    records: sb.Private[str],
    vocabulary: Sequence[str],
    *,
    texts: int,
    words: int,
    stddev: float,
    session: sb.PrivacySession,
    seed: int = 1,
) -> sb.Released[tuple[str, ...]]:
    """Return `texts` texts of at most `words` words of the public `vocabulary`.

    Raises BudgetExceededError before the first draw. After a crash, a new run charges all draws.
    """
    names = [START, *vocabulary]
    event = DiscreteGaussian(
        stddev=stddev, sensitivity=session.records_per_unit, count=texts * words
    )
    draws = session.planned(event)
    tables = records.map_batch(lambda batch: [_bigrams(text, names) for text in batch])
    written: list[str] = []
    ids: list[str] = []
    for number in range(texts):
        text = [START]
        for position in range(words):
            last = text[-1]
            votes = extend.noisy_histogram(
                tables.map_batch(partial(_next_of, last)),
                size=len(names),
                stddev=stddev,
                session=draws,
            )
            ids.extend(votes.ledger_ids)
            rng = extend.public_rng(seed, "token by token", number, position)
            text.append(names[_drawn(_likely(votes.value, stddev), rng.random(len(names)))])
            if text[-1] == START:
                break
        written.append(" ".join(text[1:]).strip())
    return sb.Released(tuple(written), tuple(dict.fromkeys(ids)))


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
