"""Writes further texts up to the size of the release, from released values only.

Reads    data/released/evolve/<method>/, data/released/metadata/, data/public/donated/, the schema
Writes   data/released/enlarge/<method>/  the output of evolve with the texts of the release, and
                                          synthetic.jsonl, synthetic.parquet, labels.parquet,
                                          labels.json
Spends   nothing, because the stage reads no record
"""

from __future__ import annotations

from sugarbush.methods.of_parts import PartsMethod
from sugarbush.pipeline.method_output import write_final_set
from sugarbush.release.folders import read_final_set, read_metadata
from sugarbush.run.context import Project
from sugarbush.run.tools import method_inputs

NAME = "enlarge"


def run(project: Project, method: PartsMethod) -> None:
    """Write further texts up to the size of the release."""
    inputs = method_inputs(project, method, stage=NAME, metadata=read_metadata(project.roots))
    final = method.enlarge(inputs, read_final_set(project.roots, method, project.schema))
    write_final_set(project, method, NAME, final)
