"""Runs each mechanism on invented records, and computes an attacker's scores.

A coin decides for each canary whether the mechanism sees the canary. Each function runs the code of
one mechanism and returns a score for every canary. With a higher score, a canary was more likely
included. The attacker knows everything except the coins and the noise. No corpus is read. Each run
charges a new ledger in a temporary folder.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sugarbush.audits.dpsgd_run import train_on_canaries
from sugarbush.evaluation.first_look import CENTRE, KINDS, look_requests
from sugarbush.evaluation.fit import CELLS, UNIT, NearTexts, steps_of
from sugarbush.evolution.kernel_scores import RESOLUTION, scores_of
from sugarbush.evolution.parts import Candidates, Records
from sugarbush.evolution.scorers import KernelScorer
from sugarbush.privacy.accounting import epsilon as epsilon_of
from sugarbush.privacy.accounting import gaussian_mu, slack_fraction
from sugarbush.privacy.budget import BudgetAllocation, BudgetRequest, make_plan, mu_of
from sugarbush.privacy.data_types import Private
from sugarbush.privacy.events import Event, GaussianDp, ThresholdedGaussian
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.mechanisms import (
    exact_histogram,
    noisy_counts,
    noisy_histogram,
    noisy_set,
    noisy_sum,
    set_threshold,
)
from sugarbush.privacy.session import PrivacySession
from sugarbush.privacy.settings import Purpose
from sugarbush.privacy.unit import Unit
from sugarbush.randomness import public_rng
from sugarbush.tables.marginal_measurer import MarginalMeasurer

_MEASUREMENTS = 2
_STEPS = 2
_CANDIDATES = 500  # per round of kernel scores; more canaries need more rounds
_DIMENSIONS = 384
_WIDTH = 0.2
# A fifth of the length of a row in `steps_of` is the number of records, which tells nothing about a
# canary. So the counts get more of mu^2 than in a release.
_SHARES_OF_LOOK = {CENTRE: 0.2, KINDS: 0.8}

Coins = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class CanaryScores:
    """The attacker's scores, `(m,)` or `(attacks, m)`, and the ledger's bounds on epsilon and
    mu."""

    scores: NDArray[np.float64]
    epsilon: float
    mu: float


CanaryRun = Callable[..., CanaryScores]


def audit_votes(included: Coins, *, epsilon: float, delta: float) -> CanaryScores:
    """Audit a noisy histogram. Canary i votes for candidate i. The score of canary i is the noisy
    count of candidate i."""
    votes: Private[int] = Private(np.flatnonzero(included))
    size = len(included)
    with temporary_session(delta) as session:
        if math.isinf(epsilon):
            counts = exact_histogram(votes, size=size, session=session)
        else:
            stddev = _allocation(epsilon, delta, count=1).stddev
            counts = noisy_histogram(votes, size=size, stddev=stddev, session=session)
        return _observed(counts.value.astype(np.float64), _charged(session), delta)


def audit_values(included: Coins, *, epsilon: float, delta: float) -> CanaryScores:
    """Audit a noisy set. Canary i has its own value. Enough known records also have this value, so
    that it is nearly always released. The score of canary i is the noisy count of its value, or 0
    if the value was not released. `epsilon` must be finite.
    """
    own = delta * slack_fraction(1)
    stddev = _allocation(epsilon, delta - own, count=1).stddev
    known = set_threshold(stddev=stddev, delta=own, items_per_record=1) + math.ceil(5 * stddev)
    names = [f"value {number}" for number in range(len(included))]
    rows = [(name,) for name in names for _ in range(known)]
    rows += [(names[number],) for number in np.flatnonzero(included)]
    with temporary_session(delta) as session:
        released = noisy_set(
            Private(rows), items_per_record=1, stddev=stddev, delta=own, session=session
        )
        (event,) = _charged(session)
        assert isinstance(event, ThresholdedGaussian)
        scores = np.array([float(released.value.get(name, 0)) for name in names])
        return CanaryScores(
            scores=scores,
            epsilon=epsilon_of_events((event,), delta),
            mu=gaussian_mu([event.counts]),
        )


def audit_kernel_scores(included: Coins, *, epsilon: float, delta: float) -> CanaryScores:
    """Audit noisy kernel scores. Canary i has the embedding of candidate i. The score of canary i
    is the product of the noisy sum and the canary's row of kernel scores. Each canary is in one
    round. Each round has 500 candidates and its own ledger."""
    stddev = None
    if not math.isinf(epsilon):
        stddev = _allocation(epsilon, delta, count=1, record_l2_sensitivity=RESOLUTION).stddev
    scores: list[NDArray[np.float64]] = []
    events: set[Event] = set()
    for start in range(0, len(included), _CANDIDATES):
        with temporary_session(delta) as session:
            scores.append(_one_round(included[start : start + _CANDIDATES], stddev, session))
            events.update(_charged(session))
    (event,) = events  # all rounds charge the same event
    return _observed(np.concatenate(scores), [event], delta)


def _one_round(
    included: Coins, stddev: float | None, session: PrivacySession
) -> NDArray[np.float64]:
    candidates, rows = _candidates(len(included))
    records = Private[Records](Records.without_codes(candidates[included]))
    public = Records.without_codes(candidates)
    sums = KernelScorer(width=_WIDTH).total(
        records,
        Candidates(public.embeddings, public.codes, public.labels),
        stddev=stddev,
        session=session,
    )
    products = rows @ sums.value.astype(np.float64) / RESOLUTION**2
    # Scores between different candidates are about equal, so they add about the same amount to all
    # canaries of a round. This amount differs between rounds, so the mean is subtracted.
    return np.asarray(products - products.mean())


@lru_cache(maxsize=2)
def _candidates(count: int) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Return random unit vectors (count, d) and their kernel scores (count, count). Row i contains
    the scores of a record with vector i as its embedding."""
    vectors = public_rng(1, "candidates of the audit").standard_normal((count, _DIMENSIONS))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    candidates = np.asarray(vectors, dtype=np.float32)
    return candidates, scores_of(candidates, candidates, width=_WIDTH).astype(np.float64)


