"""Confidentiality: the epsilon for replacing a secret by a mask. Never added to a DP epsilon.

Two corpora are neighbours if one has a mask where the other has the secret x. After deduplication x
changes the units that `screening.changed_units` counts, so DP-SGD is accounted for under
REPLACE_ONE. An epsilon under add/remove does not imply the same one here (docs/pitfalls.md).

Source: Zhao, Li, Wang 2022, "Provably Confidential Language Modelling": Theorem 8 (amplification by
an approximate policy) and Proposition 5 (groups).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from sugarbush.errors import ParamsError
from sugarbush.privacy.accounting import Relation, epsilon
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
    """The guarantee for every secret in one unit, found by the policy or not."""
    return Guarantee(epsilon=epsilon([training], delta=delta, relation=relation), delta=delta)


def group(training: Event, *, missed: int, delta: float) -> Guarantee:
    """The guarantee for a secret, or a set of secrets, with `missed` units that still show it.

    (k epsilon', k e^(k epsilon') delta') with the delta' that makes the first number smallest when
    the second is `delta`. k counts the units that the policy *misses*, as in Proposition 5. For k =
    0 it is (0, 0): the output cannot depend on the secret. Infinity if even delta' = 1e-18 is too
    large.
    """
    if missed < 0:
        raise ParamsError(f"a group of {missed} missed secrets is not a number of units")
    if missed == 0:
        return Guarantee(epsilon=0.0, delta=0.0)
    best = math.inf
    for part in np.geomspace(delta / missed, _SMALLEST_DELTA, _DELTAS):
        own = missed * epsilon([training], delta=float(part), relation=Relation.REPLACE_ONE)
        if math.log(missed) + own + math.log(part) <= math.log(delta):
            best = min(best, own)
    return Guarantee(epsilon=best, delta=delta)


def bayesian(
    training: Event,
    *,
    gamma: float,
    delta: float,
    delta_2: float = 0.0,
    relation: Relation = Relation.REPLACE_ONE,
) -> Guarantee:
    """The average guarantee over secrets, if the policy misses at most a share `gamma` of them.

    (log(1 + gamma (e^epsilon' - 1)), gamma delta' + delta_2), where epsilon' is the epsilon of
    DP-SGD at delta' = (delta - delta_2) / gamma. `delta_2` bounds the share of secrets that the
    conservative policy leaves in the public part; without such a policy it is 0. If gamma and
    delta_2 were measured, both are *upper* confidence bounds. Raises ParamsError when delta_2 alone
    takes all of `delta`.
    """
    _require_share(gamma=gamma, delta_2=delta_2)
    if delta_2 >= delta:
        raise ParamsError(
            f"delta_2={delta_2:g} is not below delta={delta:g}: the conservative policy leaves "
            "more in the public part than delta allows. Train without it, or label more texts."
        )
    if gamma == 0:
        return Guarantee(epsilon=0.0, delta=delta_2)
    part = min((delta - delta_2) / gamma, 1 - 1e-9)
    inner = epsilon([training], delta=part, relation=relation)
    return Guarantee(epsilon=amplified(inner, gamma=gamma), delta=gamma * part + delta_2)


def amplified(inner: float, *, gamma: float) -> float:
    """log(1 + gamma (e^inner - 1)), also where e^inner overflows."""
    _require_share(gamma=gamma)
    if gamma == 0:
        return 0.0
    if inner > 30:
        return float(
            np.logaddexp(math.log1p(-gamma) if gamma < 1 else -math.inf, inner + math.log(gamma))
        )
    return math.log1p(gamma * math.expm1(inner))


def allowed(target: float, *, gamma: float) -> float:
    """The inverse: the DP-SGD epsilon that a Bayesian epsilon of `target` allows."""
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
    """The smallest noise multiplier, to within 0.1%, for which the Bayesian epsilon is at most
    `target`.

    With gamma 1 it is the uniform epsilon. Raises ParamsError when no multiplier up to 10,000 is
    large enough.
    """

    def excess(log_noise: float) -> float:
        training = PoissonGaussian(noise_multiplier=math.exp(log_noise), rate=rate, count=steps)
        found = bayesian(training, gamma=gamma, delta=delta, delta_2=delta_2, relation=relation)
        return found.epsilon - target

    if target <= 0 or excess(math.log(_LARGEST_NOISE)) > 0:
        raise ParamsError(f"no noise gives a Bayesian epsilon of {target} at gamma={gamma}")
    low = math.log(0.3)
    if excess(low) <= 0:
        return math.exp(low)
    found = brentq(excess, low, math.log(_LARGEST_NOISE), xtol=2.5e-4)
    return math.exp(found + 5e-4)


def agreed_gamma(given: float | None, *, measured: float | None) -> float:
    """The miss rate for the accounting.

    It is 1 if nothing is measured: then the policy is not trusted.

    Raises ParamsError when the given rate is below the measured upper bound, or below 1 without a
    measurement.
    """
    if given is not None:
        _require_share(gamma=given)
    if given is None:
        return 1.0 if measured is None else measured
    if measured is None and given < 1:
        raise ParamsError(
            f"gamma={given:g} is given, and nothing was measured. Name labelled texts in "
            "crt.labelled, or leave gamma out."
        )
    if measured is not None and given < measured:
        raise ParamsError(
            f"gamma={given:g} is given, and the labels allow no less than {measured:.4g} (upper "
            "confidence bound). Leave gamma out to use the measured bound, or label more texts."
        )
    return given


def _require_share(**values: float) -> None:
    for name, value in values.items():
        if not 0 <= value <= 1:
            raise ParamsError(f"{name}={value!r} is not between 0 and 1")
