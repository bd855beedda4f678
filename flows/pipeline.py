"""The whole graph as a Prefect flow: one task a stage, in DVC's order.

DVC alone decides what is stale; this flow asks it, skips what is up to date and runs the rest. No
task is retried: a stage that spends would draw twice. Calls to a language model are retried inside
the stage. Needs no server: `python -m flows.pipeline`. Served every week: see prefect.yaml.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

os.environ.setdefault("DO_NOT_TRACK", "1")
os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
os.environ.setdefault("PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS", "180")

import networkx as nx
from dvc.repo import Repo
from prefect import flow, get_run_logger, task
from prefect.artifacts import create_link_artifact, create_markdown_artifact, create_table_artifact
from prefect.cache_policies import NO_CACHE
from prefect.exceptions import MissingContextError
from prefect.futures import PrefectFuture

FIRST = "fingerprint"
REPORT = Path("reports/public")
ERRORS = Path("reports/internal/errors.log")


def _dvc(*arguments: str) -> None:
    """Run DVC with its lines in the run's log. A failure's details go to the terminal alone."""
    environment = dict(os.environ, SUGARBUSH_QUIET_ERRORS="1", PYTHONUNBUFFERED="1")
    environment["PATH"] = os.pathsep.join(
        [str(Path(sys.executable).parent), environment.get("PATH", "")]
    )
    seen = ERRORS.stat().st_size if ERRORS.exists() else 0
    process = subprocess.Popen(
        [sys.executable, "-m", "flows.bound", *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if line.strip():
                get_run_logger().info(line.rstrip())
    finally:
        if process.poll() is None and sys.exc_info()[0] is not None:
            process.terminate()
        code = process.wait()
    if code != 0:
        _tell_operator(seen)
        raise RuntimeError(f"dvc {' '.join(arguments)} failed; see {ERRORS}")


def _tell_operator(seen: int) -> None:
    """Print what the stage wrote about its failure: to this terminal, not to Prefect's database."""
    if ERRORS.exists():
        with ERRORS.open(encoding="utf-8") as log:
            log.seek(seen)
            sys.__stderr__.write(log.read())  # type: ignore[union-attr]


@task(cache_policy=NO_CACHE, retries=0, task_run_name="{name}")
def stage(name: str, force: bool = False) -> None:
    """Run one stage if DVC finds it out of date."""
    _dvc("--wait-for-lock", "repro", "--single-item", *(["--force"] if force else []), name)


def _name(target: object) -> str:
    return str(getattr(target, "addressing", target)).rsplit(":", 1)[-1]


def _graph() -> nx.DiGraph:
    """Stages by name, with an edge from each to what it needs."""
    with Repo() as repo:
        graph = repo.index.graph
        edges = [(_name(a), _name(b)) for a, b in graph.edges]
        found = nx.DiGraph(edges)
        found.add_nodes_from(map(_name, graph.nodes))
    return found


def _stale(graph: nx.DiGraph) -> set[str]:
    """What DVC finds out of date, and all that stands on it."""
    with Repo() as repo:
        changed = {name.rsplit(":", 1)[-1] for name in repo.status()} - {FIRST}
    below = {name for stage_name in changed for name in nx.ancestors(graph, stage_name)}
    return (changed | below) - {FIRST}


@flow(name="sugarbush", log_prints=False)
def pipeline(force: bool = False) -> None:
    """Bring the release up to date, within a budget that outlives the runs."""
    graph = _graph()
    order = list(reversed(list(nx.topological_sort(graph))))
    for name in _needed_by(FIRST, graph, order):
        stage(name)
    stale = set(order) - {FIRST} if force else _stale(graph)
    futures: dict[str, PrefectFuture[None]] = {}
    for name in order:
        if name in stale:
            needs = [futures[need] for need in graph.successors(name) if need in futures]
            futures[name] = stage.submit(name, force, wait_for=needs)
    for future in futures.values():
        future.result()
    get_run_logger().info("%d of %d stages were up to date", len(order) - len(stale), len(order))
    publish(order, stale)


def _needed_by(name: str, graph: nx.DiGraph, order: Iterable[str]) -> list[str]:
    needed = nx.descendants(graph, name) | {name}
    return [stage_name for stage_name in order if stage_name in needed]


def publish(order: Iterable[str], ran: set[str]) -> None:
    """Artifacts of the run: which stages ran, the release card, a link to the page. All public."""
    rows = [{"stage": name, "ran": "yes" if name in ran else "up to date"} for name in order]
    create_table_artifact(key="stages", table=rows, description="What this run did")
    card = REPORT / "release_card.md"
    if card.exists():
        create_markdown_artifact(key="release-card", markdown=card.read_text(encoding="utf-8"))
        create_link_artifact(
            key="report", link=(REPORT / "index.html").absolute().as_uri(), link_text="the report"
        )


if __name__ == "__main__":
    try:
        pipeline()
    except (RuntimeError, MissingContextError) as error:
        print(error, file=sys.stderr)
        sys.exit(1)
