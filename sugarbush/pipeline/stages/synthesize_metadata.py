"""Draws the DP metadata: a synthetic table by AIM, and DP counts of one attribute.

Reads    data/private/metadata/train.parquet
Writes   data/released/metadata/     rows.parquet, table.json, labels.npy, metadata.json,
                                     release.json
Spends   the share of the metadata. The table needs AIM, one Gaussian-DP mechanism. The counts need
         a histogram with discrete Gaussian noise and L2 sensitivity 1 to a record. The stage draws
         only the results that a method starts from
"""

from __future__ import annotations

from sugarbush.paths import atomic_directory
from sugarbush.pipeline.metadata import STAGE, MetadataRequest
from sugarbush.rehearsal.preflight import preflight
from sugarbush.release.folders import write_release
from sugarbush.run.choices import wants_new_draw
from sugarbush.run.context import Project


def run(project: Project) -> None:
    """Draw the DP metadata of the plan, or restore earlier results."""
    drawn = MetadataRequest(project).release(
        forced=wants_new_draw(), before_charge=lambda: preflight(project)
    )
    with atomic_directory(project.roots.released / "metadata") as folder:
        drawn.save(folder)
        write_release(
            folder,
            stage=STAGE,
            privacy=project.settings.privacy,
            ledger_ids=drawn.ledger_ids,
            run=drawn.run,
            ledger=project.ledger(),
        )
