"""Draws the DP metadata of a run, or restores finished metadata from the result store."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sugarbush import versions
from sugarbush.evaluation.first_look import NAMES as LOOK
from sugarbush.evolution.inputs import MetadataRelease
from sugarbush.evolution.population import NO_CODE
from sugarbush.evolution.starts import LABELS, METADATA
from sugarbush.privacy.data_types import Released
from sugarbush.privacy.mechanisms import noisy_histogram
from sugarbush.privacy.results import LEDGER_IDS, ResultStore
from sugarbush.privacy.session import PrivacySession
from sugarbush.randomness import public_rng
from sugarbush.release.folders import metadata_in
from sugarbush.release.store import ReleasedMetadata, read_released_metadata
from sugarbush.run.context import Project
from sugarbush.run.ledgers import open_store
from sugarbush.run.records import corpus_of
from sugarbush.run.tools import label_of
from sugarbush.tables.engines import synthesize_table

STAGE = "synthesize_metadata"


@dataclass(frozen=True)
class MetadataRequest:
    """A request for the DP metadata that a project's methods need."""

    project: Project

    def cache_key(self) -> dict[str, Any]:
        """Return the cache key, which contains everything that the results depend on."""
        project = self.project
        return {
            "version": versions.METADATA,
            "corpus": project.inputs.names()["codes"],
            "schema": project.schema.fields_for_private_results(),
            "settings": project.settings.synthesize_metadata.model_dump(mode="json"),
            "seed": project.settings.seed,
            "privacy": project.settings.privacy.promise,
            "plan": {request: project.plan.of(request).mu for request in self._requests},
        }

    @property
    def _requests(self) -> tuple[str, ...]:
        return tuple(request for request in (METADATA, LABELS) if self.project.plan.holds(request))

    def release(
        self, *, forced: bool, before_charge: Callable[[], None] = lambda: None
    ) -> DrawnMetadata:
        """Draw the DP metadata of the plan, or restore earlier results. A run that cannot finish
        must not spend budget. So the cap must allow the whole run. `before_charge` checks
        everything else that could stop the run."""
        with open_store(self.project, STAGE, self.cache_key(), forced=forced) as store:
            missing = [request for request in self._requests if store.finished(request) is None]
            if missing:
                finished = set(self._requests) - set(missing)
                finished.update(LOOK if self.project.look is not None else ())
                waiting = [a.event for a in self.project.plan.allocations if a.name not in finished]
                self._session(store).check(waiting)
                before_charge()
            session = self._session(store)
            for request in missing:
                if request == LABELS:
                    store.array(request, lambda: self._draw_labels(session))
                else:
                    store.drawn(request, lambda folder: self._draw_table(folder, session))
            folders = tuple(store.folder / request for request in self._requests)
        look = self.project.look
        return DrawnMetadata(
            folders=folders,
            described=self._described(),
            run=store.run,
            before=() if look is None else look.ledger_ids,
        )

    def _session(self, store: ResultStore) -> PrivacySession:
        project = self.project
        return corpus_of(project).session(
            ledger=project.ledger(), stage=STAGE, run=store.run, plan=project.plan.planned
        )

    def _draw_table(self, folder: Path, session: PrivacySession) -> tuple[str, ...]:
        schema, settings = self.project.schema, self.project.settings.synthesize_metadata
        named = settings.attributes
        wanted = schema.names if named is None else [schema.attribute(n).name for n in named]
        names = [name for name in schema.names if name in wanted]
        table = synthesize_table(
            corpus_of(self.project).code_shards(names),
            {name: schema.domain[name] for name in names},
            mu=self.project.plan.of(METADATA).mu,
            params=settings,
            session=session,
            rng=public_rng(self.project.settings.seed, "table"),
            rules=schema.category_rules,
        )
        rows = pd.DataFrame(table.rows.value, columns=names)
        rows.reindex(columns=list(schema.names), fill_value=NO_CODE).to_parquet(
            folder / "rows.parquet", index=False
        )
        (folder / "table.json").write_text(json.dumps(table.to_json()))
        return table.rows.ledger_ids

    def _draw_labels(self, session: PrivacySession) -> Released[NDArray[np.int64]]:
        project, schema, label = self.project, self.project.schema, label_of(self.project)
        return noisy_histogram(
            corpus_of(project).code_shards([label]).map_batch(lambda table: table[:, 0]),
            size=len(schema.attribute(label).domain),
            stddev=project.plan.of(LABELS).stddev,
            session=session,
        )

    def _described(self) -> dict[str, Any]:
        project, plan = self.project, self.project.plan
        engine, counted = project.settings.synthesize_metadata.engine, plan.holds(LABELS)
        return {
            "engine": engine.value if plan.holds(METADATA) else None,
            "label": label_of(project) if counted else None,
            "label_stddev": plan.of(LABELS).stddev if counted else None,
            "attributes": {a.name: list(a.domain) for a in project.schema.attributes},
        }


@dataclass(frozen=True, kw_only=True)
class DrawnMetadata:
    """Contains the folders of finished metadata in the result store.

    `before` are the charges of the first look, on which the metadata depend.
    """

    folders: tuple[Path, ...]
    described: Mapping[str, Any]
    run: str
    before: tuple[str, ...] = ()

    @property
    def ledger_ids(self) -> tuple[str, ...]:
        found = (json.loads((f / LEDGER_IDS).read_text()) for f in self.folders)
        return tuple(dict.fromkeys((*self.before, *(i for ids in found for i in ids))))

    def save(self, folder: Path) -> None:
        """Copy the results into the folder of a release."""
        for source in self.folders:
            for path in source.iterdir():
                if path.name != LEDGER_IDS:
                    shutil.copy(path, folder / path.name)
        (folder / "metadata.json").write_text(json.dumps(self.described, indent=1))

    def released(self) -> ReleasedMetadata:
        """Read the results, which the state folder need not keep."""
        return read_released_metadata(self.folders, self.described, ledger_ids=self.ledger_ids)

    def value(self) -> MetadataRelease:
        return metadata_in(self.folders, label=self.described["label"], ledger_ids=self.ledger_ids)
