"""Computes the budget plan of a run, the share of each mechanism, from the settings alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from sugarbush.errors import ParamsError
from sugarbush.methods.interface import Method
from sugarbush.privacy.accounting import (
    SLACK_SHARE,
    gaussian_epsilon,
    rounded_down,
    rounded_up,
)
from sugarbush.privacy.budget import BudgetPlan, BudgetRequest, make_plan, mu_of
from sugarbush.privacy.events import PlannedEvents
from sugarbush.privacy.settings import SMALLEST_EPSILON, PrivacySettings

# Counts with more noise than this are meaningless for any corpus that fits on one machine.
_LARGEST_STDDEV = 1000.0
_STEPS, _PRECISION = 14, 2e-3  # of the search for a plan beside a profile


def plan_for(
    privacy: PrivacySettings,
    methods: Iterable[Method],
    *,
    figures: Sequence[BudgetRequest] = (),
    beside_profile: bool = False,
) -> BudgetPlan:
    """Divide the budget of a run among its mechanisms, before the first mechanism runs.

    `privacy.metadata_share` divides mu^2 into two shares. Mechanisms of the same pool get equal
    parts of its share. If no mechanism is paid by a pool, its budget goes to the other pool. The
    requests `figures` get their own shares, and the methods get the rest. If no method has a
    mechanism, the figures get everything. The cost of every mechanism is final in this plan
    (`Method.final_plan`). With `beside_profile`, the run may depend on a profile of the records.
    Raises ParamsError if the number of rounds is so large that the counts are only noise.
    """
    methods = tuple(methods)
    requests = _in_order(request for method in methods for request in method.budget_requests())
    pools = {"metadata": privacy.metadata_share, "synthesis": 1 - privacy.metadata_share}
    sizes = {pool: sum(request.pool == pool for request in requests) for pool in pools}
    weights = [pools[request.pool] / sizes[request.pool] for request in requests]
    measured = sum(request.share for request in figures)
    left = 1 - measured if requests else 0.0
    claimed = sum(weights)
    shared = [
        replace(request, share=left * weight / claimed)
        for request, weight in zip(requests, weights, strict=True)
    ]
    shared += [replace(each, share=(1 - left) * each.share / measured) for each in figures]
    _refuse_hopeless(privacy, shared)
    plan = make_plan(
        shared,
        epsilon=privacy.epsilon,
        delta=privacy.delta,
        records_per_unit=privacy.records_per_user,
    )
    for method in methods:
        plan = method.final_plan(plan, privacy, beside_profile=beside_profile)
    return plan


def plan_beside(
    privacy: PrivacySettings,
    methods: Iterable[Method],
    *,
    figures: Sequence[BudgetRequest] = (),
    total: Callable[[PlannedEvents], float],
) -> BudgetPlan:
    """Plan a run that may depend on earlier profiles: all together are within `privacy.epsilon`.

    `total` computes the epsilon of the profiles together with a plan. The first plan uses the rest
    of mu^2. If its total is above `privacy.epsilon`, because noise is not exactly Gaussian, a
    bisection finds a smaller one. Raises ParamsError if the profiles leave nothing.
    """
    methods, delta = tuple(methods), (1 - SLACK_SHARE) * privacy.delta
    spent = total(PlannedEvents(id="none", events=()))
    if spent >= privacy.epsilon:
        raise ParamsError(
            f"params.yaml: privacy.epsilon={rounded_up(privacy.epsilon)} is for a run together "
            f"with the profiles of the dataset, which have {rounded_up(spent)}. Raise "
            "privacy.epsilon"
        )
    squares = [mu_of(epsilon=each, delta=delta) ** 2 for each in (privacy.epsilon, spent)]
    first = gaussian_epsilon(math.sqrt(max(squares[0] - squares[1], 1e-12)), delta=privacy.delta)
    low, high, best = 0.0, privacy.epsilon, None
    for step in range(_STEPS):
        epsilon = first if step == 0 else (low + high) / 2
        if epsilon < SMALLEST_EPSILON:
            break
        smaller = privacy.model_copy(update={"epsilon": epsilon})
        plan = plan_for(smaller, methods, figures=figures, beside_profile=True)
        whole = total(plan.planned)
        if whole > privacy.epsilon:
            high = epsilon
            continue
        best, low = plan, epsilon
        if whole > (1 - _PRECISION) * privacy.epsilon or high - low < _PRECISION * high:
            break
    if best is None:
        raise ParamsError(
            f"params.yaml: privacy.epsilon={rounded_up(privacy.epsilon)} leaves nothing for a run "
            f"beside profiles of epsilon {rounded_up(spent)}. Raise privacy.epsilon"
        )
    return best


def _in_order(requests: Iterable[BudgetRequest]) -> list[BudgetRequest]:
    """Return each mechanism once. The order is: the DP table, the DP counts, the votes in the order
    of the methods, and training."""
    distinct: dict[str, BudgetRequest] = {}
    for request in requests:
        if distinct.setdefault(request.name, request) != request:
            raise ParamsError(
                f"two methods request the mechanism '{request.name}' with different settings. "
                "Rename the request of one method, or run the methods separately"
            )
    metadata = [request for request in distinct.values() if request.pool == "metadata"]
    others = [request for request in distinct.values() if request.pool != "metadata"]
    metadata.sort(key=lambda request: request.count)
    others.sort(key=lambda request: request.count == 0)
    return metadata + others


def _refuse_hopeless(privacy: PrivacySettings, requests: Sequence[BudgetRequest]) -> None:
    """Raise ParamsError if the noise is too large. Without this check, the privacy loss
    distribution of many rounds would take minutes."""
    mu = mu_of(epsilon=privacy.epsilon, delta=privacy.delta)
    for request in requests:
        stddev = privacy.records_per_user * math.sqrt(request.count / request.share) / mu
        if stddev > _LARGEST_STDDEV:
            named = [] if request.setting is None else [request.setting]
            if privacy.records_per_user > 1:
                named.append(f"privacy.records_per_user={privacy.records_per_user}")
            named.append(f"privacy.epsilon={rounded_up(privacy.epsilon)}")
            raise ParamsError(
                f"params.yaml: {' with '.join(named)} gives every count a noise of "
                f"{rounded_down(stddev)} records (maximum: {rounded_up(_LARGEST_STDDEV)}). Lower "
                "the rounds or the records per user, or raise epsilon."
            )