def audit_look(included: Coins, *, epsilon: float, delta: float) -> CanaryScores:
    """Audit the looks: the sum of the embeddings, and the counts of near records by value.

    The embedding of canary i equals that of text i, and is orthogonal to all other embeddings. Only
    canary i has value i of an attribute. The score of canary i is the product of the noisy sum and
    its own row, plus the noisy count of near records with value i. The weights are inverse
    variances. Each canary is in one round, as in `audit_kernel_scores`. `epsilon` must be finite.
    """
    requests = [
        replace(request, share=_SHARES_OF_LOOK[request.name], pool="synthesis")
        for request in look_requests({CENTRE: 1, KINDS: 1})
    ]
    plan = make_plan(requests, epsilon=epsilon, delta=delta)
    weight = (plan.of(KINDS).stddev / (plan.of(CENTRE).stddev / UNIT)) ** 2  # inverse variances
    scores: list[NDArray[np.float64]] = []
    charges: set[tuple[Event, ...]] = set()
    for start in range(0, len(included), _CANDIDATES):
        coins = included[start : start + _CANDIDATES]
        embeddings, cells = _looked_at(len(coins))
        with temporary_session(delta) as session:
            sums = noisy_sum(
                Private(embeddings[coins]),
                scores=lambda rows: [steps_of(np.asarray(rows))],
                size=len(coins) + 1,
                record_l2_sensitivity=UNIT,
                stddev=plan.of(CENTRE).stddev,
                session=session,
            )
            counts = noisy_counts(
                Private(cells[coins]),
                size=CELLS * len(coins),
                cells_per_record=1,
                stddev=plan.of(KINDS).stddev,
                session=session,
            )
            charges.add(tuple(_charged(session)))
        products = steps_of(embeddings) @ sums.value.astype(np.float64) / UNIT**2
        # All canaries of a round share the number of records in the sum.
        scores.append(weight * (products - products.mean()) + counts.value[1::CELLS])
    (events,) = charges  # all rounds charge the same events
    return _observed(np.concatenate(scores), events, delta)


