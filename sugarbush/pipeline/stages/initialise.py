"""Writes the first candidates of a method.

Reads    data/released/metadata/, data/public/donated/, the schema
Writes   data/released/initial/<method>/  candidates.parquet, usage.json, release.json
Spends   nothing. The candidates are post-processing of the DP metadata
"""

from __future__ import annotations

from sugarbush.methods.of_parts import PartsMethod
from sugarbush.pipeline.method_output import write_first_candidates
from sugarbush.pipeline.method_stages import first_candidates
from sugarbush.rehearsal.preflight import preflight
from sugarbush.release.folders import read_metadata
from sugarbush.run.context import Project
from sugarbush.run.tools import method_inputs

NAME = "initialise"


def run(project: Project, method: PartsMethod) -> None:
    """Request the first candidates from the generator, and store the usable answers."""
    if method.stays_private:
        preflight(project)
    metadata = read_metadata(project.roots)
    inputs = method_inputs(project, method, stage=NAME, metadata=metadata)
    first = first_candidates(method, inputs)
    write_first_candidates(project, method, first)
