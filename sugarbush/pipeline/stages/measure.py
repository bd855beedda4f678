"""Measures public figures of quality of each released method.

Reads    data/private/, data/released/{enlarge,generate}/<method>/, the schema
Writes   data/released/figures/   figures.json, release.json
Spends   the share evaluate.public: three mechanisms for each method, with discrete Gaussian noise

The stage runs only if `evaluate.public` is set.
"""

from __future__ import annotations

from sugarbush.paths import atomic_directory
from sugarbush.quality.measure import STAGE, measure
from sugarbush.release.figures import MeasuredRelease
from sugarbush.release.folders import (
    FIGURES,
    final_folder,
    load_labels,
    read_ledger_ids,
    read_lineage,
    write_release,
)
from sugarbush.run.choices import wants_new_draw
from sugarbush.run.context import Project


def releases_of(project: Project) -> dict[str, MeasuredRelease]:
    """Read the texts, the labels and the charges of each released method."""
    found = {}
    for method in project.settings.released:
        folder = final_folder(project.roots, method)
        lineage = read_lineage(folder, project.schema)
        found[method.name] = MeasuredRelease(
            texts=lineage.final.texts,
            labels=load_labels(folder),
            ledger_ids=read_ledger_ids(folder),
        )
    return found


def run(project: Project) -> None:
    """Draw the public figures, or restore earlier results, and apply the rule."""
    releases = releases_of(project)
    figures = measure(project, releases, forced=wants_new_draw())
    with atomic_directory(project.roots.released / "figures") as folder:
        (folder / FIGURES).write_text(figures.to_json(), encoding="utf-8")
        write_release(
            folder,
            stage=STAGE,
            privacy=project.settings.privacy,
            ledger_ids=figures.ledger_ids,
            run=figures.run,
            ledger=project.ledger(),
        )
