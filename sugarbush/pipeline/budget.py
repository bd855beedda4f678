"""Computes the budget plan of a run, the share of each mechanism, from the settings alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from sugarbush.errors import ParamsError
from sugarbush.methods.interface import Method, ShareRequest
from sugarbush.privacy.accounting import rounded_down, rounded_up
from sugarbush.privacy.budget import BudgetPlan, BudgetRequest, make_plan, mu_of
from sugarbush.privacy.settings import PrivacySettings

# Counts with more noise than this are meaningless for any corpus that fits on one machine.
_LARGEST_STDDEV = 1000.0


def plan_for(privacy: PrivacySettings, methods: Iterable[Method]) -> BudgetPlan:
    """Divide the budget of a run among its mechanisms, before the first mechanism runs.

    `privacy.shares` divides mu^2 into two shares. Mechanisms that request the same share get equal
    parts of this share. If no mechanism requests a share, its budget goes to the other share. The
    cost of every mechanism is final in this plan (`Method.final_plan`). Raises ParamsError if the
    number of rounds is so large that the counts are only noise.
    """
    methods = tuple(methods)
    requests = _in_order(request for method in methods for request in method.share_requests())
    pools = privacy.shares.model_dump()
    sizes = {pool: sum(request.share == pool for request in requests) for pool in pools}
    weights = [pools[request.share] / sizes[request.share] for request in requests]
    claimed = sum(weights)
    parts = [
        BudgetRequest(
            name=request.name,
            share=weight / claimed,
            count=request.count,
            record_l2_sensitivity=request.record_l2_sensitivity,
        )
        for request, weight in zip(requests, weights, strict=True)
    ]
    _refuse_hopeless(privacy, requests, parts)
    plan = make_plan(
        parts,
        epsilon=privacy.epsilon,
        delta=privacy.delta,
        records_per_unit=privacy.records_per_user,
    )
    for method in methods:
        plan = method.final_plan(plan, privacy)
    return plan


def _in_order(requests: Iterable[ShareRequest]) -> list[ShareRequest]:
    """Return each mechanism once. The order is: the DP table, the DP counts, the votes in the order
    of the methods, and training."""
    distinct: dict[str, ShareRequest] = {}
    for request in requests:
        if distinct.setdefault(request.name, request) != request:
            raise ParamsError(
                f"two methods request the mechanism '{request.name}' with different settings. "
                "Rename the request of one method, or run the methods separately"
            )
    metadata = [request for request in distinct.values() if request.share == "metadata"]
    others = [request for request in distinct.values() if request.share != "metadata"]
    metadata.sort(key=lambda request: request.count)
    others.sort(key=lambda request: request.count == 0)
    return metadata + others


def _refuse_hopeless(
    privacy: PrivacySettings, requests: Sequence[ShareRequest], parts: Sequence[BudgetRequest]
) -> None:
    """Raise ParamsError if the noise is too large. Without this check, the privacy loss
    distribution of many rounds would take minutes."""
    mu = mu_of(epsilon=privacy.epsilon, delta=privacy.delta)
    for request, part in zip(requests, parts, strict=True):
        stddev = privacy.records_per_user * math.sqrt(part.count / part.share) / mu
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
