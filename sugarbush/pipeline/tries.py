"""Records in <state>/tries/<purpose>-<dataset>.json which releases had public figures.

`release.accept_if` accepts or refuses a release by its public figures. Whoever runs again after a
refusal chooses a release by the figures of both. The figures are post-processing of charged draws,
so the choice among k releases costs no more than all k together (composition). So the card of the
accepted release counts the charges of every release that the rule refused since the last accepted
one. A try is recorded before its figures are written: a crash in between counts a try too many,
never too few.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from filelock import FileLock

from sugarbush.errors import StorageError
from sugarbush.evaluation.public_figures import PublicFigure, Rule
from sugarbush.paths import atomic_file, make_owner_only, reading
from sugarbush.pipeline.measuring import MeasuredFigures
from sugarbush.pipeline.project import Project
from sugarbush.privacy.settings import PrivacySettings

_ADVICE = "Restore the file from a backup. Without it, nobody knows which releases the rule refused"


@dataclass(frozen=True, kw_only=True)
class Try:
    """A release with public figures: the id of their draw, all its charges, and the decision."""

    run: str
    charges: tuple[str, ...]
    accepted: bool


def failures(
    rules: Sequence[Rule], by_method: Mapping[str, Sequence[PublicFigure]]
) -> dict[str, list[str]]:
    """Return for each method the rules that its figures do not meet, with the estimates."""
    found = {}
    for method, figures in by_method.items():
        values = {figure.title: figure.value for figure in figures}
        found[method] = [
            f"{rule} (measured: {_said(values.get(rule.figure))})"
            for rule in rules
            if not rule.holds(values)
        ]
    return found


def _said(value: float | None) -> str:
    return "nothing" if value is None else f"{value:.2f}"


def is_accepted(rules: Sequence[Rule], figures: MeasuredFigures) -> bool:
    """Return whether the figures of every method meet all rules."""
    return not any(failures(rules, figures.by_method).values())


def note_try(project: Project, figures: MeasuredFigures, *, charges: Iterable[str]) -> None:
    """Record a release and the decision of the rule. `charges` are those of its texts.

    Raises StorageError.
    """
    tried = Try(
        run=figures.run,
        charges=tuple(dict.fromkeys((*charges, *figures.ledger_ids))),
        accepted=is_accepted(project.settings.rules, figures),
    )
    path = _path(project.state, project.settings.privacy)
    try:
        make_owner_only(path.parent)
        with FileLock(f"{path}.lock"):
            others = [each for each in _read(path) if each.run != tried.run]
            content = [asdict(each) for each in (*others, tried)]
            with atomic_file(path) as temporary:
                temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror or error}") from None


def refused_before(state: Path, privacy: PrivacySettings, *, run: str) -> tuple[Try, ...]:
    """Return the releases that the rule refused after the last accepted one, except `run`."""
    refused: list[Try] = []
    for each in _read(_path(state, privacy)):
        if each.run != run:
            refused = [] if each.accepted else [*refused, each]
    return tuple(refused)


def _read(path: Path) -> tuple[Try, ...]:
    with reading(path, advice=_ADVICE):
        rows = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
        return tuple(Try(**{**row, "charges": tuple(map(str, row["charges"]))}) for row in rows)


def _path(state: Path, privacy: PrivacySettings) -> Path:
    return state / "tries" / f"{privacy.purpose}-{privacy.dataset}.json"
