"""The interface of a step of the form, and what all steps share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from sugarbush.app.forms import Form, as_yaml
from sugarbush.app.jobs import Jobs
from sugarbush.errors import SugarbushError
from sugarbush.pipeline.opening import open_project
from sugarbush.privacy.accounting import rounded_down, rounded_up
from sugarbush.privacy.entries import composed_epsilon
from sugarbush.project.budget import total_after_run
from sugarbush.run.context import Project
from sugarbush.run.ledgers import planned_line
from sugarbush.run.settings import FILE, ProjectSettings, value_at
from sugarbush.settings import has_secret


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question before something that cannot be taken back. `yes` is the text of its button, and
    `fields` are the fields of the answer."""

    text: str
    yes: str
    fields: Mapping[str, str]


@dataclass(kw_only=True)
class App:
    """The project in `base`, which may not exist yet, and the job of its form."""

    base: Path
    jobs: Jobs = field(default_factory=Jobs)

    @property
    def exists(self) -> bool:
        """Whether the folder is a project."""
        return (self.base / FILE).is_file()

    def project(self) -> Project:
        """Open the project with the settings of this moment."""
        return open_project(self.base)


class Step(ABC):
    """One page of the form. `name` is its address, and its template is `<name>.html.jinja`."""

    name: ClassVar[str]
    title: ClassVar[str]
    needs_project: ClassVar[bool] = True

    @abstractmethod
    def context(self, app: App, form: Form | None) -> dict[str, Any]:
        """Return the values for the template. `form` is a form that was not accepted."""

    @abstractmethod
    def submit(self, app: App, form: Form) -> str | Question | None:
        """Do what the form asks, and return the next step, or a question. With None, the page shows
        the form again. Raises SugarbushError, and then nothing is written or started."""


class Values:
    """Returns the text of a field: of the submitted form, or else of the settings."""

    def __init__(self, settings: ProjectSettings | None, form: Form | None, **others: Any) -> None:
        self._form, self._others = form, others
        self._fields = {} if settings is None else settings.model_dump(mode="json", by_alias=True)

    def __call__(self, name: str) -> str:
        if self._form is not None:
            text = self._form.raw(name)
            return "" if "\n" not in text and has_secret(text) else text  # a URL with a password
        return as_yaml(self.setting(name))

    def setting(self, name: str) -> Any:
        """Return the value in the settings, or None."""
        if name in self._others:
            return self._others[name]
        try:
            return value_at(self._fields, name)
        except (KeyError, TypeError):
            return None

    def chosen(self, name: str) -> list[str]:
        """Return the chosen values of a field with several values."""
        if self._form is not None:
            return self._form.all(name)
        return list(self.setting(name) or ())


def budget_lines(project: Project) -> list[str]:
    """Say what is spent, what a run plans, and what the cap allows. Charges nothing."""
    ledger = project.ledger(rehearse=False)
    total, cap, after = ledger.total(), ledger.cap, total_after_run(project)
    verdict = (
        "This is within the cap."
        if after.is_within_cap
        else "This is above the cap: the run would be refused before it charges anything."
    )
    return [
        f"Dataset '{ledger.dataset}': epsilon {rounded_up(total)} of a cap of {rounded_up(cap)} is "
        f"spent, at delta {rounded_up(ledger.delta)}, per {ledger.unit}. About "
        f"{rounded_down(max(cap - total, 0.0))} is left.",
        f"A run plans {planned_line(project)}. After it, the total is at most "
        f"{rounded_up(after.epsilon)}. {verdict}",
    ]


def or_message(lines: Any, *arguments: Any) -> list[str]:
    """Call a function that returns lines. If it fails, return its message as the only lines."""
    try:
        return list(lines(*arguments))
    except SugarbushError as error:
        return str(error).splitlines()


class ChargesSince:
    """Says what was charged since this object was made. The total is computed once per charge."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._before = len(project.ledger(rehearse=False).entries())
        self._said: tuple[int, str] = (-1, "")

    def __call__(self) -> str:
        ledger = self._project.ledger(rehearse=False)
        entries = ledger.entries()
        if self._said[0] != len(entries):
            new = entries[self._before :]
            spent = composed_epsilon(new, delta=ledger.delta) if new else 0.0
            self._said = (
                len(entries),
                f"Charged since the start: epsilon {rounded_up(spent)}. Total of dataset "
                f"'{ledger.dataset}': {rounded_up(ledger.total())} of {rounded_up(ledger.cap)}.",
            )
        return self._said[1]
