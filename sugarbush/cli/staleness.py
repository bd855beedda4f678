"""What DVC would run, without running it."""

from __future__ import annotations

from pathlib import Path

import networkx as nx

from sugarbush.errors import FailureError
from sugarbush.pipeline.settings import FILE, ProjectSettings, load_params
from sugarbush.pipeline.stages import fingerprint

_SPENDING = ("synthesize_metadata", "evolve@", "finetune")


def would_draw(base: Path, params: ProjectSettings) -> bool:
    """Whether a run would start a stage that spends. It may still find its draws finished.

    Stamps the user's files first, as every run does, so that a changed corpus is noticed. Settings
    that are tried and not in params.yaml count as new.
    """
    if params != load_params(base / FILE):
        return True
    fingerprint.run(base, params)
    spending = _SPENDING if params.trains else _SPENDING[:-1]
    return any(name.startswith(spending) for name in stale_stages(base))


def stale_stages(base: Path) -> set[str]:
    """What DVC finds out of date, and all that stands on it."""
    from dvc.lock import LockError
    from dvc.repo import Repo

    try:
        with Repo(str(base)) as repo:
            changed = {name.rsplit(":", 1)[-1] for name in repo.status()}
            edges = [(a.addressing, b.addressing) for a, b in repo.index.graph.edges]
    except LockError:
        raise FailureError(
            "another run is at work in this folder; ask again when it has ended"
        ) from None
    graph = nx.DiGraph(edges)
    changed &= set(graph)
    above = {user for name in changed - {fingerprint.NAME} for user in nx.ancestors(graph, name)}
    return (changed | above) - {fingerprint.NAME}