@lru_cache(maxsize=2)
def _looked_at(count: int) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Return the embeddings (count, count) of a look's canaries, and their cells (count, 1)."""
    embeddings = np.eye(count, dtype=np.float32)
    near = NearTexts(embeddings=embeddings)
    codes = np.arange(count).reshape(-1, 1)
    return embeddings, near.cells_by_value(near.cells(embeddings), codes, [count])


def audit_table(included: Coins, *, epsilon: float, delta: float) -> CanaryScores:
    """Audit AIM's measurer. Canary i is alone in cell i of a two-way marginal. AIM's measurer
    measures this marginal twice. The score of canary i is the sum of both noisy counts. `epsilon`
    must be finite, because AIM cannot run without noise."""
    side = math.ceil(math.sqrt(len(included)))
    rows = np.stack(np.divmod(np.flatnonzero(included), side), axis=1)
    mu = _allocation(epsilon, delta, count=0).mu
    with temporary_session(delta) as session:
        session.charge(GaussianDp(mu=mu))
        measurer = MarginalMeasurer(Private(rows), {"row": side, "column": side}, mu=mu)
        each = mu / math.sqrt(_MEASUREMENTS) * (1 - 1e-12)
        answers = [
            measurer.measure(("row", "column"), mu=each, round=k) for k in range(_MEASUREMENTS)
        ]
        sums = sum(answer.counts.ravel() for answer in answers)
        scores = np.asarray(sums, dtype=np.float64)[: len(included)]
        return _observed(scores, _charged(session), delta)


def audit_dpsgd(included: Coins, *, epsilon: float, delta: float) -> CanaryScores:
    """Audit DP-SGD. The gradients of the canaries are orthogonal. The score of a canary is the
    product of the noisy gradient sum and the canary's clipped gradient, summed over two steps. The
    sampling rate is 1, so this function does not audit amplification by sampling."""
    infinite = math.isinf(epsilon)
    mu = math.inf if infinite else mu_of(epsilon=epsilon, delta=delta)
    noise_multiplier = 0.0 if infinite else math.sqrt(_STEPS) / mu
    with temporary_session(delta) as session, tempfile.TemporaryDirectory() as folder:
        scores = train_on_canaries(
            included,
            steps=_STEPS,
            noise_multiplier=noise_multiplier,
            session=session,
            folder=Path(folder),
        )
        (event,) = _charged(session)
        return CanaryScores(scores=scores, epsilon=epsilon_of_events((event,), delta), mu=mu)


@contextmanager
def temporary_session(delta: float) -> Iterator[PrivacySession]:
    """Yield a session on a temporary ledger."""
    with tempfile.TemporaryDirectory() as state:
        ledger = Ledger(
            Path(state),
            dataset="audit",
            purpose=Purpose.EXAMPLE,
            unit=Unit.RECORD,
            cap=math.inf,
            delta=delta,
        )
        yield PrivacySession(ledger=ledger, stage="audit", run="audit")


def _allocation(
    epsilon: float, delta: float, *, count: int, record_l2_sensitivity: int = 1
) -> BudgetAllocation:
    request = BudgetRequest(
        name="audit", share=1.0, count=count, record_l2_sensitivity=record_l2_sensitivity
    )
    return make_plan([request], epsilon=epsilon, delta=delta).of("audit")


def _observed(scores: NDArray[np.float64], events: Sequence[Event], delta: float) -> CanaryScores:
    return CanaryScores(
        scores=scores, epsilon=epsilon_of_events(tuple(events), delta), mu=gaussian_mu(events)
    )


@lru_cache(maxsize=16)  # all runs of an audit have the same cost
def epsilon_of_events(events: tuple[Event, ...], delta: float) -> float:
    """Return the epsilon of the composition of `events`."""
    return epsilon_of(events, delta=delta)


def _charged(session: PrivacySession) -> list[Event]:
    return [entry.event for entry in session.ledger.entries()]
