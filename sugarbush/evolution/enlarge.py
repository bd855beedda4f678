"""Stage `enlarge` requests further texts after the last round, and chooses the release.

The stage is post-processing of released values, so it costs no budget. A text that repeats an
earlier text is dropped, and another text is requested.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from sugarbush.evolution.herding import herd
from sugarbush.evolution.initialisation import first_population
from sugarbush.evolution.population import Population
from sugarbush.evolution.targets import Donated, Targets
from sugarbush.evolution.writer import Writer
from sugarbush.generators.answer_checks import word_runs
from sugarbush.generators.interface import Answer, Request, Usage, usage_of
from sugarbush.privacy.data_types import Released, merge_ids
from sugarbush.randomness import public_rng

BATCH = 1000  # number of requests that get their table rows and examples together
_SENT_AT_ONCE = 10 * BATCH  # maximum number of requests in a call of the generator
_REQUESTS_PER_TEXT = 2  # maximum number of requests for each further text
# A text repeats an earlier text that has a larger fraction of its runs of words.
_REPEATED_SHARE = 0.5
_NEWEST_WITH_A_RUN = 19
_WIDTH = 1.0  # kernel width of the regression; 0.2 was worse (docs/decisions/mosaic.md)
# Sums of scores may be smoother than the kernel supposes (docs/decisions/mosaic.md).
_FACTORS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
_MOST_ANCHORS = 2000
_HERDED_AT_ONCE = 4000

Requests = Released[tuple[Targets, tuple[Request, ...]]]


class DifferentTexts:
    """A set of texts that do not repeat each other.

    A text repeats an earlier text if both have the same runs of eight words in a row, or if one
    earlier text has more than half of its runs. A longer text may contain an earlier short text,
    such as a greeting. For each run, only the first text and the 19 newest texts with it are
    compared. So a phrase of many texts takes little time.
    """

    def __init__(self) -> None:
        self._all_runs: set[int] = set()  # digests of all runs of a text
        self._count = 0
        self._first: dict[int, int] = {}  # digest of a run -> number of the first text with it
        self._newest: dict[int, deque[int]] = {}  # digest of a run -> numbers of other texts

    def add(self, text: str) -> bool:
        """Add a text, unless it repeats an earlier text. Return whether the text was added."""
        words = {" ".join(run) for run in word_runs(text)} or {text}
        runs = frozenset(crc32(run.encode("utf-8", "replace")) for run in words)
        shared = Counter(self._first[run] for run in runs if run in self._first)
        shared.update(chain.from_iterable(self._newest.get(run, ()) for run in runs))
        most = max(shared.values(), default=0)
        if hash(runs) in self._all_runs or most > _REPEATED_SHARE * len(runs):
            return False
        number = self._count
        for run in runs:
            if self._first.setdefault(run, number) != number:
                self._newest.setdefault(run, deque(maxlen=_NEWEST_WITH_A_RUN)).append(number)
        self._all_runs.add(hash(runs))
        self._count += 1
        return True


def without_repeats(population: Population) -> Population:
    """Return the candidates that do not repeat an earlier candidate."""
    return population.take(np.array(without_repeated_texts(population.texts), dtype=int))


def without_repeated_texts(texts: Sequence[str]) -> list[int]:
    """Return the indices of the texts that do not repeat an earlier text."""
    different = DifferentTexts()
    return [i for i, text in enumerate(texts) if different.add(text)]


@dataclass(frozen=True, kw_only=True)
class Further:
    """Further texts, with cost and ledger ids of their requests."""

    population: Population
    usage: Usage
    ledger_ids: tuple[str, ...]


def write_further(
    count: int,
    batches: Callable[[int], Requests],
    *,
    unlike: Sequence[str],
    writer: Writer,
    what: str,
    donated: Donated | None = None,
) -> Further:
    """Request `count` texts that repeat no text of `unlike` and no other new text.

    `batches(i)` returns the targets and requests with the numbers i * BATCH to (i + 1) * BATCH - 1.
    `donated` are the examples of the requests. If they do not depend on `count`, a larger
    release uses the cached answers of a smaller release. At most 2 * `count` requests are sent, so
    the result may have fewer than `count` texts. Raises GeneratorError if too many answers are
    unusable.
    """
    different = DifferentTexts()
    for text in unlike:
        different.add(text)
    asked: list[Requests] = []
    sent: list[Request] = []
    answers: list[Answer] = []
    kept: list[int] = []
    most = _REQUESTS_PER_TEXT * count
    while len(kept) < count and len(answers) < most:
        start = len(answers)
        size = _SENT_AT_ONCE if start else BATCH  # the first part shows whether answers are usable
        end = start + min(count - len(kept), most - start, size)
        while len(sent) < end:
            asked.append(batches(len(asked)))
            sent += asked[-1].value[1]
        requests = Released(tuple(sent[start:end]), merge_ids(*asked))
        answers += writer.generator.generate(requests, what=what).value
        if end > 1:  # a single answer says nothing about the generator
            writer.require_usable(answers, requested=end, what=what)
        new = ((i, answers[i].text) for i in range(start, end))
        kept += [i for i, text in new if text is not None and different.add(text)]
    usage, made_of = usage_of(answers), merge_ids(*asked)
    if repeated := sum(answer.text is not None for answer in answers) - len(kept):
        usage = replace(usage, problems={**usage.problems, "duplicate": repeated})
    targets = Targets(
        codes=np.concatenate([batch.value[0].codes for batch in asked])[kept],
        labels=np.concatenate([batch.value[0].labels for batch in asked])[kept],
        values=np.concatenate([batch.value[0].values for batch in asked])[kept],
    )
    return Further(
        population=first_population(
            targets,
            [answers[i] for i in kept],
            requests=[sent[i] for i in kept],
            donated=donated,
        ),
        usage=usage,
        ledger_ids=made_of,
    )


def predicted_scores(
    embeddings: NDArray[np.float32],
    anchors: NDArray[np.float32],
    noisy: NDArray[np.int64],
    *,
    stddev: float,
    scored: NDArray[np.bool_] | None = None,
) -> NDArray[np.float64]:
    """Predict the kernel score of every text, (n,), from the released `noisy` scores (m,).

    The function computes a kernel ridge regression, or a Gaussian process with prior mean 0. With
    another mean, a text unlike every scored text would get an average score. The ridge is the
    variance of the noise divided by the variance of the signal. The variance of the signal is the
    variance of the scores minus the variance of the noise, and at least the standard error that
    this value has without a signal. `stddev` is the noise of a score, in the unit of scores.
    `embeddings` (n, d) contains unit vectors of all texts, and `anchors` (m, d) of scored texts. At
    most 2,000 anchors are used. `scored` (n,) says which texts are anchors, by default none. Their
    scores are smoothed with up to 32 times the ridge, which Stein's estimate of their error
    chooses. Far from the anchors, such a ridge would give average scores. So scores are not
    smoothed if only some scored texts are anchors. Guarantee: post-processing.
    """
    if len(anchors) > _MOST_ANCHORS:
        chosen = public_rng(0, "anchors").choice(len(anchors), size=_MOST_ANCHORS, replace=False)
        anchors, noisy, scored = anchors[chosen], noisy[chosen], None
    scores = noisy.astype(np.float64)
    least = stddev**2 * np.sqrt(2 / len(scores))
    signal = max(float(scores.var()) - stddev**2, least, 1.0)
    ridge = max(stddev**2 / signal, 1e-6)
    gram = _kernel(anchors, anchors)
    is_scored = np.zeros(len(embeddings), dtype=bool) if scored is None else scored
    predicted = np.empty(len(embeddings))
    for rows, factors in ((~is_scored, _FACTORS[:1]), (is_scored, _FACTORS)):
        indices = np.flatnonzero(rows)
        if not len(indices):
            continue
        weights = _weights(gram, scores, [factor * ridge for factor in factors], stddev=stddev)
        for start in range(0, len(indices), BATCH):
            block = indices[start : start + BATCH]
            predicted[block] = _kernel(embeddings[block], anchors) @ weights
    return predicted


def _weights(
    gram: NDArray[np.float64],
    scores: NDArray[np.float64],
    ridges: Sequence[float],
    *,
    stddev: float,
) -> NDArray[np.float64]:
    """Return the weights (m,) of the regression, with the ridge that smooths `scores` (m,) best.

    With a ridge r, the squared error of the smoothed scores is |scores - smoothed|^2 + 2 stddev^2
    tr K(K + r)^-1 in expectation, up to a constant. Source: Stein 1981, "Estimation of the Mean of
    a Multivariate Normal Distribution". `ridges` increase, and the search ends at the first larger
    error.
    """
    best, weights = np.inf, scores
    for ridge in ridges:
        inverse = np.linalg.inv(gram + ridge * np.eye(len(gram)))
        found = inverse @ scores
        traced = len(gram) - ridge * float(np.trace(inverse))
        error = ridge**2 * float(found @ found) + 2 * stddev**2 * traced
        if error >= best:
            break
        best, weights = error, found
    return weights


def choose_by_scores(
    scores: NDArray[np.float64], embeddings: NDArray[np.float32], *, width: float, count: int
) -> NDArray[np.int64]:
    """Choose `count` texts by kernel herding, so that their density follows `scores`.

    Returns indices. Kernel herding takes quadratic time, so it runs in blocks of about 4,000 texts.
    Each block gives the same fraction of `count`.
    """
    blocks = max(1, round(len(scores) / _HERDED_AT_ONCE))
    chosen = []
    for block in range(blocks):
        indices = np.arange(block, len(scores), blocks)
        quota = count * (block + 1) // blocks - count * block // blocks
        target = np.maximum(scores[indices], 0.0)
        chosen.append(
            indices[herd(target, embeddings[indices], width=width, count=min(quota, len(indices)))]
        )
    return np.concatenate(chosen)


def _kernel(a: NDArray[np.float32], b: NDArray[np.float32]) -> NDArray[np.float64]:
    return np.asarray(np.exp((a.astype(np.float64) @ b.T.astype(np.float64) - 1.0) / _WIDTH))
