"""What fine-tuning costs: its schedule from the DP record count, its noise from the whole plan.

Apart from `sugarbush.pipeline.budget`, since it can be told only once the metadata stage has run.
"""

from __future__ import annotations

import json

from sugarbush.paths import Roots, require
from sugarbush.pipeline.budget import TRAINING, plan_for
from sugarbush.pipeline.settings import ProjectSettings
from sugarbush.privacy.budget import BudgetPlan, Subsampling, with_subsampling
from sugarbush.training.dpsgd.sampling import Schedule, make_schedule


def schedule_of(params: ProjectSettings, roots: Roots) -> Schedule:
    """Rate and steps, from `finetune.<preset>.records` or else the DP record count.

    Units are reckoned as few as they can be: the count over `privacy.records_per_user`. Where most
    persons have fewer records, a step takes more of them than `batch_size`, at the rate that is
    accounted for (docs/decisions/0006-a-person-as-the-unit.md).
    """
    settings = params.finetune.chosen
    count = settings.records
    if count is None:
        path = require(roots.released / "metadata" / "table.json", left_by="synthesize_metadata")
        records = float(json.loads(path.read_text())["record_count"])
        count = records / params.privacy.records_per_user
    return make_schedule(batch_size=settings.batch_size, epochs=settings.epochs, unit_count=count)


def full_plan(params: ProjectSettings, roots: Roots) -> BudgetPlan:
    """The plan of the run with its training's noise; repeatable steps are paid for like others."""
    plan = plan_for(params)
    if not plan.holds(TRAINING):
        return plan
    schedule = schedule_of(params, roots)
    steps = schedule.steps + params.finetune.chosen.repeatable_steps
    return with_subsampling(
        plan,
        {TRAINING: Subsampling(rate=schedule.rate, steps=steps)},
        epsilon=params.privacy.epsilon,
    )
