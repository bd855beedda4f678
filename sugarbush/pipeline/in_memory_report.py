"""Makes the report of a release in memory, by the code of stage report.

The report needs public and released values only. They are written to a temporary folder with the
layout of a project, which stage report reads.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from sugarbush.attributes.donated import DonatedCodes
from sugarbush.data.schema import Schema
from sugarbush.embedding.cache import EmbeddingsInMemory
from sugarbush.embedding.encoder import Encoder
from sugarbush.evolution.population import save_population
from sugarbush.methods.interface import FinalSet, Initial, Method
from sugarbush.paths import atomic_directory
from sugarbush.pipeline.metadata import STAGE, DrawnMetadata
from sugarbush.pipeline.method_output import method_output, write_final_set
from sugarbush.pipeline.project import Project
from sugarbush.pipeline.rehearsal import require_rehearsal
from sugarbush.pipeline.released import write_release
from sugarbush.pipeline.settings import ProjectSettings
from sugarbush.privacy.budget import BudgetPlan
from sugarbush.privacy.ledger import Ledger
from sugarbush.report.model import PublicData


def metadata_files(metadata: DrawnMetadata) -> dict[str, bytes]:
    """Read the files of finished DP metadata, which the state folder need not keep."""
    with tempfile.TemporaryDirectory(prefix="sugarbush-metadata-") as folder:
        metadata.save(Path(folder))
        return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


@dataclass(frozen=True, kw_only=True)
class ReportSource:
    """Everything that the report of a release in memory needs, without a private value.

    `metadata` contains the files of the DP metadata. `first` contains the first candidates, or None
    if the method has none. `ledger` is a snapshot at the end of the run.
    """

    settings: ProjectSettings
    schema: Schema
    method: Method
    final: FinalSet
    first: Initial | None
    metadata: Mapping[str, bytes] = field(repr=False)
    metadata_ids: tuple[str, ...]
    donated: DonatedCodes = field(repr=False)
    ledger: Ledger
    plan: BudgetPlan

    def public_data(self) -> PublicData:
        """Collect the values of the public page. The method must have a DP guarantee."""
        from sugarbush.pipeline.stages.report import public_data

        with tempfile.TemporaryDirectory(prefix="sugarbush-report-") as folder:
            project = _ReleaseProject(Path(folder), self)
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
        with atomic_directory(project.roots.public / "donated") as folder:
            self.donated.save(folder, self.schema.names)
        if (first := self.first) is not None:
            with method_output(
                project,
                self.method,
                "initialise",
                drawn_by=f"initialise@{self.method.name}",
                ledger_ids=first.ledger_ids,
                run=first.run,
            ) as folder:
                save_population(first.population, self.schema.names, folder / "candidates.parquet")
                (folder / "usage.json").write_text(json.dumps(asdict(first.usage)))
        write_final_set(project, self.method, self.method.stages[-1], self.final)


class _ReleaseProject(Project):
    """A folder with the public and released values of one release in memory."""

    def __init__(self, base: Path, source: ReportSource) -> None:
        super().__init__(base, settings=source.settings, rehearse=require_rehearsal)
        self._source, self._embeddings = source, EmbeddingsInMemory()
        ledger = source.ledger
        self.__dict__ |= {"schema": source.schema, "state": ledger.state, "plan": source.plan}

    def ledger(self) -> Ledger:
        return self._source.ledger

    def encoder(self, *, private: bool) -> Encoder:
        assert not private
        return Encoder(self.settings.embedding, cache=self._embeddings)
