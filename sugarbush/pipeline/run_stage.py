"""Runs a stage in a project, and is the entry point of the modules `tasks/<name>.py`."""

from __future__ import annotations

import argparse
import gc
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from sugarbush.closed_output import output_may_close
from sugarbush.pipeline.dvc_lock import copy_lock
from sugarbush.pipeline.stage import Stage

if TYPE_CHECKING:  # slow imports
    from sugarbush.methods.interface import Method
    from sugarbush.run.context import Project
    from sugarbush.run.observers import StageExecution


def execute(stage: Stage, project: Project, method: Method | None = None) -> None:
    """Run a stage of a project in this process, or skip a stage that no method needs.

    `method` is needed by a stage that runs for each method.
    """
    copy_lock(project.base)
    if not stage.is_needed(project.settings, method):
        stage.skip(project.base, method)
        return
    # Slow imports, which a skipped stage does not need.
    from sugarbush.pipeline.foreign_releases import refuse_foreign_releases
    from sugarbush.run.observers import observed
    from sugarbush.run.records import require_prepared
    from sugarbush.run.usable_inputs import require_packages, require_usable_project

    require_packages(project.settings, project.base)
    refuse_foreign_releases(project)
    if stage.spends or (method is not None and method.stays_private):
        require_usable_project(project)
    if stage.reads_records and _scores_or_trains(stage, method):
        require_prepared(project)
    function = import_module(stage.module).run
    with observed(_execution(stage, project, method)):
        if stage.by_method:
            function(project, method)
        else:
            function(project)


def _execution(stage: Stage, project: Project, method: Method | None) -> StageExecution:
    from sugarbush.run.observers import StageExecution

    name = "" if method is None else method.name
    return StageExecution(
        stage=stage.name,
        method=None if method is None else method.name,
        dataset=project.dataset,
        base=project.base,
        inputs=tuple(path.format(method=name) for path in stage.inputs),
        outputs=tuple(output.path.format(method=name) for output in stage.outputs),
        published=project.roots.published,
    )


def _scores_or_trains(stage: Stage, method: Method | None) -> bool:
    """Return whether the stage opens the records. Stage generate does so for scores alone."""
    return stage.name != "generate" or getattr(method, "record_scorer", None) is not None


def run_stage(name: str) -> None:
    """Run a stage in the current folder, as `python -m tasks.<name>` does. After a failure, print
    one message without private data, and exit with the error's code."""
    from sugarbush.pipeline.parent_death import die_with_dvc

    die_with_dvc()  # must come before the slow imports below
    gc.set_threshold(50_000, 20, 20)  # objects of imports live until the end of the process
    from sugarbush.pipeline.graph import stage_named
    from sugarbush.run.error_report import run_with_error_report
    from sugarbush.run.settings import FILE, load_params

    stage = stage_named(name)
    parser = argparse.ArgumentParser(prog=f"python -m tasks.{name}")
    if stage.by_method:
        parser.add_argument("--method", required=True)
    method_name: str | None = getattr(parser.parse_args(), "method", None)

    def run(base: Path) -> None:
        copy_lock(base)
        settings = load_params(base / FILE)
        method = None if method_name is None else settings.method(method_name)
        if not stage.is_needed(settings, method):
            stage.skip(base, method)
            return
        from sugarbush.pipeline.opening import open_project  # slow

        execute(stage, open_project(base, settings=settings), method)

    with output_may_close():
        run_with_error_report(name if method_name is None else f"{name}@{method_name}", run)
