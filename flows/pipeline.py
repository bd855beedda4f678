"""Runs the pipeline as a Prefect flow, with one task for each stage that a chosen method needs.

DVC alone decides which stages are stale. No task is retried, because a stage that spends budget
would be charged twice. A stage retries calls to a language model itself. `python -m flows.pipeline`
needs no server. prefect.yaml and flows/weekly.py run the flow every week.

Prefect stores each line that a stage prints, so a stage prints public lines only. The reason of a
failure goes to the terminal and to reports/internal. If the reason is the cap on the dataset's
budget, the reason is public and becomes the state of the run.

`from __future__ import annotations` is missing on purpose. It would make each type a string. Then
flows/weekly.py fails, because Prefect sends the flow to a new process without the names of types.
"""

import sys
from pathlib import Path
from typing import Annotated

from prefect import flow, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.futures import PrefectFuture
from pydantic import Field
from rich.console import Console

from sugarbush.cli.runs import rehearse_before_run
from sugarbush.cli.settings import changed_settings, write_settings
from sugarbush.errors import SugarbushError
from sugarbush.pipeline.flow import (
    RunProgress,
    only_run,
    progress_artifact,
    publish_artifacts,
    read_stages,
    refuse_poor_release,
    run_stage,
    stale_stages,
)
from sugarbush.pipeline.open_project import open_project


@flow(name="sugarbush", log_prints=False)
def pipeline(
    force: bool = False,
    epsilon: Annotated[float, Field(gt=0)] | None = None,
    yes: bool = False,
) -> None:
    """Bring the release up to date. Only one run on a dataset is allowed at a time.

    Before a stage spends budget, a rehearsal judges the generator's first texts. A poor verdict
    fails the run.

    Prefect's user interface shows these arguments as a form. No argument changes the cap or trusts
    an endpoint. But a person who may start a run may also choose the command of a worker, and this
    command can read all files here. So give Prefect's password to the operator only.

    Args:
        force: Run every stage, also if nothing changed, and charge its budget again.
        epsilon: A new privacy.epsilon. The value is written to params.yaml for later runs too.
        yes: Go on although the rehearsal is poor.
    """
    base = Path()
    with only_run(base):
        if epsilon is not None:
            changed = changed_settings(base, assignments=[f"privacy.epsilon={epsilon}"])
            write_settings(base, changed)
        bring_up_to_date(force=force, yes=yes)


def bring_up_to_date(*, force: bool, yes: bool = False) -> None:
    """Rehearse if the run will spend budget. Run the stages that are out of date, and publish the
    results of the run as artifacts."""
    rehearse_before_run(
        open_project(Path()), Console(file=sys.stdout), force=force, accept_poor=yes
    )
    stages = read_stages()
    progress = RunProgress(stages.needed, progress_artifact())
    for name in stages.first:
        stage(name, stages.with_markers(name), progress, force)
    stale = set(stages.others) if force else stale_stages(stages)
    runs: dict[str, PrefectFuture[bool]] = {}
    for name in stages.others:
        if name in stale:
            inputs = [runs[each] for each in stages.inputs(name) if each in runs]
            targets = stages.with_markers(name)
            runs[name] = stage.submit(
                name, targets, progress, force, return_state=False, wait_for=inputs
            )
        else:
            progress.finish(name)
    # DVC still skips a stage if the earlier stages ran but wrote the same output again.
    ran = {name for name, run in runs.items() if run.result()}
    up_to_date = len(stages.needed) - len(ran)
    get_run_logger().info("%d of %d stages were up to date", up_to_date, len(stages.needed))
    publish_artifacts(stages, ran=ran)
    refuse_poor_release()  # the state of the run then names the verdict, and notifies


@task(cache_policy=NO_CACHE, retries=0, task_run_name="{name}")
def stage(name: str, targets: tuple[str, ...], progress: RunProgress, force: bool = False) -> bool:
    """Run a stage if it is out of date for DVC, after the stages that only write a marker.

    Return whether DVC ran the stage.
    """
    logger = get_run_logger()

    def say(line: str) -> None:
        logger.info(line)
        progress.hear(name, line)

    ran = run_stage(name, targets, force=force, say=say)
    progress.finish(name)
    return ran


if __name__ == "__main__":
    try:
        pipeline()
    except SugarbushError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
