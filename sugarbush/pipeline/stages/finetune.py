"""Trains a language model on the private texts.

Reads    data/private/{prepared,metadata}/train.parquet, data/released/metadata/ (the DP record
         count), data/public/pretrained/
Writes   data/released/finetune/<method>/  model and tokenizer, model_card.json, release.json
         data/private/                     checkpoints, until the run has ended
         <state>                           the number of noise draws, with the finished results
         reports/internal/<name>.json      values that are not DP
Spends   the share of training: Poisson-subsampled Gaussian steps, and the steps that a restart may
         repeat. The L2 sensitivity to one unit (add/remove) is clip_norm

A killed run continues from its last checkpoint and is not charged again.
"""

from __future__ import annotations

import json

from sugarbush.methods.interface import TrainedMethod
from sugarbush.paths import atomic_file, make_private
from sugarbush.pipeline.method_output import method_output
from sugarbush.release.folders import read_metadata
from sugarbush.run.choices import wants_new_draw
from sugarbush.run.context import Project
from sugarbush.run.tools import method_inputs

NAME = "finetune"


def run(project: Project, method: TrainedMethod) -> None:
    """Train a model or restore a trained model, and release it."""
    inputs = method_inputs(project, method, stage=NAME, metadata=read_metadata(project.roots))
    trained = method.finetune(inputs, forced=wants_new_draw())
    if trained is None:  # only the first process has the model
        return
    if trained.internal:
        project.ledger(rehearse=False).note_shown("training", of=[trained.run])
    for name, figures in trained.internal.items():
        make_private(project.roots.internal)
        with atomic_file(project.roots.internal / f"{name}.json") as path:
            path.write_text(json.dumps(figures, indent=1) + "\n")
    with method_output(
        project, method, NAME, drawn_by=NAME, ledger_ids=trained.ledger_ids, run=trained.run
    ) as folder:
        trained.save(folder)
