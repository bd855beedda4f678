"""`sugarbush run`: run the stages with DVC, and print where the results are."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Container
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from sugarbush.errors import ParamsError
from sugarbush.paths import Roots
from sugarbush.pipeline import entry_point
from sugarbush.pipeline.dvc import require_current_stages
from sugarbush.pipeline.graph import STAGES
from sugarbush.pipeline.project import Project
from sugarbush.pipeline.released import final_folder
from sugarbush.pipeline.settings import ProjectSettings
from sugarbush.privacy.settings import Purpose

_DVC_CHATTER = (
    "> ",
    "Generating lock",
    "Updating lock",
    "Use `dvc",
    "To track",
    "\tgit add",
    "To enable",
)
_STAGE_LINES = {
    r"Running stage '(.+)':": "running",
    r"Stage '(.+)' is cached .*": "restored",
    r"Stage '(.+)' didn't change, skipping": "up to date",
}


def run(base: Path, *, force: bool, only_example: bool) -> int:
    """Run the pipeline and print where its results are. Returns the exit code.

    A failed stage prints the reason; its exit code is the exit code of the run. Raises ParamsError
    when another version generated dvc.yaml, or with `only_example` when the settings name other
    data.
    """
    project = Project(base)
    settings = project.settings
    if only_example and settings.privacy.purpose is not Purpose.EXAMPLE:
        raise ParamsError(
            "params.yaml names your own data, and --only-example runs the embedded example only. "
            "For your own data: sugarbush run. For the example: sugarbush init in another folder"
        )
    require_current_stages(base)
    _ = project.plan
    last_error = Roots(base).internal / entry_point.LAST
    last_error.unlink(missing_ok=True)
    if _reproduce(base, force=force, needed=needed_stages(settings)) != 0:
        code = json.loads(last_error.read_text())["exit_code"] if last_error.exists() else 1
        print(
            "sugarbush: the pipeline stopped. Finished work is kept: `sugarbush run` continues "
            "from there.",
            file=sys.stderr,
        )
        return int(code)
    summarise(base, settings, Console())
    return 0


def needed_stages(settings: ProjectSettings) -> frozenset[str]:
    """The stages that the chosen methods need, by DVC's names.

    The other stages only write a marker.
    """
    names = {stage.name for stage in STAGES if not stage.by_method and stage.is_needed(settings)}
    return frozenset(names).union(
        f"{stage.name}@{method.name}"
        for stage in STAGES
        for method in settings.chosen
        if stage.by_method and stage.is_needed(settings, method)
    )


def _reproduce(base: Path, *, force: bool, needed: Container[str]) -> int:
    """Run DVC. Pass on what the stages print, and shorten DVC's own lines."""
    command = [sys.executable, "-m", "dvc", "--wait-for-lock", "repro"]
    environment = dict(os.environ, PYTHONUNBUFFERED="1")
    environment["PATH"] = os.pathsep.join(
        [str(Path(sys.executable).parent), environment.get("PATH", "")]
    )
    if force:
        command.append("--force")
    with subprocess.Popen(
        command, cwd=base, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if (shown := shortened(line.rstrip(), needed)) is not None:
                print(shown, flush=True)
    return process.returncode


def shortened(line: str, needed: Container[str]) -> str | None:
    """A line of DVC or of a stage as the terminal shows it; None when it is not shown.

    DVC's line about a stage becomes a few words, or nothing when no chosen method needs the stage.
    """
    for pattern, state in _STAGE_LINES.items():
        if found := re.fullmatch(pattern, line):
            return f"{found[1]}: {state}" if found[1] in needed else None
    return None if not line or line.startswith(_DVC_CHATTER) else line


def summarise(base: Path, params: ProjectSettings, console: Console) -> None:
    """Print where the results are, and the main figures."""
    roots = Roots(base)
    card = json.loads((roots.published / "release_card.json").read_text())
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_row("epsilon", _promise(card["promise"]))
    table.add_row(
        "dataset total",
        f"{_number(card['budget']['dataset_total_epsilon'])} of a cap of {params.privacy.cap:g}",
    )
    for method in params.released:
        synthetic = final_folder(roots, method) / "synthetic.jsonl"
        count = sum(1 for _ in synthetic.open(encoding="utf-8"))
        table.add_row(f"synthetic ({method.name})", f"{synthetic}  ({count} texts)")
    table.add_row("release card", str(roots.published / "release_card.md"))
    table.add_row("report", str(roots.published / "index.html"))
    table.add_row("internal report", f"{roots.internal / 'index.html'}  (not DP: do not share)")
    console.print(table)
    _figures(roots, console)


def _promise(promise: dict[str, Any]) -> str:
    return f"{_number(promise['epsilon'])} at delta {promise['delta']:g}, per {promise['unit']}"


def _number(epsilon: float | str) -> str:
    return epsilon if isinstance(epsilon, str) else f"{epsilon:.4g}"


def _figures(roots: Roots, console: Console) -> None:
    final = json.loads((roots.internal / "metrics.json").read_text())["final"]
    table = Table(title="Against held-out real texts (internal)", box=None, padding=(0, 2, 0, 0))
    for column in ("", "MAUVE", "MAUVE, tf-idf", "mean JSD of attributes"):
        table.add_column(column)
    for method, spaces in final.items():
        table.add_row(
            method,
            _figure(spaces, "encoder", "mauve"),
            _figure(spaces, "tf-idf", "mauve"),
            _figure(spaces, "attribute", "mean"),
        )
    console.print(table)


def _figure(spaces: dict[str, dict[str, float]], space: str, metric: str) -> str:
    """A figure with three decimals; a dash if there were too few texts for it."""
    value = spaces.get(space, {}).get(metric)
    return "–" if value is None else f"{value:.3f}"
