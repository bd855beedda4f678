"""MAPLE: first candidates from DP metadata and donated examples, then two rounds of votes.

Source: Chien et al. 2026.
"""

from __future__ import annotations

from typing import ClassVar

from sugarbush.errors import InvariantError
from sugarbush.evolution.initialisation import Targets, targets_by_rows
from sugarbush.methods.evolving import EvolvingMethod
from sugarbush.methods.generating import GeneratingMethod
from sugarbush.methods.interface import METADATA, MethodInputs, ShareRequest
from sugarbush.privacy.data_types import Released
from sugarbush.randomness import public_rng
from sugarbush.report.remarks import INTEGER_NOISE, METADATA_TABLE

TABLE = ShareRequest(
    name=METADATA, share="metadata", count=0, remarks=(INTEGER_NOISE, METADATA_TABLE)
)


class Maple(EvolvingMethod):
    """MAPLE. Each first candidate gets the attribute values of a row of AIM's DP table.

    >>> [request.name for request in Maple(rounds=2).share_requests()]
    ['metadata', 'votes:maple']
    """

    name: ClassVar[str] = "maple"

    def share_requests(self) -> tuple[ShareRequest, ...]:
        return (TABLE, *super().share_requests())

    def targets(self, inputs: MethodInputs, *, count: int | None, seed: int) -> Released[Targets]:
        return table_targets(self, inputs, count=count, seed=seed)


def table_targets(
    method: GeneratingMethod, inputs: MethodInputs, *, count: int | None, seed: int
) -> Released[Targets]:
    """Return a row of the DP table for each of `count` texts, or for each first candidate."""
    metadata = inputs.metadata
    if metadata.rows is None or metadata.record_count is None:
        raise InvariantError(f"{method.name} needs a DP table")
    wanted = method.first_count(metadata.record_count) if count is None else count
    rows = targets_by_rows(wanted, metadata.rows, rng=public_rng(seed, "rows"))
    return Released(rows, metadata.ledger_ids)
