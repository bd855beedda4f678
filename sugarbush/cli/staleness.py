"""Which stages DVC would run."""

from __future__ import annotations

from pathlib import Path

import networkx as nx

from sugarbush.errors import FailureError
from sugarbush.pipeline.graph import STAGES
from sugarbush.pipeline.project import Project
from sugarbush.pipeline.settings import FILE, load_params
from sugarbush.pipeline.stages import fingerprint


def would_spend(project: Project) -> bool:
    """Whether a run would start a stage that spends budget.

    That stage may still find its results finished. First writes the keyed digests, as every run
    does, so that a changed corpus is noticed. A setting that is missing from params.yaml counts as
    new.
    """
    if project.settings != load_params(project.base / FILE):
        return True
    fingerprint.run(project)
    spending = {
        f"{stage.name}@{method.name}" if stage.by_method else stage.name
        for stage in STAGES
        for method in project.settings.chosen
        if stage.spends and (not stage.by_method or stage.name in method.stages)
    }
    return bool(spending & stale_stages(project.base))


def stale_stages(base: Path) -> set[str]:
    """The stages that DVC finds out of date, and all stages that depend on them."""
    from dvc.lock import LockError
    from dvc.repo import Repo

    try:
        with Repo(str(base)) as repo:
            changed = {name.rsplit(":", 1)[-1] for name in repo.status()}
            edges = [(a.addressing, b.addressing) for a, b in repo.index.graph.edges]
    except LockError:
        raise FailureError(
            "another run is using this folder. Try again when it has ended"
        ) from None
    graph = nx.DiGraph(edges)
    changed &= set(graph)
    later = {user for name in changed - {fingerprint.NAME} for user in nx.ancestors(graph, name)}
    return (changed | later) - {fingerprint.NAME}
