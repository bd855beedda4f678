"""The first steps: the private file and its unit, the guarantee, and the profile."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from sugarbush.app.forms import Form, save
from sugarbush.app.step import (
    App,
    ChargesSince,
    Question,
    Step,
    Values,
    budget_lines,
    or_message,
    quiet_console,
)
from sugarbush.cli.drafts import is_unedited
from sugarbush.cli.init import create_project, own_data
from sugarbush.cli.profiles import PAGE
from sugarbush.data.formats.rows import ReadOptions
from sugarbush.data.reading import column_names, encoding_of_header, reads_keys
from sugarbush.data.remote import Source, source_of
from sugarbush.data.settings import EXAMPLE_FILE
from sugarbush.errors import ParamsError, SugarbushError
from sugarbush.paths import Roots
from sugarbush.privacy.accounting import rounded_up
from sugarbush.privacy.unit import Unit
from sugarbush.report.statements import belief, highest_chance

_FILE, _TEXT, _ID = "prepare.file", "prepare.text_column", "prepare.id_column"
_USER, _DONATED = "prepare.user_column", "prepare.donated"
_EPSILONS = (0.5, 1.0, 2.0, 4.0)


class DataStep(Step):
    """The private file, its columns, the unit and the donated examples. Reads column names only."""

    name: ClassVar[str] = "data"
    title: ClassVar[str] = "Data"
    needs_project: ClassVar[bool] = False

    def context(self, app: App, form: Form | None) -> dict[str, Any]:
        settings = app.project().settings if app.exists else None
        values = Values(settings, form)
        if settings is None and form is None:
            empty = {"columns": None, "problem": "", "is_example": False, "unit": "record"}
            return {"value": values, **empty}
        is_example = settings is not None and settings.prepare.file == EXAMPLE_FILE
        columns: tuple[str, ...] | None = None
        problem = ""
        if not is_example or form is not None:
            try:
                columns = _columns(_source(app, values(_FILE)), values(_TEXT) or "text")
            except SugarbushError as error:
                problem = str(error)
        counts_all = (
            form is None and settings is not None and settings.profile.columns is None
        ) and not (columns is None or reads_keys(_source(app, values(_FILE))))
        return {
            "value": values,
            "columns": columns,
            "counts_all": counts_all,
            "problem": problem,
            "is_example": is_example,
            "unit": values("privacy.unit" if form is None else "unit") or Unit.RECORD.value,
        }

    def submit(self, app: App, form: Form) -> str | Question | None:
        action = form.text("action")
        if action == "example" and not app.exists:
            create_project(app.base, None, quiet_console())
            return "privacy"
        if not form.text(_FILE):
            raise ParamsError(f"{_FILE}: name your file, for example /data/letters.csv")
        source = _source(app, form.text(_FILE))
        _ = _columns(source, form.text(_TEXT) or "text")
        if action == "columns":
            return None
        by_user = form.text("unit") == Unit.USER
        if by_user and not form.text(_USER):
            raise ParamsError(f"{_USER}: choose the column that names the user of each record")
        user_column = form.optional(_USER) if by_user else None
        if app.exists:
            self._save(app, form, source, user_column)
        else:
            _create(app, form, user_column)
        return "privacy"

    def _save(self, app: App, form: Form, source: Source, user_column: str | None) -> None:
        text = form.text(_TEXT) or "text"
        named = {text: _TEXT, form.text(_ID): _ID, user_column or "": _USER}
        required = {column: setting for column, setting in named.items() if column}
        encoding = encoding_of_header(source, setting=_FILE)
        options = ReadOptions(encoding=encoding)
        column_names(source, required=required, setting=_FILE, options=options)
        donated = form.optional(_DONATED)
        if donated is not None and not app.project().find(donated).exists():
            raise ParamsError(f"{_DONATED}: {donated} was not found")
        prepare = {
            "file": form.text(_FILE),
            "text_column": text,
            "id_column": form.optional(_ID),
            "user_column": user_column,
            "donated": donated,
        }
        unit = Unit.RECORD if user_column is None else Unit.USER
        privacy: dict[str, Any] = {"unit": unit.value}
        if unit is Unit.RECORD:
            privacy["records_per_user"] = 1
        prepare |= {} if encoding is None else {"encoding": encoding}
        profile = {"columns": form.all("profile.columns")}
        save(app.base, {"prepare": prepare, "privacy": privacy, "profile": profile})


def _source(app: App, file: str) -> Source:
    """Return the source of a file. Before there is a project, a path starts at this folder."""
    return source_of(app.base if app.exists else Path(), file, setting=_FILE)


def _columns(source: Source, text_column: str) -> tuple[str, ...]:
    """Return the column names. Without the text column in a header, no name is returned."""
    options = ReadOptions(encoding=encoding_of_header(source, setting=_FILE))
    return column_names(source, required={text_column: _TEXT}, setting=_FILE, options=options)


def _create(app: App, form: Form, user_column: str | None) -> None:
    donated = form.optional(_DONATED)
    if donated is not None and not Path(donated).exists():
        raise ParamsError(f"{_DONATED}: {donated} was not found")
    given = {
        "text_column": form.text(_TEXT) or "text",
        "id_column": form.optional(_ID),
        "user_column": user_column,
        "donated": None if donated is None else Path(donated),
        "columns": ",".join(form.all("profile.columns")),  # "": a profile counts no column
    }
    create_project(app.base, own_data(form.text(_FILE), given), quiet_console())


class PrivacyStep(Step):
    """Epsilon, what it means, and what is left under the cap. Charges nothing."""

    name: ClassVar[str] = "privacy"
    title: ClassVar[str] = "Privacy"

    def context(self, app: App, form: Form | None) -> dict[str, Any]:
        project = app.project()
        privacy = project.settings.privacy
        return {
            "value": Values(project.settings, form),
            "unit": privacy.unit.value,
            "user_column": project.settings.prepare.user_column,
            "meaning": belief(privacy.epsilon, unit=privacy.unit),
            "chances": [(f"{each:g}", highest_chance(each)) for each in _EPSILONS],
            "budget": or_message(budget_lines, project),
        }

    def submit(self, app: App, form: Form) -> str | Question | None:
        privacy = {
            "dataset": form.optional("privacy.dataset"),
            "epsilon": _required(form, "privacy.epsilon"),
            "delta": _required(form, "privacy.delta"),
        }
        if app.project().settings.privacy.unit is Unit.USER:
            privacy["records_per_user"] = _required(form, "privacy.records_per_user")
        release = {"texts": form.number("release.texts")}
        save(app.base, {"privacy": privacy, "release": release})
        return "profile" if form.text("action") == "next" else "privacy"


def _required(form: Form, name: str) -> Any:
    if (value := form.number(name)) is None:
        raise ParamsError(f"{name}: has no value. Write a number")
    return value


class ProfileStep(Step):
    """The optional DP profile, from which a schema can be drafted. Charges profile.epsilon."""

    name: ClassVar[str] = "profile"
    title: ClassVar[str] = "Profile"

    def context(self, app: App, form: Form | None) -> dict[str, Any]:
        project = app.project()
        page = Roots(app.base).published / PAGE
        schema = project.find(project.settings.prepare.schema_)
        return {
            "value": Values(project.settings, form),
            "button": _draw_button(project.settings.profile.epsilon),
            "is_example": project.settings.prepare.file == EXAMPLE_FILE,
            "has_page": page.exists(),
            "drafts_schema": is_unedited(schema),
            "columns": project.settings.profile.columns,
            "budget": or_message(budget_lines, project),
        }

    def submit(self, app: App, form: Form) -> str | Question | None:
        project = app.project()
        epsilon = _required(form, "profile.epsilon")
        if epsilon != project.settings.profile.epsilon:
            save(app.base, {"profile": {"epsilon": epsilon}})
            project = app.project()
        button = _draw_button(project.settings.profile.epsilon)
        if form.text("confirmed") != button:
            return Question(
                text=f"The profile charges the ledger of dataset '{project.dataset}'. A charge "
                "cannot be taken back. A finished profile of the same file is restored and charges "
                "nothing.",
                yes=button,
                fields={
                    "profile.epsilon": form.text("profile.epsilon"),
                    "subject": form.text("subject"),
                    "confirmed": button,
                },
            )
        commands = [["profile"]]
        if is_unedited(project.find(project.settings.prepare.schema_)):
            subject = form.text("subject")
            commands.append(["schema", "draft", *([f"--subject={subject}"] if subject else [])])
        app.jobs.start(app.base, commands, step=self.name, charges=ChargesSince(project))
        return self.name


def _draw_button(epsilon: float) -> str:
    return f"Draw the profile: charges epsilon {rounded_up(epsilon)}"
