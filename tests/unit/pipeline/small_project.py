"""Makes a small project in a folder without git or DVC, and runs its stages in this process."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml

from sugarbush.pipeline.graph import STAGES
from sugarbush.pipeline.opening import open_project
from sugarbush.pipeline.run_stage import execute
from sugarbush.run.context import Project
from tests.integration.project import SCHEMA, as_lines, letters, small_settings

# These stages only measure and report: they draw no noise, charge nothing and change no text.
AFTERWARDS = frozenset({"evaluate", "report"})


def write_project(folder: Path, **changes: Any) -> Project:
    """Write the settings and the three input files of a project with 140 invented letters."""
    folder.mkdir(parents=True, exist_ok=True)
    fields = small_settings(**changes)
    corpus = letters(146)
    (folder / "params.yaml").write_text(yaml.safe_dump(fields, sort_keys=False))
    (folder / "letters.schema.yaml").write_text(yaml.safe_dump(SCHEMA))
    (folder / "letters.jsonl").write_text(as_lines(corpus[6:]))
    (folder / "donated.jsonl").write_text(as_lines(corpus[:6]))
    return open_project(folder)


def run_stages(
    base: Path,
    *,
    without: frozenset[str] = AFTERWARDS,
    before: Callable[[], None] = lambda: None,
) -> None:
    """Run every stage in order, each with newly read settings. `before` is called before each
    stage."""
    for stage in STAGES:
        if stage.name in without or stage.name == "make_example":
            continue
        project = open_project(base)
        for method in project.settings.chosen if stage.by_method else (None,):
            before()
            execute(stage, project, method)


def seed_everything() -> None:
    """Seed the global random generators of libraries. Private noise never comes from them."""
    torch.manual_seed(1)
    np.random.seed(1)
    random.seed(1)
