"""Runs DVC for a Prefect flow: lists the stages, finds the stale stages, and runs them.

If no chosen method needs a stage, the stage only writes a marker and is not a task of the flow. DVC
refuses a stage without its inputs, so the marker is written in the DVC process of the next stage.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from threading import Lock
from uuid import UUID

import networkx as nx
from filelock import FileLock, Timeout

from sugarbush.errors import (
    BudgetExceededError,
    FailureError,
    ParamsError,
    PoorFitError,
    SugarbushError,
)
from sugarbush.paths import Roots, find_input, make_owner_only
from sugarbush.pipeline import run_with_parent
from sugarbush.pipeline.dvc_lock import restore_lock
from sugarbush.pipeline.graph import STAGES
from sugarbush.pipeline.opening import open_project
from sugarbush.progress import FLOW_VARIABLE, read_line
from sugarbush.run.choices import environment_for
from sugarbush.run.error_report import LAST, LOG, QUIET_VARIABLE
from sugarbush.run.settings import FILE, ProjectSettings, load_params

FIRST = "fingerprint"
_SHOWN_TEXTS, _SHOWN_CHARACTERS = 10, 300  # in Prefect's artifact


class StageFailedError(FailureError):
    """Raised when a stage fails. The operator's terminal and reports/internal show the reason."""


@contextmanager
def only_run(base: Path) -> Iterator[None]:
    """Raise FailureError while another run uses the same dataset, in any checkout. The operating
    system frees the file lock of a dead process."""
    project = open_project(base)
    folder = project.state / "runs"
    make_owner_only(folder)
    try:
        with FileLock(folder / f"{project.settings.privacy.purpose}-{project.dataset}.lock", 0):
            yield
    except Timeout:
        raise FailureError(f"another run on dataset '{project.dataset}' has not ended") from None


@dataclass(frozen=True)
class PipelineStages:
    """The stages of a project by DVC's names, such as evolve@maple. `graph` has an edge from each
    stage to the stages that it needs. `needed` contains the stages that a chosen method needs, in
    an executable order."""

    graph: nx.DiGraph
    needed: tuple[str, ...]

    @property
    def first(self) -> tuple[str, ...]:
        """The stages that always run, to check whether the corpus or a setting changed."""
        inputs = nx.descendants(self.graph, FIRST)
        return tuple(name for name in self.needed if name in inputs or name == FIRST)

    @property
    def others(self) -> tuple[str, ...]:
        return tuple(name for name in self.needed if name not in self.first)

    def inputs(self, name: str) -> tuple[str, ...]:
        """Return the needed stages that `name` depends on directly or through unneeded stages."""
        return tuple(each for each in self._reached(name) if each in self.needed)

    def with_markers(self, name: str) -> tuple[str, ...]:
        """Return the stages that write a marker for `name`, in order, and then `name`."""
        reached = set(self._reached(name)) - set(self.needed)
        return (*(each for each in in_order(self.graph) if each in reached), name)

    def _reached(self, name: str) -> Iterator[str]:
        """Yield the stages that `name` depends on, directly or through unneeded stages."""
        waiting, seen = list(self.graph.successors(name)), set()
        while waiting:
            each = waiting.pop()
            if each in seen:
                continue
            seen.add(each)
            yield each
            if each not in self.needed:
                waiting += self.graph.successors(each)


def read_stages(folder: Path = Path()) -> PipelineStages:
    """Read the stages of the project in `folder`."""
    from dvc.exceptions import NotDvcRepoError
    from dvc.repo import Repo

    restore_lock(folder)
    graph = nx.DiGraph()
    try:
        opened = Repo(str(folder))
    except NotDvcRepoError:
        raise ParamsError(
            f"{folder}: the project has no folder .dvc, so DVC cannot run its stages. Run: "
            "git init; dvc init"
        ) from None
    with opened as repo:
        edges = repo.index.graph.edges
        graph.add_nodes_from(_name(node.addressing) for node in repo.index.graph.nodes)
        graph.add_edges_from((_name(a.addressing), _name(b.addressing)) for a, b in edges)
    settings = load_params(folder / FILE)
    needed = tuple(name for name in in_order(graph) if is_needed(name, settings))
    return PipelineStages(graph=graph, needed=needed)


def in_order(graph: nx.DiGraph) -> Sequence[str]:
    """Return all stages in an executable order."""
    return list(reversed(list(nx.topological_sort(graph))))


def is_needed(name: str, settings: ProjectSettings) -> bool:
    """Return whether the stage is needed. A stage that the user added is always needed."""
    own, _, method = name.partition("@")
    stage = next((stage for stage in STAGES if stage.name == own), None)
    if stage is None:
        return True
    return stage.is_needed(settings, settings.method(method) if method else None)


def stale_stages(stages: PipelineStages, folder: Path = Path()) -> set[str]:
    """Return the needed stages that are out of date for DVC, and all needed stages after them."""
    from dvc.repo import Repo

    with Repo(str(folder)) as repo:
        always = {stage.name for stage in STAGES if stage.always}
        changed = (set(map(_name, repo.status())) - always) & set(stages.graph)
    found = changed.union(*(nx.ancestors(stages.graph, name) for name in changed))
    return found & set(stages.others)


