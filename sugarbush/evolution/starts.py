"""The starts: the attribute values of the first texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sugarbush.errors import InvariantError
from sugarbush.evolution.inputs import MetadataRelease, PublicInputs
from sugarbush.evolution.parts import Start
from sugarbush.evolution.prompts import Prompts
from sugarbush.evolution.targets import (
    Targets,
    open_targets,
    targets_by_label,
    targets_by_mix,
    targets_by_rows,
)
from sugarbush.privacy.budget import BudgetRequest
from sugarbush.privacy.data_types import Released
from sugarbush.privacy.remarks import INTEGER_NOISE, METADATA_TABLE
from sugarbush.randomness import public_rng

METADATA, LABELS = "metadata", "labels"  # names of mechanisms in the plan

TABLE: Final = BudgetRequest(
    name=METADATA, pool="metadata", count=0, remarks=(INTEGER_NOISE, METADATA_TABLE)
)
LABEL_COUNTS: Final = BudgetRequest(name=LABELS, pool="metadata", count=1)


@dataclass(frozen=True)
class FromTable(Start):
    """Each text has attribute values of a row of AIM's DP table (Chien et al. 2026).

    The model of the table assumes that attributes are independent if they were not measured
    together. So the values of a row may contradict each other. Therefore a request names only the
    attributes of one measured clique, and the generator chooses the others. A generator that does
    not follow requests, such as a pool, finds texts by whole rows
    (docs/decisions/requests-by-clique.md).
    """

    prompts: Prompts

    def budget_requests(self) -> tuple[BudgetRequest, ...]:
        return (TABLE,)

    def record_count(self, metadata: MetadataRelease) -> float | None:
        return metadata.record_count

    def targets(self, public: PublicInputs, *, count: int, seed: int) -> Released[Targets]:
        metadata = public.metadata
        if metadata.rows is None:
            raise InvariantError("this method needs a DP table")
        rng, always = public_rng(seed, "rows"), tuple[int, ...]()
        if (mix := public.asked) is None:
            rows = targets_by_rows(count, metadata.rows, public.schema, rng=rng)
        else:
            rows = targets_by_mix(count, metadata.rows, public.schema, mix=mix, rng=rng)
            always = mix.columns
        if metadata.cliques and public.follows_requests:
            names = public.schema.names
            columns = [[names.index(name) for name in clique] for clique in metadata.cliques]
            rows = rows.within(columns, rng=public_rng(seed, "cliques"), always=always)
        return Released(rows, metadata.ledger_ids)


@dataclass(frozen=True)
class FromLabels(Start):
    """The texts have the values of one attribute, in proportion to its DP counts (AugPE)."""

    prompts: Prompts

    def budget_requests(self) -> tuple[BudgetRequest, ...]:
        return (LABEL_COUNTS,)

    def record_count(self, metadata: MetadataRelease) -> float | None:
        return None if metadata.labels is None else float(metadata.labels.sum())

    def targets(self, public: PublicInputs, *, count: int, seed: int) -> Released[Targets]:
        metadata = public.metadata
        if metadata.labels is None or metadata.label is None:
            raise InvariantError("this method needs the DP counts of a label")
        counts = metadata.labels
        if public.asked is not None:
            counts = metadata.mixed_counts(public.schema, public.asked)[metadata.label]
        targets = targets_by_label(
            count, public.schema, attribute=metadata.label, label_counts=counts
        )
        return Released(targets, metadata.ledger_ids)


@dataclass(frozen=True)
class Open(Start):
    """The texts may have any attribute values. No private data is used."""

    prompts: Prompts

    def targets(self, public: PublicInputs, *, count: int, seed: int) -> Released[Targets]:
        return Released(open_targets(count, public.schema))
