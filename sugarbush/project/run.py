"""Runs the stages of a project with DVC, and says where the results are."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

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
from sugarbush.project.check import example_is_made, unmatched_notes, would_spend
from sugarbush.project.rehearsal import checked_texts
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
from sugarbush.report.downloads import LINES, RECORDS, texts_name
from sugarbush.report.renewal import renewal_lines
from sugarbush.run import error_report as entry_point
from sugarbush.run.context import Project
from sugarbush.run.settings import ProjectSettings
from sugarbush.run.usable_inputs import require_usable_project

Say = Callable[[str], None]

STOPPED = "stopped. Finished results are stored; run again to continue."
_FAILED = (
    "the pipeline stopped. Finished results are stored, and `sugarbush run` continues from there."
)
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


@dataclass(frozen=True, kw_only=True)
class EndedRun:
    """The exit code of a run, and the settings with which it started."""

    exit_code: int
    settings: ProjectSettings


@dataclass(frozen=True, kw_only=True)
class Results:
    """Where the results of a run are, and its main metrics.

    `notes` say where the texts are if nothing is released. `rows` have a name, which is empty if
    the row belongs to the row before, and a text. `figures` are MAUVE, MAUVE of tf-idf and the mean
    JSD of the attributes against held-out texts, by method. They are not DP.
    """

    notes: tuple[str, ...] = ()
    rows: tuple[tuple[str, str], ...] = ()
    figures: Mapping[str, tuple[float | None, ...]] = field(default_factory=dict)


def run(
    base: Path,
    *,
    force: bool,
    only_example: bool,
    accept_poor: bool = False,
    say: Say,
    warn: Say,
) -> EndedRun:
    """Run the pipeline. `say` gets the lines of the rehearsal and of the stages, and `warn` gets
    notices and the reason of an early end. If a stage fails, the result has the exit code of the
    stage. Raises ParamsError if another version generated dvc.yaml. Raises ParamsError or
    SchemaError for inputs with which no release can be good. Raises PoorRehearsalError if the first
    texts are poor, unless `accept_poor` is true, which also lets the run go on after a poor first
    look. With `only_example`, raises ParamsError for data other than the example. Raises
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
            warn(notice)
        rehearse_before_run(project, say, force=force, accept_poor=accept_poor, reads_corpus=True)
    last_error = Roots(base).internal / entry_point.LAST
    last_error.unlink(missing_ok=True)
    try:
        with only_run(base):
            code = _reproduce(base, settings, force=force, go_on=accept_poor, say=say)
    except KeyboardInterrupt:
        warn(STOPPED)
        return EndedRun(exit_code=_INTERRUPTED, settings=settings)
    if code != 0:
        code = json.loads(last_error.read_text())["exit_code"] if last_error.exists() else 1
        warn(_FAILED)
    return EndedRun(exit_code=int(code), settings=settings)


def require_good_release(base: Path, settings: ProjectSettings) -> None:
    """Raises RefusedReleaseError if the release of a finished run breaks a rule of
    `release.accept_if`, and PoorReleaseError if it is poor."""
    require_accepted(Roots(base))
    require_not_poor(Roots(base), settings)


def rehearse_before_run(
    project: Project,
    say: Say,
    *,
    force: bool,
    accept_poor: bool,
    reads_corpus: bool = False,
) -> None:
    """Rehearse if the run would spend budget and its first texts are not judged yet. Say the
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
        for note in unmatched_notes(findings):
            say(note.lines)
    rehearsal = require_good_rehearsal(project, accept=accept_poor)
    if rehearsal is None:
        return
    forecast = None if findings is None else forecast_run(project, rehearsal, findings)
    say(checked_texts(rehearsal, run=forecast).lines)
    if rehearsal.changes:
        changed = changed_settings(project.base, assignments=rehearsal.changes)
        write_settings(project.base, changed)
        keep_for_changed_settings(open_project(project.base), rehearsal)
        say(changed.line)


def _reproduce(base: Path, settings: ProjectSettings, *, force: bool, go_on: bool, say: Say) -> int:
    """Run DVC. Say the output of the stages, and shorten DVC's own lines.

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
                    say(short_line)
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


def results(base: Path, settings: ProjectSettings) -> Results:
    """Return where the results of a finished run are, and its main metrics."""
    roots = Roots(base)
    if not settings.released:
        return Results(
            notes=(
                "Nothing is released: the texts of these methods stay private.",
                *(f"{each.name}: {final_folder(roots, each)}" for each in settings.chosen),
                f"internal results: {roots.internal}",
            )
        )
    project = open_project(base, settings=settings)
    return Results(rows=tuple(_rows(project)), figures=_figures(roots))


def texts_rows(folder: Path, method: str) -> Iterator[tuple[str, str]]:
    """Yield the files with the texts of a method. Histories are people, with a file of records."""
    synthetic, records = folder / texts_name(method), folder / f"{RECORDS}_{method}{LINES}"
    one, more = ("person", "people") if records.exists() else ("text", "texts")
    yield f"synthetic ({method})", f"{synthetic}  ({_count(synthetic, one, more)})"
    if records.exists():
        yield "", f"{records}  ({_count(records, 'record', 'records')})"


def _count(file: Path, one: str, more: str) -> str:
    with file.open(encoding="utf-8") as lines:
        count = sum(1 for _ in lines)
    return f"{count:,} {one if count == 1 else more}"


def _rows(project: Project) -> Iterator[tuple[str, str]]:
    roots, settings = project.roots, project.settings
    card = read_card(roots.published / CARD_FILE)
    ledger = project.ledger(rehearse=False)
    spending = spending_of_release(roots, settings.released, ledger)
    assert spending is not None  # stage report needs all folders of the release
    delta, unit = rounded_up(spending.delta), settings.privacy.unit
    yield "guarantee", f"{spending.line()}, at delta {delta}, per {unit}"
    yield "dataset total", f"{rounded_up(spending.total)} of a cap of {rounded_up(ledger.cap)}"
    for method in settings.released:
        yield from texts_rows(roots.published, method.name)
    for name, verdict in read_verdicts(roots).items():
        yield f"verdict ({name})", verdict.grade
        yield from (("", f"- {reason}") for reason in verdict.reasons)
        yield from (("", f"! {note}") for note in verdict.notes)
    if (figures := card.public_figures) is not None:
        for name, found in figures.methods.items():
            for row, use in enumerate(found.uses):
                yield f"good for ({name})" if row == 0 else "", f"- {use}"
    for row, line in enumerate(renewal_lines(card)):
        yield "what is new" if row == 0 else "", f"- {line}"
    yield "release card", str(roots.published / "release_card.md")
    yield "report", str(roots.published / "index.html")
    yield "internal report", f"{roots.internal / 'index.html'}  (not DP: do not share)"


def _figures(roots: Roots) -> dict[str, tuple[float | None, ...]]:
    final = json.loads((roots.internal / "metrics.json").read_text())["final"]
    wanted = (("encoder", "mauve"), ("tf-idf", "mauve"), ("attribute", "mean"))
    return {
        method: tuple(spaces.get(space, {}).get(metric) for space, metric in wanted)
        for method, spaces in final.items()
    }
