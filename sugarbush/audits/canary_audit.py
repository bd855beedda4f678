"""Audits a mechanism or a method with canaries, and computes lower bounds on epsilon.

As controls, the audit also attacks copies of the mechanisms with deliberately wrong noise. An audit
can find a violation, but cannot show that a mechanism has no violation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sugarbush.audits.mechanism_runs import (
    CanaryRun,
    CanaryScores,
    Coins,
    audit_dpsgd,
    audit_kernel_scores,
    audit_look,
    audit_table,
    audit_values,
    audit_votes,
)
from sugarbush.audits.noise_faults import Fault, broken_noise
from sugarbush.audits.one_run import (
    Outcome,
    epsilon_lower_bound,
    guess_extremes,
    mu_lower_bound,
    outcome_of,
)
from sugarbush.audits.repeated_runs import mu_lower_bound_of_runs
from sugarbush.privacy.accounting import gaussian_epsilon
from sugarbush.randomness import public_rng

MECHANISMS: Mapping[str, CanaryRun] = {
    "table": audit_table,
    "values": audit_values,
    "look": audit_look,
    "votes": audit_votes,
    "kernel scores": audit_kernel_scores,
    "dp-sgd": audit_dpsgd,
}
DELTA = 1e-6
CONFIDENCE = 0.95
WITHOUT_INFINITY = frozenset({"table", "values", "look"})  # they cannot run without noise


@dataclass(frozen=True, kw_only=True)
class Size:
    """The size of an audit (Steinke et al. 2023, Theorem 5.2): the number of runs, the number of
    canaries per run, and the total number of guesses."""

    canaries: int
    guesses: int
    runs: int = 1


RUNS = 150
CANARIES = 1000
_ONE_RUN = Size(canaries=4000, guesses=1000)


def size_for(fault: Fault | None, *, epsilon: float, runs: int = RUNS) -> Size:
    """Return the size of an audit: one run for a large fault, otherwise `runs` runs. The correct
    mechanism and the control with the smallest fault get the same size. So this control measures
    the power of the audit."""
    if math.isinf(epsilon) or fault not in {None, Fault.ROOT_TWO}:
        return _ONE_RUN
    return Size(canaries=CANARIES, guesses=max(2, runs * CANARIES // 50), runs=runs)


@dataclass(frozen=True, kw_only=True)
class AuditFinding:
    """The result of one audit. All values of epsilon are at `delta`.

    `claimed_epsilon` and `claimed_mu` are upper bounds from the ledger. `lower_epsilon` is a lower
    bound for any mechanism. `lower_mu` is a lower bound for mechanisms with Gaussian DP. With
    probability `confidence`, both lower bounds are true.
    """

    mechanism: str
    fault: Fault | None
    claimed_epsilon: float
    claimed_mu: float
    outcome: Outcome
    lower_epsilon: float
    lower_mu: float
    delta: float
    confidence: float

    @property
    def violation(self) -> bool:
        return self.lower_epsilon > self.claimed_epsilon or self.lower_mu > self.claimed_mu

    @property
    def lower_gaussian_epsilon(self) -> float:
        """The epsilon of a Gaussian mechanism with mu = `lower_mu`."""
        return gaussian_epsilon(self.lower_mu, delta=self.delta) if self.lower_mu else 0.0


def audit(
    mechanism: str,
    *,
    epsilon: float,
    size: Size,
    fault: Fault | None = None,
    delta: float = DELTA,
    confidence: float = CONFIDENCE,
    seed: int = 0,
    run: CanaryRun | None = None,
) -> AuditFinding:
    """Audit one of MECHANISMS, or `run`, at `epsilon`. With `fault`, audit its faulty copy.

    Guarantee: if the mechanism has the privacy that the ledger claims, the audit reports a
    violation with probability at most 1 - `confidence`. `seed` determines the coin flips that
    include or exclude canaries. The seed may be public, but the attacker does not use it.
    """
    rng = public_rng(seed, "coins", mechanism)
    coins = [rng.random(size.canaries) < 0.5 for _ in range(size.runs)]
    observed = [_observe(run or MECHANISMS[mechanism], c, epsilon, delta, fault) for c in coins]
    attacks = np.concatenate([np.atleast_2d(one.scores) for one in observed], axis=1)
    outcomes = [
        outcome_of(guess_extremes(scores, guesses=size.guesses), np.concatenate(coins))
        for scores in attacks
    ]
    # Each attack has two tests, and all tests share the error probability 1 - `confidence`. Later
    # attacks find only large faults. So each attack gets a tenth of the error probability of the
    # attack before it.
    shares = 0.1 ** np.arange(len(attacks))
    confidences = (1 - (1 - confidence) * shares / shares.sum() / 2).tolist()
    return AuditFinding(
        mechanism=mechanism,
        fault=fault,
        claimed_epsilon=max(one.epsilon for one in observed),
        claimed_mu=max(one.mu for one in observed),
        outcome=max(outcomes, key=lambda one: one.correct),
        lower_epsilon=max(
            epsilon_lower_bound(outcome, delta=delta, confidence=own)
            for outcome, own in zip(outcomes, confidences, strict=True)
        ),
        lower_mu=max(
            mu_lower_bound(outcomes[attack], confidence=own)
            if size.runs == 1
            else mu_lower_bound_of_runs(
                [_accuracy(one, c, attack) for one, c in zip(observed, coins, strict=True)],
                confidence=own,
            )
            for attack, own in enumerate(confidences)
        ),
        delta=delta,
        confidence=confidence,
    )


def _accuracy(observed: CanaryScores, coins: Coins, attack: int) -> float:
    scores = np.atleast_2d(observed.scores)[attack]
    found = outcome_of(guess_extremes(scores, guesses=len(coins)), coins)
    return found.correct / len(coins)


def _observe(
    run: CanaryRun, coins: Coins, epsilon: float, delta: float, fault: Fault | None
) -> CanaryScores:
    if fault is None:
        return run(coins, epsilon=epsilon, delta=delta)
    with broken_noise(fault):
        observed = run(coins, epsilon=epsilon, delta=delta)
    if fault is not Fault.KNOWN_SEED:
        return observed
    # If the attacker knows the seed, a run without records shows the noise alone.
    with broken_noise(fault):
        noise = run(coins & False, epsilon=epsilon, delta=delta)
    return CanaryScores(
        scores=observed.scores - noise.scores, epsilon=observed.epsilon, mu=observed.mu
    )
