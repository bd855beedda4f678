"""`sugarbush run`: DVC without Prefect, and what it left."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from sugarbush.errors import ParamsError
from sugarbush.paths import Roots
from sugarbush.pipeline import entry_point as stage
from sugarbush.pipeline.project import Project
from sugarbush.pipeline.released import final_folder
from sugarbush.pipeline.settings import ProjectSettings, load_params
from sugarbush.privacy.settings import Purpose

_DVC_SAYS = (
    "> ",
    "Generating lock",
    "Updating lock",
    "Use `dvc",
    "To track",
    "\tgit add",
    "To enable",
)


def run(base: Path, *, force: bool, only_example: bool) -> int:
    """Reproduce the pipeline and print where its results are. Returns the exit code.

    Raises ParamsError when the settings are not the example's and only that may run. A stage that
    fails has said why; its exit code is the run's.
    """
    params = load_params(base / "params.yaml")
    if only_example and params.privacy.purpose is not Purpose.EXAMPLE:
        raise ParamsError(
            "params.yaml is set to your own data, and the demo runs the embedded example only. "
            "For your own data: sugarbush run. For the demo: git checkout params.yaml"
        )
    _ = Project(base).plan
    last_error = Roots(base).internal / stage.LAST
    last_error.unlink(missing_ok=True)
    if _reproduce(base, force=force) != 0:
        code = json.loads(last_error.read_text())["exit_code"] if last_error.exists() else 1
        print(
            "sugarbush: the pipeline stopped. What is finished is kept; running again goes on "
            "from there.",
            file=sys.stderr,
        )
        return int(code)
    summarise(base, params, Console())
    return 0


def _reproduce(base: Path, *, force: bool) -> int:
    """Run DVC, passing on what the stages say and DVC's own lines in short."""
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
            if (said := _in_short(line.rstrip())) is not None:
                print(said, flush=True)
    return process.returncode


def _in_short(line: str) -> str | None:
    """DVC's line about a stage in two words, a stage's own line as it is, the rest not at all."""
    if found := re.fullmatch(r"Running stage '(.+)':", line):
        return f"{found[1]}: running"
    if found := re.fullmatch(r"Stage '(.+)' is cached .*", line):
        return f"{found[1]}: restored"
    if found := re.fullmatch(r"Stage '(.+)' didn't change, skipping", line):
        return f"{found[1]}: up to date"
    return None if not line or line.startswith(_DVC_SAYS) else line


def summarise(base: Path, params: ProjectSettings, console: Console) -> None:
    """Where the results are, and the main figures."""
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
    table.add_row("internal report", f"{roots.internal / 'index.html'}  (not DP: do not hand out)")
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
    """A figure of three decimals; a dash where there were too few texts for it."""
    value = spaces.get(space, {}).get(metric)
    return "–" if value is None else f"{value:.3f}"
