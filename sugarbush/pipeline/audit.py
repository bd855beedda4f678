"""Audits of every noisy mechanism with canaries, and of copies of it with broken noise.

An audit can find a violation. It cannot show that there is none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from sugarbush.audits.one_run import (
    Outcome,
    epsilon_lower_bound,
    guess_extremes,
    mu_lower_bound,
    outcome_of,
)
from sugarbush.pipeline.canary_runs import (
    CanaryRun,
    Coins,
    Observation,
    audit_dpsgd,
    audit_kernel_scores,
    audit_table,
    audit_votes,
)
from sugarbush.pipeline.noise_faults import Fault, broken_noise
from sugarbush.privacy.accounting import gaussian_epsilon
from sugarbush.randomness import public_rng

MECHANISMS: Mapping[str, CanaryRun] = {
    "table": audit_table,
    "votes": audit_votes,
    "kernel scores": audit_kernel_scores,
    "dp-sgd": audit_dpsgd,
}
DELTA = 1e-6
CONFIDENCE = 0.95
WITHOUT_INFINITY = frozenset({"table"})  # AIM has no run without noise


@dataclass(frozen=True, kw_only=True)
class Size:
    """The number of canaries, and of guesses about them."""

    canaries: int
    guesses: int


CANARIES = 200_000
_SMALL = Size(canaries=4_000, guesses=1_000)


def size_for(fault: Fault | None, *, epsilon: float, canaries: int = CANARIES) -> Size:
    """`canaries`, and guesses about a few percent of them. Coarse faults need fewer canaries.

    The audit itself has the size of the finest fault, so that its power is known. In simulations
    200,000 canaries notice noise that is too small by sqrt(2) in 96 of 100 audits at epsilon 4, and
    in about 75 at epsilon 1. The best share of guesses depends on epsilon only; it was chosen there
    as well, never on scores.
    """
    if math.isinf(epsilon) or fault not in {None, Fault.ROOT_TWO}:
        return _SMALL
    share = 0.025 if epsilon >= 4 else 0.015
    return Size(canaries=canaries, guesses=round(share * canaries))


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The result of one audit. All epsilons are at `delta`.

    `claimed_epsilon` and `claimed_mu` are the upper bounds of the ledger. The two lower bounds hold
    together with probability `confidence`: `lower_epsilon` for any mechanism, and `lower_mu` as a
    test of the claim of Gaussian DP.
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
        """Whether a lower bound is above its claim."""
        return self.lower_epsilon > self.claimed_epsilon or self.lower_mu > self.claimed_mu

    @property
    def lower_gaussian_epsilon(self) -> float:
        """The epsilon of `lower_mu`."""
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
) -> Finding:
    """Audit one of MECHANISMS at `epsilon`, or its copy with `fault`.

    Guarantee: without a fault, a mechanism that keeps its claim is called a violation with
    probability at most 1 - `confidence`. `seed` determines the coins that include canaries. It is
    public: only the attacker must not use it.
    """
    coins: Coins = public_rng(seed, "coins", mechanism).random(size.canaries) < 0.5
    observed = _observe(MECHANISMS[mechanism], coins, epsilon, delta, fault)
    outcome = outcome_of(guess_extremes(observed.scores, guesses=size.guesses), coins)
    # Two tests: each may be wrong with half of the probability.
    each = 1 - (1 - confidence) / 2
    return Finding(
        mechanism=mechanism,
        fault=fault,
        claimed_epsilon=observed.epsilon,
        claimed_mu=observed.mu,
        outcome=outcome,
        lower_epsilon=epsilon_lower_bound(outcome, delta=delta, confidence=each),
        lower_mu=mu_lower_bound(outcome, confidence=each),
        delta=delta,
        confidence=confidence,
    )


def _observe(
    run: CanaryRun, coins: Coins, epsilon: float, delta: float, fault: Fault | None
) -> Observation:
    if fault is None:
        return run(coins, epsilon=epsilon, delta=delta)
    with broken_noise(fault):
        observed = run(coins, epsilon=epsilon, delta=delta)
    if fault is not Fault.KNOWN_SEED:
        return observed
    # The attacker runs the same program without records: all that comes out is the noise.
    with broken_noise(fault):
        noise = run(coins & False, epsilon=epsilon, delta=delta)
    return Observation(
        scores=observed.scores - noise.scores, epsilon=observed.epsilon, mu=observed.mu
    )
