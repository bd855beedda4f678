"""The budget requests of the public figures: three mechanisms for each released method."""

from __future__ import annotations

from collections.abc import Sequence

from sugarbush.data.schema import Schema
from sugarbush.privacy.budget import BudgetRequest

RECORDS, HELDOUT_COUNTS, TOPICS = "records", "heldout", "topics"
PARTS = (RECORDS, HELDOUT_COUNTS, TOPICS)
# Held-out records are few, so their counts need most of the budget (docs/log/evaluation.md).
_SHARES = {RECORDS: 0.2, HELDOUT_COUNTS: 0.6, TOPICS: 0.2}


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
    counts = {RECORDS: 1 + attributes + pairs, HELDOUT_COUNTS: 1 + attributes, TOPICS: 1}
    return tuple(
        BudgetRequest(
            name=request_name(method, part),
            count=counts[part],
            share=share * _SHARES[part] / len(methods),
            pool="figures",
            setting="evaluate.public",
        )
        for method in methods
        for part in PARTS
    )
