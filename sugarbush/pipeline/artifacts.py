"""Reads the released artifacts of each stage into typed values, for notebooks and scripts.

    artifacts = Artifacts(Path("."))             # the folder with params.yaml
    artifacts.metadata().rows                  # the DP table, values instead of codes
    artifacts.lineage("maple").rounds[0].votes

Guarantee: this module reads only DP or public data (data/released, data/public, reports/public).
The module cannot load results that were computed on real texts.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sugarbush.data.schema import Schema, load_schema
from sugarbush.evolution.parts import Scored
from sugarbush.evolution.population import Population, load_population
from sugarbush.generators.interface import Usage
from sugarbush.paths import Roots, find_input, require
from sugarbush.pipeline.opening import open_project
from sugarbush.release.card_state import old_card_notice
from sugarbush.release.figures import given_labels
from sugarbush.release.folders import (
    donated_frame,
    read_lineage,
    read_metadata,
    read_release,
    readable,
    values_of,
)
from sugarbush.report.card import CARD_FILE, read_card
from sugarbush.run.settings import FILE, ProjectSettings, load_params


@dataclass(frozen=True, kw_only=True)
class ReleaseNote:
    """The content of release.json, such as the stage that wrote the folder. `records_per_unit` is
    the maximum number of records of one unit that were used. `charges` contains the complete ledger
    entries. `seal` is an HMAC of the other fields."""

    stage: str
    dataset: str
    purpose: str
    publishable: bool
    unit: str
    records_per_unit: int
    delta: float
    ledger_ids: tuple[str, ...]
    run: str
    charges: tuple[Mapping[str, Any], ...]
    seal: str


@dataclass(frozen=True, kw_only=True)
class Metadata:
    """The DP metadata. `rows` has one column per attribute, or is None if the run has no DP table.
    `label_counts` contains the noisy counts of one attribute's values, or is None if the run has no
    such counts."""

    rows: pd.DataFrame | None
    label_counts: pd.Series[float] | None
    note: ReleaseNote


@dataclass(frozen=True, kw_only=True)
class ReleasedStart:
    """A method's first candidates, one per row, and the cost of generating them."""

    candidates: pd.DataFrame
    usage: Usage
    note: ReleaseNote


@dataclass(frozen=True, kw_only=True)
class ReleasedRound:
    """One round. `candidates` has the columns `votes` (noisy votes or scores, in votes) and
    `survived`."""

    number: int
    candidates: pd.DataFrame
    usage: Usage

    @property
    def votes(self) -> pd.Series[float]:
        """The noisy votes by candidate id, in descending order."""
        return self.candidates.set_index("id")["votes"].sort_values(ascending=False)


@dataclass(frozen=True, kw_only=True)
class ReleasedLineage:
    """A method's rounds and its final texts. `synthetic` has one text per row, with the labels that
    were read from it, if the method is finished, and with its parent and round. `scored` are the
    candidates of a method that scores them once, with their noisy scores in column `votes`."""

    rounds: tuple[ReleasedRound, ...]
    scored: pd.DataFrame | None
    synthetic: pd.DataFrame
    note: ReleaseNote


@dataclass(frozen=True)
class Artifacts:
    """The artifacts of a run in `base`. Raises MissingInputError, which names the stage to run."""

    base: Path

    @cached_property
    def params(self) -> ProjectSettings:
        return load_params(self.base / FILE)

    @cached_property
    def schema(self) -> Schema:
        return load_schema(find_input(self.base, self.params.prepare.schema_))

    @property
    def roots(self) -> Roots:
        return Roots(self.base)

    def donated(self) -> pd.DataFrame:
        """Load the donated examples, with a column `text` and one column per attribute."""
        frame = donated_frame(self.roots)
        codes = frame[list(self.schema.names)].to_numpy(dtype=np.int64)
        return pd.DataFrame({"text": frame["text"], **values_of(codes, self.schema)})

    def metadata(self) -> Metadata:
        """Load what stage synthesize_metadata released."""
        found = read_metadata(self.roots)
        rows = label_counts = None
        if found.rows is not None:
            rows = pd.DataFrame(values_of(found.rows, self.schema))
        if found.labels is not None and found.label is not None:
            domain = list(self.schema.attribute(found.label).domain)
            label_counts = pd.Series(found.labels, index=domain, name=found.label)
        note = _note(self.roots.released / "metadata")
        return Metadata(rows=rows, label_counts=label_counts, note=note)

    def initial(self, method: str) -> ReleasedStart:
        """Load what stage initialise wrote for a method."""
        folder = require(self.roots.released / "initial" / method, left_by=f"initialise@{method}")
        path = folder / "candidates.parquet"
        return ReleasedStart(
            candidates=self._frame(load_population(path, self.schema.names)),
            usage=Usage(**json.loads((folder / "usage.json").read_text())),
            note=_note(folder),
        )

    def lineage(self, method: str) -> ReleasedLineage:
        """Load the rounds and the final texts of a method. Before stage enlarge has run, the final
        texts are the survivors of the last round."""
        enlarged = self.roots.released / "enlarge" / method
        folder = require(self.roots.released / "evolve" / method, left_by=f"evolve@{method}")
        folder = enlarged if (enlarged / "lineage.parquet").exists() else folder
        lineage = read_lineage(folder, self.schema)
        rounds = []
        for each in lineage.rounds:
            candidates = self._scored(each)
            candidates["survived"] = candidates.index.isin(each.survivors)
            rounds.append(
                ReleasedRound(number=each.number, candidates=candidates, usage=each.usage)
            )
        final = lineage.final
        synthetic = self._frame(final)
        if (folder / "labels.parquet").exists():
            synthetic = readable(final, self.schema, given_labels(folder))
            synthetic = synthetic.assign(parent=final.parents, round=final.rounds)
        scored = None if lineage.scored is None else self._scored(lineage.scored)
        return ReleasedLineage(
            rounds=tuple(rounds), scored=scored, synthetic=synthetic, note=_note(folder)
        )

    def card(self) -> dict[str, Any]:
        """Load the release card that stage report wrote, as plain values. Warns if it lacks later
        charges. Raises StorageError for a damaged card."""
        path = require(self.roots.published / CARD_FILE, left_by="report")
        if (notice := self._old_card_notice()) is not None:
            warnings.warn(notice, stacklevel=2)
        return read_card(path).to_json()

    def _old_card_notice(self) -> str | None:
        if not (self.base / FILE).exists():
            return None
        project = open_project(self.base)
        settings, ledger = project.settings, project.ledger(rehearse=False)
        if not ledger.path.exists():
            return None
        return old_card_notice(project.roots, settings.privacy, settings.released, ledger)

    def _scored(self, scored: Scored) -> pd.DataFrame:
        return self._frame(scored.population).assign(votes=scored.scores.value / scored.unit)

    def _frame(self, population: Population) -> pd.DataFrame:
        return pd.DataFrame(
            {
                "id": population.ids,
                "text": list(population.texts),
                "parent": population.parents,
                "round": population.rounds,
                **values_of(population.codes, self.schema),
            }
        )


def _note(folder: Path) -> ReleaseNote:
    fields = read_release(folder)
    lists = {name: tuple(fields.get(name, ())) for name in ("ledger_ids", "charges")}
    return ReleaseNote(**fields | lists)