def spends(names: Iterable[str]) -> bool:
    """Return whether one of the stages `names` spends budget."""
    spending = {stage.name for stage in STAGES if stage.spends}
    return any(name.partition("@")[0] in spending for name in names)


def _name(address: str) -> str:
    """Return a stage's name without the prefix that DVC adds (the path of dvc.yaml)."""
    return address.rpartition(":")[2]


def run_stage(
    name: str,
    targets: Sequence[str],
    *,
    force: bool,
    say: Callable[[str], None],
    folder: Path = Path(),
) -> bool:
    """Run the `targets` that are out of date for DVC. The last target is `name`. Return whether
    DVC's output says that DVC ran `name`. Raises StageFailedError."""
    lines: list[str] = []

    def heard(line: str) -> None:
        lines.append(line)
        say(line)

    options = ["--force"] if force else []
    run_dvc(
        "--wait-for-lock", "repro", "--single-item", *options, *targets,
        say=heard, new_draw=force, folder=folder,
    )  # fmt: skip
    return any(_starts(line, name) for line in lines)


def _starts(line: str, name: str) -> bool:
    address = line.removeprefix("Running stage '").removesuffix("':")
    return line.startswith("Running stage '") and _name(address) == name


def run_dvc(
    *arguments: str,
    say: Callable[[str], None],
    new_draw: bool = False,
    folder: Path = Path(),
) -> None:
    """Run DVC in `folder`, and pass each line that it prints to `say`.

    DVC and its stage end when this process ends. If a stage fails, the reason is printed on this
    terminal. `say` does not receive the reason, because `say` may store its lines. Raises
    BudgetExceededError or PoorFitError if that is the reason, else StageFailedError.
    """
    restore_lock(folder)
    errors = Roots(folder).internal / LOG
    errors.with_name(LAST).unlink(missing_ok=True)
    old_size = errors.stat().st_size if errors.exists() else 0
    with subprocess.Popen(
        run_with_parent.command("dvc", *arguments),
        cwd=folder,
        env=environment_of_dvc(new_draw=new_draw) | {QUIET_VARIABLE: "1", FLOW_VARIABLE: "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if line.strip():
                    say(line.rstrip())
        except BaseException:
            process.terminate()
            raise
    if process.returncode != 0:
        _print_new_errors(errors, old_size)
        if (stopped := _public_stop(errors.with_name(LAST), arguments)) is not None:
            raise stopped
        raise StageFailedError(f"dvc {' '.join(arguments)} failed; see {errors}")


def _public_stop(last_error: Path, stages: Sequence[str]) -> SugarbushError | None:
    """Return the error of a stage in `stages` whose message is public, or None: a passed cap, which
    depends on the ledger and the settings, or a poor first look, which is released."""
    public = {error.__name__: error for error in (BudgetExceededError, PoorFitError)}
    with suppress(OSError, ValueError, KeyError):
        found = json.loads(last_error.read_text(encoding="utf-8"))
        if found["stage"] in stages:
            return public[found["type"]](str(found["message"]))
    return None


def environment_of_dvc(*, new_draw: bool, go_on: bool = False) -> dict[str, str]:
    """Return the environment for DVC. DVC's stages use this Python and print unbuffered. With
    `new_draw`, stages draw and charge again. With `go_on`, a poor first look stops nothing."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    chosen = environment_for(new_draw=new_draw, go_on=go_on)
    return os.environ | {"PYTHONUNBUFFERED": "1", "PATH": path, **chosen}


class RunProgress:
    """Tells how far a run is: finished stages, and the part of the running stages that is done.

    `publish` receives the percentage and a public sentence. Stages may run in several threads.
    """

    def __init__(self, stages: Sequence[str], publish: Callable[[float, str], None]) -> None:
        self._percent = dict.fromkeys(stages, 0)
        self._publish, self._lock = publish, Lock()

    def hear(self, stage: str, line: str) -> None:
        """Read a line that `stage` printed. Other lines than those of `progress` change nothing."""
        if (found := read_line(line)) is not None:
            what, percent = found
            self._update(stage, min(percent, 99), f"{what}: {percent}%")

    def finish(self, stage: str) -> None:
        """Count `stage` as finished."""
        self._update(stage, 100, "finished")

    def _update(self, stage: str, percent: int, said: str) -> None:
        with self._lock:
            self._percent[stage] = max(percent, self._percent.get(stage, 0))
            finished = sum(own == 100 for own in self._percent.values())
            whole = sum(self._percent.values()) / len(self._percent)
            count = f"{finished} of {len(self._percent)} stages are finished"
            with suppress(Exception):  # a stage does not end because Prefect's server is away
                self._publish(round(whole, 1), f"{count}; {stage}: {said}")


def progress_artifact() -> Callable[[float, str], None]:
    """Create Prefect's progress artifact of a run. Return the function that updates it."""
    from prefect.artifacts import create_progress_artifact, update_progress_artifact

    artifact = create_progress_artifact(0.0, key="progress", description="The run has started")
    assert isinstance(artifact, UUID)  # a coroutine only in asynchronous code

    def publish(percent: float, said: str) -> None:
        update_progress_artifact(artifact, progress=percent, description=said)

    return publish


def publish_artifacts(stages: PipelineStages, ran: Iterable[str], folder: Path = Path()) -> None:
    """Create Prefect's public artifacts: what ran, the metrics, the release card, the page."""
    from prefect.artifacts import create_markdown_artifact, create_table_artifact

    published = Roots(folder).published
    ran = set(ran)
    rows = [
        {"stage": name, "this run": "ran" if name in ran else "up to date"}
        for name in stages.needed
    ]
    create_table_artifact(key="stages", table=rows, description="What this run did")
    if not (published / "metrics.json").exists():  # nothing is released
        return
    figures = json.loads((published / "metrics.json").read_text(encoding="utf-8"))
    table = [{"figure": name, "value": str(value)} for name, value in _flat(figures)]
    create_table_artifact(key="figures", table=table, description="reports/public/metrics.json")
    card = (published / "release_card.md").read_text(encoding="utf-8")
    create_markdown_artifact(key="release-card", markdown=card)
    report = report_markdown(folder, load_params(folder / FILE))
    create_markdown_artifact(key="report", markdown=report)


def result_lines(folder: Path = Path()) -> list[str]:
    """Return the verdicts, the guarantee, and the place of the release card. All lines are public.

    A flow logs them, because Prefect's page of a run shows the log first.
    """
    from sugarbush.quality.judge import read_verdicts
    from sugarbush.report.card import CARD_FILE, read_card
    from sugarbush.report.renewal import renewal_lines
    from sugarbush.report.templating import upper_bound

    roots = Roots(folder)
    card_file = roots.published / CARD_FILE
    if not card_file.exists():
        return ["Nothing is released: the texts of these methods stay private."]
    lines = []
    for name, verdict in read_verdicts(roots).items():
        reasons = f": {'; '.join(verdict.reasons)}" if verdict.reasons else ""
        lines.append(f"verdict ({name}): {verdict.grade}{reasons}")
    card = read_card(card_file)
    promise, budget = card.promise, card.budget
    lines += [
        f"epsilon: {upper_bound(promise.epsilon)} at delta {upper_bound(promise.delta)}, per "
        f"{promise.unit}",
        f"dataset total: {upper_bound(budget.dataset_total_epsilon)} of a cap of "
        f"{upper_bound(budget.dataset_cap_epsilon)}",
        *renewal_lines(card),
        f"release card: {roots.published / 'release_card.md'}, and the artifact release-card",
    ]
    return lines


def report_markdown(folder: Path, settings: ProjectSettings) -> str:
    """Return the verdict and the first texts of each method as Markdown. All of it is released.

    Browsers refuse a link from Prefect's page to a file, so the artifact shows the report itself.
    """
    from sugarbush.data.schema import load_schema
    from sugarbush.quality.judge import read_verdicts
    from sugarbush.release.folders import text_of_row
    from sugarbush.report.downloads import texts_name

    roots, schema = Roots(folder), load_schema(find_input(folder, settings.prepare.schema_))
    verdicts, lines = read_verdicts(roots), [f"The whole page: `{roots.published}/index.html`"]
    for method in settings.released:
        lines.append(f"## {method.name}")
        if (verdict := verdicts.get(method.name)) is not None:
            lines += [f"Verdict: **{verdict.grade}**", ""]
            lines += [f"- {reason}" for reason in verdict.reasons]
        path = roots.published / texts_name(method.name)
        with path.open(encoding="utf-8") as rows:
            shown = [json.loads(row) for row in islice(rows, _SHOWN_TEXTS)]
        texts = [text_of_row(row, schema) for row in shown]
        lines += ["", f"The first texts of `{path}`:", ""]
        lines += [f"    {' '.join(text.split())[:_SHOWN_CHARACTERS]}" for text in texts]
    return "\n".join(lines) + "\n"


def refuse_poor_release(folder: Path = Path()) -> None:
    """Raise RefusedReleaseError if the rule refuses the finished release, and PoorReleaseError if
    the release is poor. Both are public."""
    from sugarbush.quality.judge import require_accepted, require_not_poor

    require_accepted(Roots(folder))
    require_not_poor(Roots(folder), load_params(folder / FILE))


def _print_new_errors(errors: Path, old_size: int) -> None:
    """Print the new lines of the error log on this terminal. Prefect does not read the terminal."""
    if errors.exists() and sys.__stderr__ is not None:
        with errors.open(encoding="utf-8") as log:
            log.seek(old_size)
            sys.__stderr__.write(log.read())


def _flat(figures: dict[str, object], *above: str) -> Iterator[tuple[str, object]]:
    for name, value in figures.items():
        if isinstance(value, dict):
            yield from _flat(value, *above, name)
        else:
            yield ".".join([*above, name]), value
