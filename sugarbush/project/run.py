"""`sugarbush run`: runs the stages with DVC, and prints where the results are."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from sugarbush.cli.shows import print_dropped_rows
from sugarbush.errors import LedgerError, ParamsError
from sugarbush.paths import Roots
from sugarbush.pipeline import run_with_parent
from sugarbush.pipeline.dvc import require_current_stages
from sugarbush.pipeline.dvc_lock import restore_lock
from sugarbush.pipeline.flow import environment_of_dvc, only_run, read_stages
from sugarbush.pipeline.forecast import forecast_run
from sugarbush.pipeline.foreign_releases import refuse_foreign_releases
from sugarbush.pipeline.opening import open_project
from sugarbush.pipeline.run_with_parent import end_with_children
from sugarbush.preparation.findings import corpus_findings, known_corpus
from sugarbush.privacy.accounting import rounded_up
from sugarbush.privacy.settings import Purpose
from sugarbush.project.assignments import changed_settings, write_settings
from sugarbush.project.check import example_is_made, print_unmatched, would_spend
from sugarbush.project.rehearsal_lines import show_rehearsal
from sugarbush.quality.judge import read_verdicts, require_accepted, require_not_poor
from sugarbush.rehearsal.preflight import notices
from sugarbush.rehearsal.rehearse import (
    is_rehearsed,
    keep_for_changed_settings,
    require_good_rehearsal,
    stored_rehearsal,
)
from sugarbush.release.folders import final_folder
from sugarbush.release.own_charges import spending_of_release
from sugarbush.report.card import CARD_FILE, read_card
from sugarbush.report.downloads import texts_name
from sugarbush.run import error_report as entry_point
from sugarbush.run.context import Project
from sugarbush.run.settings import ProjectSettings
from sugarbush.run.usable_inputs import require_usable_project

STOPPED = "sugarbush: stopped. Finished results are stored; run again to continue."
_INTERRUPTED = 130  # the exit code of programs that Ctrl-C ends
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


def run(base: Path, *, force: bool, only_example: bool, accept_poor: bool = False) -> int:
    """Run the pipeline, print where its results are, and return the exit code. If a stage fails,
    the result is the exit code of the stage. Raises ParamsError if another version generated
    dvc.yaml. Raises ParamsError or SchemaError for inputs with which no release can be good. Raises
    PoorRehearsalError if the first texts are poor, unless `accept_poor` is true, which also lets
    the run go on after a poor first look. With
    `only_example`, raises ParamsError for data other than the example. Raises
    FailureError while another run on the same dataset has not ended."""
    project = open_project(base)
    settings = project.settings
    if only_example and settings.privacy.purpose is not Purpose.EXAMPLE:
        raise ParamsError(
            "params.yaml names your own data, and --only-example runs the embedded example only. "
            "For your own data: sugarbush run. For the example: sugarbush init in another folder"
        )
    restore_lock(base)
    refuse_foreign_releases(project)
    require_current_stages(base)
    if example_is_made(project):
        _ = project.plan  # the plan of measurements needs the schema
        require_usable_project(project)
        for notice in notices(project):
            print(f"sugarbush: {notice}", file=sys.stderr, flush=True)
        rehearse_before_run(
            project, Console(), force=force, accept_poor=accept_poor, reads_corpus=True
        )
    last_error = Roots(base).internal / entry_point.LAST
    last_error.unlink(missing_ok=True)
    try:
        with only_run(base):
            failed = _reproduce(base, settings, force=force, go_on=accept_poor) != 0
    except KeyboardInterrupt:
        print(STOPPED, file=sys.stderr)
        return _INTERRUPTED
    if failed:
        code = json.loads(last_error.read_text())["exit_code"] if last_error.exists() else 1
        print(
            "sugarbush: the pipeline stopped. Finished results are stored, and `sugarbush run` "
            "continues from there.",
            file=sys.stderr,
        )
        return int(code)
    print_dropped_rows(project)
    summarise(base, settings, Console())
    require_accepted(Roots(base))
    require_not_poor(Roots(base), settings)
    return 0


def rehearse_before_run(
    project: Project,
    console: Console,
    *,
    force: bool,
    accept_poor: bool,
    reads_corpus: bool = False,
) -> None:
    """Rehearse if the run would spend budget and its first texts are not judged yet. Print the
    verdict, and write the settings that gave better texts to params.yaml.

    Raises PoorRehearsalError for a poor verdict, unless `accept_poor` is true. With
    `reads_corpus`, raises InputError or LedgerError before the first request for a corpus that the
    run would refuse. Such an error names private rows, so a flow, whose errors Prefect stores, must
    leave this to stage prepare.
    """
    if not example_is_made(project) or not is_rehearsed(project):
        return
    refuse_foreign_releases(project)
    require_usable_project(project)
    earlier_rehearsal = stored_rehearsal(project)
    judged = (
        earlier_rehearsal is not None
        and not earlier_rehearsal.changes
        and (earlier_rehearsal.accepted or not earlier_rehearsal.is_poor)
    )
    if judged or not (force or would_spend(project)):
        return
    findings = corpus_findings(project) if reads_corpus else None
    if findings is not None and (reason := known_corpus(project, findings)) is not None:
        raise LedgerError(reason)
    if findings is not None:
        print_unmatched(findings, console)
    rehearsal = require_good_rehearsal(project, accept=accept_poor)
    if rehearsal is None:
        return
    forecast = None if findings is None else forecast_run(project, rehearsal, findings)
    show_rehearsal(rehearsal, console, run=forecast)
    if rehearsal.changes:
        changed = changed_settings(project.base, assignments=rehearsal.changes)
        write_settings(project.base, changed)
        keep_for_changed_settings(open_project(project.base), rehearsal)
        console.print(f"params.yaml: changed {', '.join(changed.names)}", markup=False)


def _reproduce(base: Path, settings: ProjectSettings, *, force: bool, go_on: bool) -> int:
    """Run DVC. Print the output of the stages, and shorten DVC's own lines.

    DVC and its stage end when this process ends.
    """
    command = run_with_parent.command("dvc", "--wait-for-lock", "repro")
    if force:
        command.append("--force")
    stages = StageLines(settings, read_stages(base).needed)
    with subprocess.Popen(
        command,
        cwd=base,
        env=environment_of_dvc(new_draw=force, go_on=go_on),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if (short_line := stages.shortened(line.rstrip())) is not None:
                    print(short_line, flush=True)
        except BaseException:
            end_with_children(process.pid)
            raise
    return process.returncode


class StageLines:
    """Shortens the lines that DVC and its stages print, and counts the stages: stage 2 of 9.

    `needed` contains the names of the stages that a method of `settings` needs.
    """

    def __init__(self, settings: ProjectSettings, needed: Iterable[str]) -> None:
        results = {"evaluate": settings.measured, "report": settings.released}
        self._names = {name for name in needed if results.get(name, True)}
        self._number = 0

    def shortened(self, line: str) -> str | None:
        """Return the shortened line. The result is None for a line that nobody needs, such as DVC's
        line about an unneeded stage, or about a report without a release."""
        for pattern, state in _STAGE_LINES.items():
            if match := re.fullmatch(pattern, line):
                if match[1] not in self._names:
                    return None
                self._number += 1
                return f"stage {self._number} of {len(self._names)}  {match[1]}: {state}"
        return None if not line or line.startswith(_DVC_CHATTER) else line


def summarise(base: Path, params: ProjectSettings, console: Console) -> None:
    """Print the paths of the results, and the main metrics."""
    roots = Roots(base)
    if not params.released:
        console.print("Nothing is released: the texts of these methods stay private.")
        for method in params.chosen:
            console.print(f"{method.name}: {final_folder(roots, method)}", soft_wrap=True)
        console.print(f"internal results: {roots.internal}", soft_wrap=True)
        return
    card = read_card(roots.published / CARD_FILE)
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    project = open_project(base, settings=params)
    ledger = project.ledger(rehearse=False)
    spending = spending_of_release(roots, params.released, ledger)
    assert spending is not None  # stage report needs all folders of the release
    unit = params.privacy.unit
    table.add_row(
        "guarantee", f"{spending.line()}, at delta {rounded_up(spending.delta)}, per {unit}"
    )
    table.add_row(
        "dataset total", f"{rounded_up(spending.total)} of a cap of {rounded_up(ledger.cap)}"
    )
    for method in params.released:
        synthetic = roots.published / texts_name(method.name)
        with synthetic.open(encoding="utf-8") as lines:
            count = sum(1 for _ in lines)
        table.add_row(
            f"synthetic ({method.name})", f"{synthetic}  ({count:,} text{'s' * (count != 1)})"
        )
    for name, verdict in read_verdicts(roots).items():
        table.add_row(f"verdict ({name})", verdict.grade)
        for reason in verdict.reasons:
            table.add_row("", f"- {reason}")
        for note in verdict.notes:
            table.add_row("", f"! {note}")
    if card.public_figures is not None:
        for name, found in card.public_figures.methods.items():
            for row, use in enumerate(found.uses):
                table.add_row(f"good for ({name})" if row == 0 else "", f"- {use}")
    table.add_row("release card", str(roots.published / "release_card.md"))
    table.add_row("report", str(roots.published / "index.html"))
    table.add_row("internal report", f"{roots.internal / 'index.html'}  (not DP: do not share)")
    console.print(table)
    _figures(roots, console)


def _figures(roots: Roots, console: Console) -> None:
    final = json.loads((roots.internal / "metrics.json").read_text())["final"]
    table = Table(title="Against held-out real texts (internal)", box=None, padding=(0, 2, 0, 0))
    for column in ("", "MAUVE", "MAUVE, tf-idf", "mean JSD of attributes"):
        table.add_column(column)
    for method, spaces in final.items():
        values = [
            spaces.get(space, {}).get(metric)
            for space, metric in (("encoder", "mauve"), ("tf-idf", "mauve"), ("attribute", "mean"))
        ]
        table.add_row(method, *("–" if value is None else f"{value:.3f}" for value in values))
    console.print(table)
