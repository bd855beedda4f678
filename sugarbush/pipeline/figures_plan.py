"""The budget requests of the public figures: three mechanisms for each released method."""

from __future__ import annotations

from collections.abc import Sequence

from sugarbush.data.schema import Schema
from sugarbush.evolution.kernel_scores import RESOLUTION
from sugarbush.privacy.budget import BudgetRequest
from sugarbush.privacy.distances import distance_sensitivity

RECORDS, HELDOUT_COUNTS, KERNEL = "records", "heldout", "kernel"
PARTS = (RECORDS, HELDOUT_COUNTS, KERNEL)
# Held-out records are few, so their counts need most of the budget (docs/log/evaluation.md).
_SHARES = {RECORDS: 0.2, HELDOUT_COUNTS: 0.55, KERNEL: 0.25}


def request_name(method: str, part: str) -> str:
    """Return the name of a mechanism of the figures of a method."""
    return f"figures_{part}@{method}"


def figure_requests(
    schema: Schema, methods: Sequence[str], *, share: float
) -> tuple[BudgetRequest, ...]:
    """Return the mechanisms that measure the texts of `methods`, with their shares of mu^2.

    `share` is the share of all figures together. The result is empty for a share of 0.
    """
    if not (share and methods):
        return ()
    attributes = len(schema.names)
    pairs = 1 if attributes > 1 else 0
    counts = {RECORDS: 1 + attributes + pairs, HELDOUT_COUNTS: 1 + attributes, KERNEL: 1}
    return tuple(
        BudgetRequest(
            name=request_name(method, part),
            count=counts[part],
            share=share * _SHARES[part] / len(methods),
            record_l2_sensitivity=distance_sensitivity(RESOLUTION) if part == KERNEL else 1,
            pool="figures",
            setting="evaluate.public",
        )
        for method in methods
        for part in PARTS
    )
