"""Describes a finished run in memory, and makes its card and its report.

The card and the page are made by the functions of stage report, from public and released values.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sugarbush.attributes.agreement import Agreement
from sugarbush.attributes.donated import DonatedCodes
from sugarbush.attributes.reader import Labels
from sugarbush.data.schema import Schema
from sugarbush.embedding.cache import EmbeddingsInMemory
from sugarbush.embedding.encoder import Encoder
from sugarbush.methods.interface import FinalSet, Initial, Method
from sugarbush.privacy.budget import BudgetPlan
from sugarbush.privacy.ledger import Ledger
from sugarbush.quality.public_quality import quality_of
from sugarbush.release.figures import MeasuredFigures
from sugarbush.release.store import MethodTexts, ReleasedMetadata
from sugarbush.report.card import Card
from sugarbush.report.model import PublicData, ReleaseFacts
from sugarbush.report.verdict import Verdict
from sugarbush.run.settings import ProjectSettings


@dataclass(frozen=True, kw_only=True)
class FinishedRun:
    """Everything that a release in memory and its report need, without a private value.

    `labels` were read from the final texts. `figures` are the public figures, or None if they were
    not measured. `first` contains the first candidates, or None if the method has none. `ledger` is
    a snapshot at the end of the run, and `looked` are the charges of the first look.
    """

    settings: ProjectSettings
    schema: Schema
    method: Method
    final: FinalSet
    first: Initial | None
    labels: Labels = field(repr=False)
    verdict: Verdict = field(repr=False)
    metadata: ReleasedMetadata = field(repr=False)
    donated: DonatedCodes = field(repr=False)
    ledger: Ledger
    plan: BudgetPlan
    looked: tuple[str, ...]
    figures: MeasuredFigures | None = field(repr=False)

    @property
    def metadata_ids(self) -> tuple[str, ...]:
        """The entries that were charged for the DP metadata."""
        return self.metadata.values.ledger_ids

    @property
    def ledger_ids(self) -> tuple[str, ...]:
        """The entries that were charged for the texts and their figures, without repetition."""
        run = (*self.metadata_ids, *self.final.lineage.ledger_ids)
        figures = () if self.figures is None else self.figures.ledger_ids
        return tuple(dict.fromkeys((*self.ledger.profiles(), *run, *figures)))

    def card(self) -> Card | None:
        """Return the card by the ledger as it is now, or None without a DP guarantee."""
        from sugarbush.report.card_values import release_card

        return None if self.method.stays_private else release_card(self.facts())

    def facts(self) -> ReleaseFacts:
        """Collect what the card states, by the ledger as it is now."""
        from sugarbush.release.facts import ReleaseContents, release_facts, text_counts

        return release_facts(
            self.settings,
            self.schema,
            ReleaseContents(
                texts={self.method.name: text_counts(self.final.lineage)},
                donated=len(self.donated.texts),
                engine=None if self.metadata.table is None else self.metadata.table.engine,
            ),
            ledger=self.ledger,
            ledger_ids=self.ledger_ids,
            plan=self.plan,
            quality=quality_of(
                self.settings,
                self.schema,
                self.figures,
                labels={self.method.name: self.labels},
                counts=self.metadata.values.counts_of(self.schema),
            ),
        )

    def public_data(self) -> PublicData:
        """Collect the values of the public page. The method must have a DP guarantee."""
        from sugarbush.pipeline.page_data import public_data

        encoder = Encoder(
            self.settings.embedding,
            cache=EmbeddingsInMemory(),
            private=False,
            shape=self.schema.shape,
        )
        return public_data(
            _MemoryRun(self),
            settings=self.settings,
            schema=self.schema,
            ledger=self.ledger,
            ledger_ids=self.ledger_ids,
            plan=self.plan,
            looked=self.looked,
            encode=encoder.encode,
            verdict=lambda method, texts: self.verdict,
        )


@dataclass(frozen=True)
class _MemoryRun:
    """The results of a finished run, for the card and the page."""

    run: FinishedRun

    def metadata(self) -> ReleasedMetadata:
        return self.run.metadata

    def figures(self) -> MeasuredFigures | None:
        return self.run.figures

    def texts_of(self, method: Method) -> MethodTexts:
        run = self.run
        lineage, first = run.final.lineage, run.first
        steps = {} if first is None else {"first candidates": first.usage}
        steps |= {f"round_{each.number:03d}": each.usage for each in lineage.rounds}
        return MethodTexts(
            lineage=lineage,
            labels=run.labels,
            usage=steps | {"final": lineage.usage},
            ledger_ids=tuple(dict.fromkeys((*lineage.ledger_ids, *run.metadata_ids))),
        )

    def donated_texts(self) -> tuple[str, ...]:
        return self.run.donated.texts

    def agreements(self) -> tuple[Agreement, ...]:
        return self.run.donated.agreements
