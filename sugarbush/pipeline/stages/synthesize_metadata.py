"""DP metadata: a synthetic table by AIM, and DP counts of one label.

Reads    data/private/metadata/train.parquet
Writes   data/released/metadata/     rows.parquet, table.json, labels.npy, metadata.json,
                                     release.json
Spends   its share: AIM as one Gaussian-DP mechanism where a method starts from the table, one
         discrete-Gaussian histogram (L2 sensitivity 1 to a record) where one starts from counts
"""

from __future__ import annotations

from sugarbush.paths import atomic_directory
from sugarbush.pipeline.forced import was_forced
from sugarbush.pipeline.metadata import STAGE
from sugarbush.pipeline.preflight import preflight
from sugarbush.pipeline.project import Project
from sugarbush.pipeline.released import write_release


def run(project: Project) -> None:
    """Draw the metadata of the plan, or restore earlier results."""
    request = project.metadata_request()
    drawn = request.release(forced=was_forced(), before_charge=lambda: preflight(project))
    with atomic_directory(project.roots.released / "metadata") as folder:
        drawn.save(folder)
        write_release(
            folder,
            stage=STAGE,
            privacy=project.settings.privacy,
            ledger_ids=drawn.ledger_ids,
            run=drawn.run,
        )
