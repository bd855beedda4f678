"""Methods x budgets x seeds on public data: every point a pipeline of its own, DVC underneath.

    python -m flows.sweep settings/sweep.yaml --jobs 2

A killed sweep is started again by the same line and goes on where it was: points that are finished
are up to date to DVC, and what others have drawn is restored and charged once. A point that fails
stops no other. The table and the page are made of what there is (docs/decisions/0510).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from prefect import flow, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.task_runners import ThreadPoolTaskRunner

from flows.pipeline import StageFailedError, run_dvc

PREPARED = "extract_metadata"  # the last stage that all points of a set have in common
MEASURED = "evaluate"


@flow(name="sugarbush-sweep", log_prints=False)
def sweep(file: str) -> None:
    """Bring every point of a sweep up to date, and its table."""
    for ground in folders("grounds", file):
        run_dvc("repro", PREPARED, folder=ground)
    wanted = folders("points", file)
    runs = {}
    for folder in first_of_each_set(wanted):  # alone: the others find its texts embedded
        runs[folder] = point.submit(folder)
        runs[folder].wait()
    runs |= {folder: point.submit(folder) for folder in wanted if folder not in runs}
    states = {folder: run.wait() or run.state for folder, run in runs.items()}
    failed = [folder for folder, state in states.items() if not state.is_completed()]
    get_run_logger().info("%d of %d points are finished", len(runs) - len(failed), len(runs))
    house("tasks.sweep_table", file)
    if failed:
        raise StageFailedError(f"failed, the rest is in the table: {', '.join(map(str, failed))}")


@task(cache_policy=NO_CACHE, retries=0, task_run_name="{folder.parent.name}/{folder.name}")
def point(folder: Path) -> None:
    """Run what DVC finds out of date at one point, up to its figures."""
    run_dvc("repro", MEASURED, folder=folder)


def first_of_each_set(points: list[Path]) -> list[Path]:
    """The points that embed their set's texts; two at once would embed them twice."""
    firsts: dict[Path, Path] = {}
    for folder in points:
        firsts.setdefault(folder.parent, folder)
    return list(firsts.values())


def folders(what: str, file: str) -> list[Path]:
    """Lay out the grounds or the points of a sweep; their folders."""
    return [Path(line) for line in house("tasks.sweep", what, file).splitlines()]


def house(module: str, *arguments: str) -> str:
    """Run a module of this checkout; what it printed. It says on the terminal why it failed."""
    command = [sys.executable, "-m", module, *arguments]
    finished = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if finished.returncode != 0:
        raise StageFailedError(f"{module} failed")
    return finished.stdout


def main() -> None:
    """Run a sweep; the cores are shared out among its points."""
    cores = os.cpu_count() or 1
    parser = argparse.ArgumentParser(prog="python -m flows.sweep", description=__doc__)
    parser.add_argument("file", help="the sweep, such as settings/sweep.yaml")
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
