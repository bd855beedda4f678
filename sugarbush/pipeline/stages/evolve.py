"""Runs rounds of private votes and public variation, from the first candidates to the final set.

Reads    data/released/initial/<method>/, data/private/prepared/train.parquet,
         data/private/metadata/train.parquet (the labels of votes by label)
Writes   data/released/evolve/<method>/  lineage.parquet, round_NNN/, usage.json, release.json
Spends   the share of the votes: per round, one histogram or one sum of kernel scores, with discrete
         Gaussian noise. The L2 sensitivity to one record (add/remove) is 1 for a histogram, and
         RESOLUTION for kernel scores
"""

from __future__ import annotations

from sugarbush.methods.interface import OneStageMethod
from sugarbush.pipeline.method_output import write_final_set
from sugarbush.pipeline.method_stages import evolved
from sugarbush.rehearsal.preflight import preflight
from sugarbush.release.folders import first_candidates, read_metadata
from sugarbush.run.choices import wants_new_draw
from sugarbush.run.context import Project
from sugarbush.run.tools import method_inputs

NAME = "evolve"


def run(project: Project, method: OneStageMethod) -> None:
    """Run the rounds and release the result. Finished rounds are restored."""
    if method.stages[0] == NAME and method.facts.asks_generator:  # nothing is checked yet
        preflight(project)
    inputs = method_inputs(project, method, stage=NAME, metadata=read_metadata(project.roots))
    first = first_candidates(project.roots, method, project.schema)
    final = evolved(method, inputs, first, forced=wants_new_draw())
    write_final_set(project, method, NAME, final)
