"""A grid of points on public data, of the kind that its file names, and the page of their figures.

    python -m research.sweep research/settings/sweep.yaml --jobs 2    # methods x budgets x seeds
    python -m research.sweep research/settings/crt_figures.yaml    # what trained models give away

Of the kind `pipelines` every point is a pipeline of its own, DVC underneath
(docs/decisions/sweeps.md);
of the kind `leakage` points are trained models, run in batches that share a corpus.

A killed sweep is started again by the same line and goes on where it was: what is finished is kept,
and what others have drawn is restored and charged once. A point that fails stops no other. The
table and the page are made of what there is.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from prefect import flow, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.futures import PrefectFuture
from prefect.task_runners import ThreadPoolTaskRunner

from sugarbush.pipeline import StageFailedError, run_dvc

PREPARED = "extract_metadata"  # the last stage that all points of a set have in common
MEASURED = "evaluate"


@flow(name="sugarbush-sweep", log_prints=False)
def sweep(file: str) -> None:
    """Bring every point of a sweep up to date, and its table."""
    {"pipelines": pipelines, "leakage": leakage}[
        run_module("research.sweep_layout", "kind", file).strip()
    ](file)


def pipelines(file: str) -> None:
    """Points that are pipelines: what a set's points have in common first, then all of them."""
    for ground in folders("grounds", file):
        run_dvc("repro", PREPARED, folder=ground, say=get_run_logger().info)
    # The first of a set runs alone: the others find its texts embedded.
    failed = run_all(folders("points", file), point.submit)
    # What lies in a failed point's folder is of settings that it had before.
    tell(
        "research.sweep_table", file, failed, *(["--without", *map(str, failed)] if failed else [])
    )


def leakage(file: str) -> None:
    """Points that are trained models, in batches that are not finished."""
    batches = [Path(line) for line in run_module("research.leakage_points", file).splitlines()]
    # The first of a set and model runs alone: the others find the first model trained.
    failed = run_all(batches, lambda own: batch.submit(own, file))
    tell("research.leakage_page", file, failed)


@task(cache_policy=NO_CACHE, retries=0, task_run_name="{folder.parent.name}/{folder.name}")
def point(folder: Path) -> None:
    """Run what DVC finds out of date at one point, up to its figures."""
    run_dvc("repro", MEASURED, folder=folder, say=get_run_logger().info)


@task(cache_policy=NO_CACHE, retries=0, task_run_name="{own}")
def batch(own: Path, file: str) -> None:
    """Train and measure what is not finished of a batch, one point after the other."""
    run_module("research.leakage_batch", file, str(own))


def run_all(wanted: list[Path], submit: Callable[[Path], PrefectFuture[None]]) -> list[Path]:
    """Run the first of each group alone and then the others; what failed."""
    runs = {}
    for first in first_of_each_group(wanted):
        runs[first] = submit(first)
        runs[first].wait()
    runs |= {each: submit(each) for each in wanted if each not in runs}
    states = {each: run.wait() or run.state for each, run in runs.items()}
    failed = [each for each, state in states.items() if not state.is_completed()]
    get_run_logger().info("%d of %d are finished", len(runs) - len(failed), len(runs))
    return failed


def tell(page: str, file: str, failed: list[Path], *arguments: str) -> None:
    """Make the page of what there is. Raises StageFailedError naming what `failed`."""
    run_module(page, file, *arguments)
    if failed:
        raise StageFailedError(f"failed, the rest is in the table: {', '.join(map(str, failed))}")


def first_of_each_group(wanted: list[Path]) -> list[Path]:
    """Those that make what the others of a folder find made; two at once would do it twice."""
    firsts: dict[Path, Path] = {}
    for each in wanted:
        firsts.setdefault(each.parent, each)
    return list(firsts.values())


def folders(what: str, file: str) -> list[Path]:
    """Lay out the grounds or the points of a sweep; their folders."""
    return [Path(line) for line in run_module("research.sweep_layout", what, file).splitlines()]


def run_module(module: str, *arguments: str) -> str:
    """Run a module of this checkout; what it printed. It says on the terminal why it failed."""
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
    """Run a sweep; the cores are shared out among its points."""
    cores = os.cpu_count() or 1
    parser = argparse.ArgumentParser(prog="python -m research.sweep", description=__doc__)
    parser.add_argument("file", help="the sweep, such as research/settings/sweep.yaml")
    parser.add_argument("--jobs", type=int, default=max(1, cores // 2), help="points at a time")
    asked = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, cores // asked.jobs)))
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    try:
        with_jobs = sweep.with_options(task_runner=ThreadPoolTaskRunner(max_workers=asked.jobs))
        with_jobs(asked.file)
    except StageFailedError as error:
        print(error, file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
