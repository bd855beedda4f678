"""Gives the results of one run behind one interface: from a folder, or from memory.

The card, the pages and a publication read a release by `ReleasedRun`. Everything in it is DP or
public. `FolderRun` reads what the stages wrote; `pipeline.finished_run` has the results of a run in
memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from sugarbush.attributes.agreement import Agreement
from sugarbush.attributes.reader import Labels
from sugarbush.data.schema import Schema
from sugarbush.evolution.inputs import MetadataRelease
from sugarbush.evolution.parts import Lineage
from sugarbush.generators.interface import Usage
from sugarbush.methods.interface import Method
from sugarbush.paths import Roots, require
from sugarbush.release.figures import MeasuredFigures, given_labels, read_figures
from sugarbush.release.folders import (
    donated_frame,
    final_folder,
    first_folder,
    metadata_in,
    read_ledger_ids,
    read_lineage,
    texts_as_lines,
)
from sugarbush.tables.dp_table import DpTable


@dataclass(frozen=True, kw_only=True)
class ReleasedMetadata:
    """The DP metadata of a run. `table` is None if the run has no DP table. `described` says how
    the metadata were drawn."""

    values: MetadataRelease
    described: Mapping[str, Any]
    table: DpTable | None = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class MethodTexts:
    """The final texts of a method with their lineage, and the labels that are published.

    `usage` has the use of the generator in each step. `ledger_ids` are the charges of the texts.
    """

    lineage: Lineage = field(repr=False)
    labels: Labels = field(repr=False)
    usage: Mapping[str, Usage]
    ledger_ids: tuple[str, ...]

    def lines(self, schema: Schema) -> str:
        """Return the texts as JSON lines, as they are published."""
        return texts_as_lines(self.lineage.final, schema, self.labels)


class ReleasedRun(Protocol):
    """The results of one run. Nothing in it is private."""

    def metadata(self) -> ReleasedMetadata:
        """Return the DP metadata."""

    def figures(self) -> MeasuredFigures | None:
        """Return the public figures, or None if they were not measured."""

    def texts_of(self, method: Method) -> MethodTexts:
        """Return the final texts of a released method."""

    def donated_texts(self) -> tuple[str, ...]:
        """Return the donated examples."""

    def agreements(self) -> tuple[Agreement, ...]:
        """Return how often attributes read from donated examples equal their labels."""


def read_released_metadata(
    folders: Iterable[Path], described: Mapping[str, Any], *, ledger_ids: tuple[str, ...]
) -> ReleasedMetadata:
    """Read the DP metadata in `folders`."""
    import pandas as pd

    folders, table = tuple(folders), None
    for folder in folders:
        if (folder / "rows.parquet").exists():
            rows = pd.read_parquet(folder / "rows.parquet").to_numpy(dtype=np.int64)
            table = DpTable.from_json(json.loads((folder / "table.json").read_text()), rows)
    values = metadata_in(folders, label=described["label"], ledger_ids=ledger_ids)
    return ReleasedMetadata(values=values, described=described, table=table)


@dataclass(frozen=True)
class FolderRun:
    """The results in the folders of a project. Raises MissingInputError, which names the stage."""

    roots: Roots
    schema: Schema

    def metadata(self) -> ReleasedMetadata:
        folder = require(self.roots.released / "metadata", left_by="synthesize_metadata")
        described = json.loads((folder / "metadata.json").read_text())
        return read_released_metadata([folder], described, ledger_ids=read_ledger_ids(folder))

    def figures(self) -> MeasuredFigures | None:
        return read_figures(self.roots)

    def texts_of(self, method: Method) -> MethodTexts:
        folder = final_folder(self.roots, method)
        steps: dict[str, Any] = {}
        if (first := first_folder(self.roots, method)) is not None:
            steps["first candidates"] = json.loads((first / "usage.json").read_text())
        steps |= json.loads((folder / "usage.json").read_text())
        return MethodTexts(
            lineage=read_lineage(folder, self.schema),
            labels=given_labels(folder),
            usage={name: Usage(**fields) for name, fields in steps.items()},
            ledger_ids=read_ledger_ids(folder),
        )

    def donated_texts(self) -> tuple[str, ...]:
        return tuple(donated_frame(self.roots)["text"])

    def agreements(self) -> tuple[Agreement, ...]:
        folder = require(self.roots.public / "donated", left_by="extract_metadata")
        rows = json.loads((folder / "agreement.json").read_text())
        return tuple(Agreement(**row) for row in rows)
