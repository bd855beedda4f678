"""Texts written after the last round, and the choice of the release among all texts.

Everything here is post-processing of what was released: it reads no record and spends nothing. A
text that repeats an earlier one is dropped, and another one is requested.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from sugarbush.evolution.evolve import Writer
from sugarbush.evolution.herding import herd
from sugarbush.evolution.initialisation import Targets, first_population
from sugarbush.evolution.population import Population
from sugarbush.generators.answer_checks import word_runs
from sugarbush.generators.interface import Answer, Request, Usage, usage_of
from sugarbush.privacy.data_types import Released, merge_ids
from sugarbush.randomness import public_rng

RATIO = 2  # texts for each released one, where kernel scores choose among them
BATCH = 1000  # requests whose rows and examples are chosen together
_REQUESTS_PER_TEXT = 2  # at most, before a release stays smaller than it was asked for
_REPEATED_SHARE = 0.5  # of a text's runs of eight words: more in common with one text repeats it
_WIDTH = 1.0  # of the regression, in cosine distance; 0.2 was worse (docs/decisions/mosaic.md)
_MOST_ANCHORS = 2000
_HERDED_AT_ONCE = 4000

Requests = Released[tuple[Targets, tuple[Request, ...]]]


class DifferentTexts:
    """Texts of which none repeats another: no equal words, no half of the runs of eight words."""

    def __init__(self) -> None:
        self._sizes: list[int] = []
        self._first: dict[int, int] = {}  # a run's digest, and the text where it occurred first

    def add(self, text: str) -> bool:
        """Whether `text` repeats no earlier one. Only then it is one of the texts."""
        runs = {crc32(" ".join(run).encode("utf-8", "replace")) for run in word_runs(text)}
        shared = Counter(self._first[run] for run in runs if run in self._first)
        for place, count in shared.most_common(1):
            if count > _REPEATED_SHARE * min(len(runs), self._sizes[place]):
                return False
        for run in runs:
            self._first.setdefault(run, len(self._sizes))
        self._sizes.append(len(runs))
        return True


def without_repeats(population: Population) -> Population:
    """The candidates that repeat no earlier one."""
    different = DifferentTexts()
    return population.take(
        np.array([i for i, text in enumerate(population.texts) if different.add(text)], dtype=int)
    )


@dataclass(frozen=True, kw_only=True)
class Further:
    """Texts of first-stage requests, the examples in their prompts, what they cost, and the ids of
    the ledger entries of all their requests."""

    population: Population
    examples: tuple[tuple[str, ...], ...]
    usage: Usage
    ledger_ids: tuple[str, ...]


def write_further(
    count: int,
    batches: Callable[[int], Requests],
    *,
    unlike: Sequence[str],
    writer: Writer,
    what: str,
) -> Further:
    """`count` texts that differ from each other and from `unlike`, or fewer.

    `batches(i)` are the targets and requests number i * BATCH to (i + 1) * BATCH - 1. They do not
    depend on `count`, so a larger release asks for the same texts first, which are cached. Twice as
    many requests as texts are sent at most. Raises GeneratorError when too many answers are
    unusable.
    """
    different = DifferentTexts()
    for text in unlike:
        different.add(text)
    asked: list[tuple[Targets, tuple[Request, ...]]] = []
    answers: list[Answer] = []
    kept: list[int] = []
    most = _REQUESTS_PER_TEXT * count
    while len(kept) < count and len(answers) < most:
        number, start = divmod(len(answers), BATCH)
        wanted = min(count - len(kept), most - len(answers), BATCH - start)
        batch = batches(number)
        asked += [batch.value] * (number == len(asked))
        requests = Released(batch.value[1][start : start + wanted], batch.ledger_ids)
        answers += writer.generator.generate(requests, what=what).value
        end = number * BATCH + start + wanted
        writer.require_usable(answers, requested=end, what=what)
        new = ((i, answers[i].text) for i in range(end - wanted, end))
        kept += [i for i, text in new if text is not None and different.add(text)]
    usage, made_of = usage_of(answers), merge_ids(*map(batches, range(len(asked))))
    if repeated := sum(answer.text is not None for answer in answers) - len(kept):
        usage = replace(usage, problems={**usage.problems, "duplicate": repeated})
    targets = Targets(
        codes=np.concatenate([own.codes for own, _ in asked])[kept],
        labels=np.concatenate([own.labels for own, _ in asked])[kept],
    )
    sent = [request for _, requests in asked for request in requests]
    return Further(
        population=first_population(targets, tuple(answers[i] for i in kept)),
        examples=tuple(sent[i].examples for i in kept),
        usage=usage,
        ledger_ids=made_of,
    )


def predicted_scores(
    embeddings: NDArray[np.float32],
    anchors: NDArray[np.float32],
    noisy: NDArray[np.int64],
    *,
    stddev: float,
) -> NDArray[np.float64]:
    """The kernel score of every text, (n,), from noisy scores (m,) that were released at `anchors`.

    Kernel ridge regression, that is, the mean of a Gaussian process whose mean is 0 far from every
    anchor. With another mean, outliers would get average scores. The ridge is the variance of the
    noise over that of the signal. `stddev` is the noise of a score, in its unit. `embeddings` (n,
    d) and `anchors` (m, d) are unit vectors. At most 2,000 anchors are used. Guarantee:
    post-processing.
    """
    if len(anchors) > _MOST_ANCHORS:
        chosen = public_rng(0, "anchors").choice(len(anchors), size=_MOST_ANCHORS, replace=False)
        anchors, noisy = anchors[chosen], noisy[chosen]
    scores = noisy.astype(np.float64)
    signal = max(float((scores**2).mean()) - stddev**2, stddev**2, 1.0)
    ridge = max(stddev**2 / signal, 1e-6)
    gram = _kernel(anchors, anchors) + np.eye(len(anchors)) * ridge
    weights = np.linalg.solve(gram, scores)
    blocks = [embeddings[i : i + BATCH] for i in range(0, len(embeddings), BATCH)]
    return np.concatenate([_kernel(block, anchors) @ weights for block in blocks])


def choose_by_scores(
    scores: NDArray[np.float64], embeddings: NDArray[np.float32], *, width: float, count: int
) -> NDArray[np.int64]:
    """Indices of `count` texts whose density follows `scores`, by kernel herding.

    Many texts are divided into blocks of about 4,000, each with its part of `count`: so the time
    grows with the number of texts, not with its square.
    """
    blocks = max(1, round(len(scores) / _HERDED_AT_ONCE))
    found = []
    for place in range(blocks):
        own = np.arange(place, len(scores), blocks)
        part = count * (place + 1) // blocks - count * place // blocks
        target = np.maximum(scores[own], 0.0)
        found.append(own[herd(target, embeddings[own], width=width, count=min(part, len(own)))])
    return np.concatenate(found)


def _kernel(a: NDArray[np.float32], b: NDArray[np.float32]) -> NDArray[np.float64]:
    return np.asarray(np.exp((a.astype(np.float64) @ b.T.astype(np.float64) - 1.0) / _WIDTH))
