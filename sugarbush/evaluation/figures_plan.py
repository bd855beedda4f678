"""The budget requests of the public figures: three mechanisms for each released method."""

from __future__ import annotations

from collections.abc import Sequence

from sugarbush.data.schema import Schema
from sugarbush.privacy.budget import BudgetRequest

RECORDS, QUALITY, TOPICS = "records", "quality", "topics"
REQUESTS = (RECORDS, QUALITY, TOPICS)
# The counts of near texts and right answers decide the verdict, so they get most.
_SHARES = {RECORDS: 0.2, QUALITY: 0.6, TOPICS: 0.2}


def request_name(method: str, request: str) -> str:
    """Return the name of a mechanism of the figures of a method."""
    return f"figures_{request}@{method}"


def figure_requests(
    schema: Schema, methods: Sequence[str], *, share: float
) -> tuple[BudgetRequest, ...]:
    """Return the mechanisms that measure the texts of `methods`, with their shares of mu^2.

    `share` is the share of all figures together. One record of each unit is measured, but all
    records count for the marginals. The result is empty for a share of 0.
    """
    if not (share and methods):
        return ()
    attributes = len(schema.names)
    pairs = 1 if attributes > 1 else 0
    counts = {RECORDS: 1 + attributes + pairs, QUALITY: 1 + attributes, TOPICS: 1}
    return tuple(
        BudgetRequest(
            name=request_name(method, request),
            count=counts[request],
            share=share * _SHARES[request] / len(methods),
            pool="figures",
            setting="evaluate.public",
            one_record=request != RECORDS,
        )
        for method in methods
        for request in REQUESTS
    )
