"""Computes confidentiality: the epsilon for replacing a secret by a mask.

The epsilon of confidentiality is never added to a DP epsilon. Two corpora are neighbours if a mask
in the second corpus replaces the secret of the first corpus. After deduplication, the secret
changes the units that `screening.changed_units` counts. So DP-SGD is accounted for under
REPLACE_ONE. An epsilon under add/remove does not imply an equal epsilon under REPLACE_ONE
(docs/pitfalls.md).

Source: Zhao, Li, Wang 2022, "Provably Confidential Language Modelling": Theorem 8 (amplification by
an approximate policy) and Proposition 5 (groups).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from sugarbush.errors import ParamsError
from sugarbush.privacy.accounting import Relation, epsilon, rounded_up
from sugarbush.privacy.budget import noise_upwards
from sugarbush.privacy.events import Event, PoissonGaussian

_SMALLEST_DELTA = 1e-18
_DELTAS = 64  # number of delta values that are tried for a group
_LARGEST_NOISE = 1e4


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """(epsilon, delta)-confidentiality."""

    epsilon: float
    delta: float


def uniform(
    training: Event, *, delta: float, relation: Relation = Relation.REPLACE_ONE
) -> Guarantee:
    """Return the guarantee for every secret in one unit. The policy need not find the secret."""
    return Guarantee(epsilon=epsilon([training], delta=delta, relation=relation), delta=delta)


def group(training: Event, *, missed: int, delta: float) -> Guarantee:
    """Return the guarantee for a group of secrets, if `missed` units still show one of them.

    Let k = `missed`, the number of units in which the policy misses a secret. The guarantee is (k
    epsilon', k e^(k epsilon') delta'), by Proposition 5. The second number must be at most `delta`.
    The function chooses the delta' with the smallest k epsilon'. For k = 0 the guarantee is (0, 0),
    because the output does not depend on the secrets. Epsilon is infinite if even delta' = 1e-18 is
    too large.
    """
    if missed < 0:
        raise ParamsError(f"missed={missed} must not be negative")
    if missed == 0:
        return Guarantee(epsilon=0.0, delta=0.0)
    best = math.inf
    for tried in np.geomspace(delta / missed, _SMALLEST_DELTA, _DELTAS):
        group_epsilon = missed * epsilon(
            [training], delta=float(tried), relation=Relation.REPLACE_ONE
        )
        if math.log(missed) + group_epsilon + math.log(tried) <= math.log(delta):
            best = min(best, group_epsilon)
    return Guarantee(epsilon=best, delta=delta)


def bayesian(
    training: Event,
    *,
    gamma: float,
    delta: float,
    delta_2: float = 0.0,
    relation: Relation = Relation.REPLACE_ONE,
) -> Guarantee:
    """Return the average guarantee over secrets, if the policy misses at most a share `gamma`.

    The guarantee is (log(1 + gamma (e^epsilon' - 1)), gamma delta' + delta_2). Here epsilon' is the
    epsilon of DP-SGD at delta' = (delta - delta_2) / gamma. `delta_2` bounds the share of secrets
    that the conservative policy leaves in the public part. Without a conservative policy, `delta_2`
    is 0. Pass the *upper* confidence bounds of measured values of gamma and delta_2. Raises
    ParamsError if `delta_2` is not below `delta`.
    """
    _require_share(gamma=gamma, delta_2=delta_2)
    if delta_2 >= delta:
        raise ParamsError(
            f"delta_2={rounded_up(delta_2)} is not below delta={rounded_up(delta)}: the "
            "conservative policy leaves too many secrets in the public part. Leave "
            "methods.crt.conservative out, or label more texts."
        )
    if gamma == 0:
        return Guarantee(epsilon=0.0, delta=delta_2)
    inner_delta = min((delta - delta_2) / gamma, 1 - 1e-9)
    inner = epsilon([training], delta=inner_delta, relation=relation)
    return Guarantee(epsilon=amplified(inner, gamma=gamma), delta=gamma * inner_delta + delta_2)


def amplified(inner: float, *, gamma: float) -> float:
    """Return log(1 + gamma (e^inner - 1)). The result is correct if e^inner overflows."""
    _require_share(gamma=gamma)
    if gamma == 0:
        return 0.0
    if inner > 30:
        return float(
            np.logaddexp(math.log1p(-gamma) if gamma < 1 else -math.inf, inner + math.log(gamma))
        )
    return math.log1p(gamma * math.expm1(inner))


def allowed(target: float, *, gamma: float) -> float:
    """Return the epsilon of DP-SGD that gives a Bayesian epsilon of `target`."""
    _require_share(gamma=gamma)
    if gamma == 0:
        return math.inf
    return math.log1p(math.expm1(target) / gamma)


def noise_for(
    target: float,
    *,
    gamma: float,
    delta: float,
    rate: float,
    steps: int,
    delta_2: float = 0.0,
    relation: Relation = Relation.REPLACE_ONE,
) -> float:
    """Return the smallest noise multiplier for a Bayesian epsilon of at most `target`.

    The multiplier is exact to within 0.1%. At gamma 1 the Bayesian epsilon is the uniform epsilon.
    Raises ParamsError if a multiplier of 10,000 is too small.
    """

    def excess(log_noise: float) -> float:
        training = PoissonGaussian(noise_multiplier=math.exp(log_noise), rate=rate, count=steps)
        guarantee = bayesian(training, gamma=gamma, delta=delta, delta_2=delta_2, relation=relation)
        return guarantee.epsilon - target

    if target <= 0 or excess(math.log(_LARGEST_NOISE)) > 0:
        raise ParamsError(
            f"no noise gives a Bayesian epsilon of {target} at gamma={gamma}. Raise "
            "methods.crt.epsilon."
        )
    low = math.log(0.3)
    if excess(low) <= 0:
        return 0.3
    root = brentq(excess, low, math.log(_LARGEST_NOISE), xtol=2.5e-4)
    return noise_upwards(math.exp(root + 5e-4))


def agreed_gamma(given: float | None, *, measured: float | None) -> float:
    """Return the miss rate for the accounting: `given` if it is set, else `measured`.

    `measured` is an upper confidence bound. If both are None, the miss rate is 1, because an
    unmeasured policy is not trusted. Raises ParamsError if `given` is below the measured bound, or
    below 1 without a measurement.
    """
    if given is not None:
        _require_share(gamma=given)
    if given is None:
        return 1.0 if measured is None else measured
    if measured is None and given < 1:
        raise ParamsError(
            f"gamma={rounded_up(given)} is given, but nothing was measured. Name labelled texts in "
            "methods.crt.labelled, or leave gamma out."
        )
    if measured is not None and given < measured:
        raise ParamsError(
            f"gamma={rounded_up(given)} is given, but the measured upper confidence bound is "
            f"{rounded_up(measured)}. "
            "Leave gamma out to use the measured bound, or label more texts."
        )
    return given


def _require_share(**values: float) -> None:
    for name, value in values.items():
        if not 0 <= value <= 1:
            raise ParamsError(f"{name}={value!r} is not between 0 and 1")
