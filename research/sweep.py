"""Runs a grid of points on public data and writes a page of their figures.

    python -m research.sweep research/settings/sweep.yaml --jobs 2    # methods x epsilons x seeds
    python -m research.sweep research/settings/crt_figures.yaml    # what trained models leak

The grid file states the kind of its points. A point of the kind `pipelines` is a separate pipeline
that DVC runs (docs/decisions/sweeps.md). A point of the kind `leakage` is a trained model. Points
with the same corpus run in one batch.

To resume a killed sweep, run the same command again. The command skips finished points. Results
that several points need are drawn and charged once. If a point fails, the other points still run.
The table and the page contain the finished points.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.futures import PrefectFuture
from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner

from sugarbush.pipeline import StageFailedError, run_dvc

PREPARED = "extract_metadata"  # all points of a data set share the stages up to this stage
MEASURED = "evaluate"


@flow(name="sugarbush-sweep", log_prints=False)
def sweep(file: str) -> None:
    """Run every unfinished point of a sweep, then write its table."""
    {"pipelines": pipelines, "leakage": leakage}[
        run_module("research.sweep_layout", "kind", file).strip()
    ](file)


def pipelines(file: str) -> None:
    """Run a sweep of pipelines: first the common stages of each data set, then all points."""
    for ground in folders("grounds", file):
        run_dvc("repro", PREPARED, folder=ground, say=get_run_logger().info)
    # The first point of a data set runs alone and embeds the texts for all other points.
    failed = run_all(folders("points", file), point.submit)
    # The folder of a failed point may have files of earlier settings.
    tell(
        "research.sweep_table", file, failed, *(["--without", *map(str, failed)] if failed else [])
    )


def leakage(file: str) -> None:
    """Run all unfinished batches of a leakage grid."""
    batches = [Path(line) for line in run_module("research.leakage_points", file).splitlines()]
    # The first batch of a data set and model runs alone, and trains the first model for the other
    # batches.
    failed = run_all(batches, lambda own: batch.submit(own, file))
    tell("research.leakage_page", file, failed)


@task(cache_policy=NO_CACHE, retries=0, task_run_name="{folder.parent.name}/{folder.name}")
def point(folder: Path) -> None:
    """Run the stale stages of one point, up to the stage that writes its figures."""
    run_dvc("repro", MEASURED, folder=folder, say=get_run_logger().info)


@task(cache_policy=NO_CACHE, retries=0, task_run_name="{own}")
def batch(own: Path, file: str) -> None:
    """Train and measure the unfinished points of a batch, one after the other."""
    run_module("research.leakage_batch", file, str(own))


def run_all(wanted: list[Path], submit: Callable[[Path], PrefectFuture[None]]) -> list[Path]:
    """Run the first item of each group alone, and then all others. Return the items that failed."""
    runs = {}
    for first in first_of_each_group(wanted):
        runs[first] = submit(first)
        runs[first].wait()
    runs |= {each: submit(each) for each in wanted if each not in runs}
    for run in runs.values():
        run.wait()
    failed = [each for each, run in runs.items() if not run.state.is_completed()]
    get_run_logger().info("%d of %d are finished", len(runs) - len(failed), len(runs))
    return failed


def tell(page: str, file: str, failed: list[Path], *arguments: str) -> None:
    """Write the page of the finished points. Raises StageFailedError if `failed` is not empty."""
    run_module(page, file, *arguments)
    if failed:
        raise StageFailedError(f"failed points (not in the table): {', '.join(map(str, failed))}")


def first_of_each_group(wanted: list[Path]) -> list[Path]:
    """Return the first item of each parent folder.

    The other items of the folder reuse results of the first item. If all items started at the same
    time, each item would compute these results.
    """
    firsts: dict[Path, Path] = {}
    for each in wanted:
        firsts.setdefault(each.parent, each)
    return list(firsts.values())


def folders(what: str, file: str) -> list[Path]:
    """Make the folders of a sweep, and return their paths.

    `what` is `grounds` (one folder per data set) or `points` (one folder per point).
    """
    return [Path(line) for line in run_module("research.sweep_layout", what, file).splitlines()]


def run_module(module: str, *arguments: str) -> str:
    """Run a module of this checkout and return its output.

    A module that fails prints the reason on the terminal. Then this function raises
    StageFailedError.
    """
    command = [
        sys.executable,
        "-m",
        "sugarbush.pipeline.run_with_parent",
        str(os.getpid()),
        module,
        *arguments,
    ]
    finished = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if finished.returncode != 0:
        raise StageFailedError(f"{module} failed")
    return finished.stdout


def main() -> None:
    """Run a sweep. Points that run at the same time share the cores."""
    cores = os.cpu_count() or 1
    parser = argparse.ArgumentParser(prog="python -m research.sweep", description=__doc__)
    parser.add_argument("file", help="the sweep, such as research/settings/sweep.yaml")
    parser.add_argument("--jobs", type=int, default=max(1, cores // 2), help="points in parallel")
    asked = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, cores // asked.jobs)))
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    try:
        runner: TaskRunner[Any] = ThreadPoolTaskRunner(max_workers=asked.jobs)
        sweep.with_options(task_runner=runner)(asked.file)
    except StageFailedError as error:
        print(error, file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
