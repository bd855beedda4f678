"""The whole graph as a Prefect flow: one task a stage, in DVC's order.

DVC alone decides what is stale: this flow asks it, skips what is up to date and runs the rest. No
task is retried, since a stage that spends would draw twice; calls to a language model are retried
inside the stage. Needs no server: `python -m flows.pipeline`. Served every week: prefect.yaml.

What a stage prints is kept in Prefect's database, so a stage under a flow prints what is public;
why one failed is told on the terminal and in reports/internal alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import networkx as nx
from dvc.repo import Repo
from prefect import flow, get_run_logger, task
from prefect.artifacts import create_link_artifact, create_markdown_artifact, create_table_artifact
from prefect.cache_policies import NO_CACHE
from prefect.futures import PrefectFuture

FIRST = "fingerprint"
REPORT = Path("reports/public")
ERRORS = Path("reports/internal/errors.log")


class StageFailedError(RuntimeError):
    """A stage failed, and has said why where it may."""


@flow(name="sugarbush", log_prints=False)
def pipeline(force: bool = False) -> None:
    """Bring the release up to date. `force` draws everything anew, and charges for it."""
    graph = stages()
    order = list(reversed(list(nx.topological_sort(graph))))
    for name in needed_by(FIRST, graph, order):  # whether the corpus has changed
        stage(name)
    stale = set(order) - {FIRST} if force else stale_stages(graph)
    runs: dict[str, PrefectFuture[None]] = {}
    for name in order:
        if name in stale:
            needs = [runs[need] for need in graph.successors(name) if need in runs]
            runs[name] = stage.submit(name, force, wait_for=needs)
    for run in runs.values():
        run.result()
    get_run_logger().info("%d of %d stages were up to date", len(order) - len(stale), len(order))
    publish(order, ran=stale)


@task(cache_policy=NO_CACHE, retries=0, task_run_name="{name}")
def stage(name: str, force: bool = False) -> None:
    """Run one stage, if DVC finds it out of date."""
    run_dvc("--wait-for-lock", "repro", "--single-item", *(["--force"] if force else []), name)


def run_dvc(*arguments: str, folder: Path = Path()) -> None:
    """Run DVC in `folder` with its lines in the run's log. Raises StageFailedError."""
    environment = dict(os.environ, SUGARBUSH_QUIET_ERRORS="1", PYTHONUNBUFFERED="1")
    environment["PATH"] = os.pathsep.join(
        [str(Path(sys.executable).parent), environment.get("PATH", "")]
    )
    errors = folder / ERRORS
    told_before = errors.stat().st_size if errors.exists() else 0
    with subprocess.Popen(
        [
            sys.executable,
            "-m",
            "sugarbush.pipeline.run_with_parent",
            str(os.getpid()),
            "dvc",
            *arguments,
        ],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if line.strip():
                    get_run_logger().info(line.rstrip())
        except BaseException:
            process.terminate()
            raise
    if process.returncode != 0:
        tell_operator(errors, told_before)
        raise StageFailedError(f"dvc {' '.join(arguments)} failed; see {errors}")


def tell_operator(errors: Path, told_before: int) -> None:
    """Print why a stage failed on this terminal, which Prefect does not read."""
    if errors.exists() and sys.__stderr__ is not None:
        with errors.open(encoding="utf-8") as log:
            log.seek(told_before)
            sys.__stderr__.write(log.read())


def stages() -> nx.DiGraph:
    """DVC's stages by name, with an edge from each to what it needs."""
    with Repo() as repo:
        graph = nx.DiGraph()
        graph.add_nodes_from(node.addressing for node in repo.index.graph.nodes)
        graph.add_edges_from((a.addressing, b.addressing) for a, b in repo.index.graph.edges)
    return graph


def stale_stages(graph: nx.DiGraph) -> set[str]:
    """What DVC finds out of date, and all that stands on it."""
    with Repo() as repo:
        changed = set(repo.status()) - {FIRST}
    return changed.union(*(nx.ancestors(graph, name) for name in changed)) - {FIRST}


def needed_by(name: str, graph: nx.DiGraph, order: Iterable[str]) -> list[str]:
    """A stage and what it stands on, in the order of running."""
    needed = nx.descendants(graph, name) | {name}
    return [each for each in order if each in needed]


def publish(order: Iterable[str], *, ran: set[str]) -> None:
    """Artifacts of the run, public ones: what ran, the figures, the release card, the page."""
    rows = [{"stage": name, "this run": "ran" if name in ran else "up to date"} for name in order]
    create_table_artifact(key="stages", table=rows, description="What this run did")
    figures = json.loads((REPORT / "metrics.json").read_text(encoding="utf-8"))
    table = [{"figure": name, "value": str(value)} for name, value in flattened(figures)]
    create_table_artifact(key="figures", table=table, description="reports/public/metrics.json")
    card = (REPORT / "release_card.md").read_text(encoding="utf-8")
    create_markdown_artifact(key="release-card", markdown=card)
    page = (REPORT / "index.html").absolute().as_uri()
    create_link_artifact(key="report", link=page, link_text="the report")


def flattened(figures: dict[str, object], *above: str) -> list[tuple[str, object]]:
    """Nested figures as (dotted name, value)."""
    found: list[tuple[str, object]] = []
    for name, value in figures.items():
        if isinstance(value, dict):
            found += flattened(value, *above, name)
        else:
            found.append((".".join([*above, name]), value))
    return found


if __name__ == "__main__":
    try:
        pipeline()
    except StageFailedError as error:
        print(error, file=sys.stderr)
        sys.exit(1)
