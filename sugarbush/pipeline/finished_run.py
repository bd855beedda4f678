"""Describes a finished run in memory, and makes its card and its report.

The code of stage report makes the report. It needs public and released values only. They are
written to a temporary folder with the layout of a project, which stage report reads.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from sugarbush.attributes.donated import DonatedCodes
from sugarbush.attributes.reader import Labels
from sugarbush.data.schema import Schema
from sugarbush.embedding.cache import EmbeddingsInMemory
from sugarbush.embedding.encoder import Encoder
from sugarbush.methods.interface import FinalSet, Initial, Method
from sugarbush.paths import atomic_directory
from sugarbush.pipeline.metadata import STAGE, DrawnMetadata
from sugarbush.pipeline.method_output import write_final_set, write_first_candidates
from sugarbush.privacy.budget import BudgetPlan
from sugarbush.privacy.ledger import Ledger
from sugarbush.quality.measure import FILE as FIGURES
from sugarbush.quality.measure import STAGE as MEASURE
from sugarbush.quality.measure import MeasuredFigures
from sugarbush.quality.public_quality import quality_of
from sugarbush.rehearsal.rehearse import require_rehearsal
from sugarbush.release.folders import write_release
from sugarbush.report.model import PublicData, ReleaseFacts
from sugarbush.report.verdict import Verdict
from sugarbush.run.context import Project
from sugarbush.run.settings import ProjectSettings


def metadata_files(metadata: DrawnMetadata) -> dict[str, bytes]:
    """Read the files of finished DP metadata, which the state folder need not keep."""
    with tempfile.TemporaryDirectory(prefix="sugarbush-metadata-") as folder:
        metadata.save(Path(folder))
        return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


@dataclass(frozen=True, kw_only=True)
class FinishedRun:
    """Everything that a release in memory and its report need, without a private value.

    `labels` were read from the final texts. `counts` are DP counts of the attributes, and `figures`
    the public figures, or None if they were not measured. `metadata` contains the files of the DP
    metadata, and `engine` names the algorithm that made its table. `first` contains the first
    candidates, or None if the method has none. `ledger` is a snapshot at the end of the run.
    """

    settings: ProjectSettings
    schema: Schema
    method: Method
    final: FinalSet
    first: Initial | None
    labels: Labels = field(repr=False)
    verdict: Verdict = field(repr=False)
    metadata: Mapping[str, bytes] = field(repr=False)
    metadata_ids: tuple[str, ...]
    engine: str | None
    donated: DonatedCodes = field(repr=False)
    ledger: Ledger
    plan: BudgetPlan
    counts: Mapping[str, NDArray[Any]] = field(repr=False)
    figures: MeasuredFigures | None = field(repr=False)

    @property
    def ledger_ids(self) -> tuple[str, ...]:
        """The entries that were charged for the texts and their figures, without repetition."""
        run = (*self.metadata_ids, *self.final.lineage.ledger_ids)
        figures = () if self.figures is None else self.figures.ledger_ids
        return tuple(dict.fromkeys((*self.ledger.profiles(), *run, *figures)))

    def card(self) -> Mapping[str, Any] | None:
        """Return the card by the ledger as it is now, or None without a DP guarantee."""
        from sugarbush.report.card import release_card

        return None if self.method.stays_private else release_card(self.facts())

    def facts(self) -> ReleaseFacts:
        """Collect what the card states, by the ledger as it is now."""
        from sugarbush.pipeline.release_facts import ReleaseContents, release_facts, text_counts

        return release_facts(
            self.settings,
            self.schema,
            ReleaseContents(
                texts={self.method.name: text_counts(self.final.lineage)},
                donated=len(self.donated.texts),
                engine=self.engine,
            ),
            ledger=self.ledger,
            ledger_ids=self.ledger_ids,
            plan=self.plan,
            quality=quality_of(
                self.settings,
                self.schema,
                self.figures,
                labels={self.method.name: self.labels},
                counts=self.counts,
            ),
        )

    def public_data(self) -> PublicData:
        """Collect the values of the public page. The method must have a DP guarantee."""
        from sugarbush.pipeline.stages.report import public_data

        with tempfile.TemporaryDirectory(prefix="sugarbush-report-") as folder:
            project = _FinishedProject(Path(folder), self)
            self._write(project)
            return public_data(project)

    def _write(self, project: Project) -> None:
        with atomic_directory(project.roots.released / "metadata") as folder:
            for name, content in self.metadata.items():
                (folder / name).write_bytes(content)
            write_release(
                folder,
                stage=STAGE,
                privacy=self.settings.privacy,
                ledger_ids=self.metadata_ids,
                run=self.final.run,
                ledger=self.ledger,
            )
        if self.figures is not None:
            with atomic_directory(project.roots.released / "figures") as folder:
                (folder / FIGURES).write_text(self.figures.to_json(), encoding="utf-8")
                write_release(
                    folder,
                    stage=MEASURE,
                    privacy=self.settings.privacy,
                    ledger_ids=self.figures.ledger_ids,
                    run=self.figures.run,
                    ledger=self.ledger,
                )
        with atomic_directory(project.roots.public / "donated") as folder:
            self.donated.save(folder, self.schema.names)
        if self.first is not None:
            write_first_candidates(project, self.method, self.first)
        write_final_set(project, self.method, self.method.stages[-1], self.final)


class _FinishedProject(Project):
    """A folder with the public and released values of one release in memory."""

    def __init__(self, base: Path, run: FinishedRun) -> None:
        super().__init__(base, settings=run.settings, rehearse=require_rehearsal)
        self._run, self._embeddings = run, EmbeddingsInMemory()
        ledger = run.ledger
        self.__dict__ |= {"schema": run.schema, "state": ledger.state, "plan": run.plan}

    def ledger(self, *, rehearse: bool = True) -> Ledger:
        return self._run.ledger

    def encoder(self, *, private: bool) -> Encoder:
        assert not private
        return Encoder(self.settings.embedding, cache=self._embeddings)
