"""Writes texts with a trained model.

Reads    data/released/finetune/<method>/, data/released/metadata/; with `scored_texts`, the
         embeddings of data/private/prepared/train.parquet
Writes   data/released/generate/<method>/  synthetic.jsonl, synthetic.parquet, lineage.parquet,
                                           labels.parquet, labels.json, usage.json, release.json
Spends   nothing without `scored_texts`. With it, the share of one noisy sum of scores. The rest is
         post-processing of released values
"""

from __future__ import annotations

from sugarbush.methods.interface import TrainedMethod
from sugarbush.paths import require
from sugarbush.pipeline.method_output import write_final_set
from sugarbush.pipeline.method_stages import generated
from sugarbush.release.folders import (
    FILE,
    method_folder,
    read_metadata,
    restored,
)
from sugarbush.run.choices import wants_new_draw
from sugarbush.run.context import Project
from sugarbush.run.tools import method_inputs

NAME = "generate"


def run(project: Project, method: TrainedMethod) -> None:
    """Sample codes, and write a text for each row of codes."""
    folder = method_folder(project.roots, method, "finetune")
    require(folder / FILE, left_by=f"finetune@{method.name}")
    inputs = method_inputs(project, method, stage=NAME, metadata=read_metadata(project.roots))
    model = restored(folder, folder)
    final = generated(method, inputs, model, forced=wants_new_draw())
    write_final_set(project, method, NAME, final)
