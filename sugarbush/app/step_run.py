"""The last steps: the run, its report, and the publication."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from datetime import date
from typing import Any, ClassVar, Literal, NamedTuple, get_args, get_origin

from sugarbush.app.forms import Form, save
from sugarbush.app.step import (
    App,
    ChargesSince,
    Question,
    Step,
    Values,
    budget_lines,
    or_message,
)
from sugarbush.errors import ParamsError, SugarbushError
from sugarbush.paths import Roots
from sugarbush.privacy.accounting import rounded_up
from sugarbush.project.profiles import PAGE
from sugarbush.quality.judge import read_verdicts
from sugarbush.release.card_state import has_old_card
from sugarbush.release.own_charges import spending_of_release
from sugarbush.report.card import CARD_FILE, read_card
from sugarbush.report.settings import PublicationSettings
from sugarbush.run.context import Project
from sugarbush.settings import SECRET, has_secret, meanings

_LABELS = {"url": "URL", "source_access": "Access to the private texts",
           "source_retention": "Retention of the private texts",
           "exploration": "Exploration before the run"}  # fmt: skip


class RunStep(Step):
    """Runs `sugarbush run`. Its button says what it charges, and asks once."""

    name: ClassVar[str] = "run"
    title: ClassVar[str] = "Run"

    def context(self, app: App, form: Form | None) -> dict[str, Any]:
        project, button = app.project(), ""
        with suppress(SugarbushError):  # `budget` has the message
            button = _run_button(project)
        return {
            "value": Values(project.settings, form),
            "button": button,
            "methods": ", ".join(project.settings.methods.by_name),
            "texts": project.settings.release.texts,
            "budget": or_message(budget_lines, project),
        }

    def submit(self, app: App, form: Form) -> str | Question | None:
        project = app.project()
        button = _run_button(project)
        accept = form.text("accept_poor")
        if form.text("confirmed") != button:
            line = budget_lines(project)
            return Question(
                text=f"{line[0]} {line[1]} A charge cannot be taken back. Finished results are "
                "restored and charge nothing.",
                yes=button,
                fields={"accept_poor": accept, "confirmed": button},
            )
        command = ["run", "--yes"] if accept else ["run"]
        app.jobs.start(app.base, [command], step=self.name, charges=ChargesSince(project))
        return self.name


def _run_button(project: Project) -> str:
    _ = project.dataset
    return f"Run: charges epsilon {rounded_up(project.plan.epsilon)} at most"


class ReportStep(Step):
    """Links to the report and the card of the finished run."""

    name: ClassVar[str] = "report"
    title: ClassVar[str] = "Report"

    def context(self, app: App, form: Form | None) -> dict[str, Any]:
        roots = Roots(app.base)
        card_file = roots.published / CARD_FILE
        names = ("index.html", "release_card.md", "release_card.json", PAGE)
        context: dict[str, Any] = {
            "pages": [name for name in names if (roots.published / name).exists()],
            "has_internal": (roots.internal / "index.html").exists(),
            "card": None,
            "verdicts": {},
            "spent": [],
            "is_old": False,
        }
        if card_file.exists():
            card = read_card(card_file)
            context["card"] = {
                "heading": "" if card.publishable else card.heading,
                "statement": card.promise.statement,
                "other": card.promise.in_other_words or "",
            }
            project = app.project()
            context["verdicts"] = read_verdicts(roots)
            context["is_old"] = has_old_card(
                project.roots, project.settings.privacy, project.ledger()
            )
            context["spent"] = or_message(_spent_lines, project)
        return context

    def submit(self, app: App, form: Form) -> str | Question | None:
        return "publish"


def _spent_lines(project: Project) -> list[str]:
    """Say what the release and its dataset spent, by the ledger as it is now."""
    ledger = project.ledger(rehearse=False)
    spending = spending_of_release(project.roots, project.settings.released, ledger)
    total = rounded_up(ledger.total() if spending is None else spending.total)
    lines = [f"All charges of the dataset: epsilon {total} of a cap of {rounded_up(ledger.cap)}."]
    return lines if spending is None else [f"The release: {spending.line()}.", *lines]


class _PublicationField(NamedTuple):
    """A field of the section `publication`."""

    name: str
    label: str
    meaning: str
    kind: str  # text, date, list or choice
    choices: tuple[str, ...]


class PublishStep(Step):
    """The answers of the section `publication`, and `sugarbush publish`."""

    name: ClassVar[str] = "publish"
    title: ClassVar[str] = "Publish"

    def context(self, app: App, form: Form | None) -> dict[str, Any]:
        project = app.project()
        publication = project.settings.publication
        lists = {
            f"publication.{answer.name}": "\n".join(getattr(publication, answer.name))
            for answer in _answers()
            if answer.kind == "list"
        }
        missing = [name.removeprefix("publication.") for name in publication.missing()]
        return {
            "value": Values(project.settings, form, **lists),
            "answers": list(_answers()),
            "missing": missing,
            "is_finished": (Roots(app.base).published / "release_card.json").exists(),
        }

    def submit(self, app: App, form: Form) -> str | Question | None:
        if form.text("action") == "save":
            save(app.base, {"publication": dict(_submitted(form))})
            return self.name
        if missing := list(app.project().settings.publication.missing()):
            lines = [f"{name}: has no value. Save an answer first" for name in missing]
            raise ParamsError("\n".join(lines))
        if not (folder := form.text("folder")):
            raise ParamsError("folder: name a new folder for the dataset, for example letters")
        to, another = form.text("to"), form.text("another")
        if has_secret(to):
            raise ParamsError(f"to: {SECRET}")
        asked = json.dumps([folder, to, another])
        if form.text("confirmed") != asked:
            where = f"the folder {folder}" + (f", and uploads it to {to}" if to else "")
            return Question(
                text=f"This writes {where}. The publication is recorded beside the ledger. What "
                "others have copied cannot be taken back. It charges nothing.",
                yes="Publish",
                fields={
                    "folder": folder,
                    "to": to,
                    "another": another,
                    "confirmed": asked,
                },
            )
        options = [*(["--another"] if another else []), *([f"--to={to}"] if to else [])]
        app.jobs.start(app.base, [["publish", *options, "--", folder]], step=self.name)
        return self.name


def _answers() -> Iterator[_PublicationField]:
    """Yield the fields of the section, in its order."""
    texts = {each.name: each.text for each in meanings(PublicationSettings())}
    for name, field in PublicationSettings.model_fields.items():
        options = (field.annotation, *get_args(field.annotation))
        literal = next((kind for kind in options if get_origin(kind) is Literal), None)
        kind = "text"
        if literal is not None:
            kind = "choice"
        elif any(get_origin(option) is tuple for option in options):
            kind = "list"
        elif date in options:
            kind = "date"
        label = _LABELS.get(name, name.replace("_", " ").capitalize())
        meaning = texts[name].replace("null: ", "empty: ")
        yield _PublicationField(name, label, meaning, kind, get_args(literal) if literal else ())


def _submitted(form: Form) -> Iterator[tuple[str, Any]]:
    for answer in _answers():
        field = f"publication.{answer.name}"
        if answer.kind == "list":
            yield answer.name, form.lines(field)
        else:
            yield answer.name, form.optional(field)
