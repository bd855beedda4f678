"""The first steps: the private file and its unit, the guarantee, and the profile."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
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
)
from sugarbush.data.formats.rows import ReadOptions
from sugarbush.data.reading import column_names, encoding_of_header, path_of_records, reads_keys
from sugarbush.data.remote import Source, source_of
from sugarbush.data.settings import MOST_HEADER_ROWS, is_in_example
from sugarbush.data.shapes.interface import Shape
from sugarbush.data.shapes.one_text import OneText
from sugarbush.errors import ParamsError, SugarbushError
from sugarbush.paths import Roots, find_input
from sugarbush.privacy.accounting import rounded_up
from sugarbush.privacy.unit import Unit
from sugarbush.profiling.requests import form_of_project
from sugarbush.project.create import OwnData, create_project, own_data, with_form, with_records
from sugarbush.project.drafts import is_unedited
from sugarbush.project.profiles import PAGE
from sugarbush.report.statements import belief, highest_chance
from sugarbush.run.context import Project

_FILE, _TEXT, _ID = "prepare.file", "prepare.text_column", "prepare.id_column"
_USER, _DONATED = "prepare.user_column", "prepare.donated"
_ONE_TEXT, _CONVERSATION, _JSON = "text", "text.conversation", "text.json_schema"
_MESSAGES, _TABLE, _HEADER_ROWS = "messages", "prepare.table", "prepare.header_rows"
_OF_MESSAGES = "prepare.messages"
_EPSILONS = (0.5, 1.0, 2.0, 4.0)


class DataStep(Step):
    """The private file, its columns, the unit and the donated examples. Reads column names only.

    The form of a record is chosen for a new project. Afterwards the schema declares it.
    """

    name: ClassVar[str] = "data"
    title: ClassVar[str] = "Data"
    needs_project: ClassVar[bool] = False

    def context(self, app: App, form: Form | None) -> dict[str, Any]:
        project = app.project() if app.exists else None
        settings = None if project is None else project.settings
        values = Values(settings, form)
        form_of_record = values("record") or _ONE_TEXT
        shown: dict[str, Any] = {
            "record": form_of_record,
            "shape": "",
            "parts": frozenset(),
            "problem": "",
        }
        if settings is None and form is None:
            return {
                **shown,
                "value": values,
                "columns": None,
                "is_example": False,
                "unit": "record",
            }
        is_example = settings is not None and is_in_example(settings.prepare.file)
        columns: tuple[str, ...] | None = None
        try:
            shape = _shape(project, form)
            shown["shape"] = "" if isinstance(shape, OneText) else shape.description
            required = _required(shape, project, values)
            shown["parts"] = frozenset(shape.paths) | frozenset(required)
            if not is_example or form is not None:
                columns = _columns(app, values, required)
        except SugarbushError as error:
            shown["problem"] = str(error)
        counts_all = (
            form is None and settings is not None and settings.profile.columns is None
        ) and not (columns is None or reads_keys(_source(app, values(_FILE))))
        return {
            **shown,
            "value": values,
            "columns": columns,
            "counts_all": counts_all,
            "is_example": is_example,
            "unit": values("privacy.unit" if form is None else "unit") or Unit.RECORD.value,
        }

    def submit(self, app: App, form: Form) -> str | Question | None:
        action = form.text("action")
        if action == "example" and not app.exists:
            create_project(app.base, None)
            return "privacy"
        if not form.text(_FILE):
            raise ParamsError(f"{_FILE}: name your file, for example /data/letters.csv")
        project = app.project() if app.exists else None
        shape = _shape(project, form)
        _ = _columns(app, form.text, _required(shape, project, form.text))
        if action == "columns":
            return None
        by_user = form.text("unit") == Unit.USER
        if by_user and not form.text(_USER):
            raise ParamsError(f"{_USER}: choose the column that names the user of each record")
        user_column = form.optional(_USER) if by_user else None
        if app.exists:
            self._save(app, form, shape, user_column)
        else:
            _create(app, form, user_column)
        return "privacy"

    def _save(self, app: App, form: Form, shape: Shape, user_column: str | None) -> None:
        source = _source(app, form.text(_FILE))
        named = {form.text(_ID): _ID, user_column or "": _USER}
        required = dict(shape.columns) | {column: name for column, name in named.items() if column}
        options = _read_options(app, form.text)
        column_names(source, required=required, setting=_FILE, options=options)
        messages = app.project().settings.prepare.messages
        donated = form.optional(_DONATED)
        if donated is not None and not find_input(app.project().base, donated).exists():
            raise ParamsError(f"{_DONATED}: {donated} was not found")
        prepare: dict[str, Any] = {
            "file": form.text(_FILE),
            "id_column": form.optional(_ID) if messages is None else messages.thread,
            "user_column": user_column,
            "donated": donated,
        }
        changed = {"table": options.table, "header_rows": options.header_rows}
        present = app.project().settings.prepare
        prepare |= {name: v for name, v in changed.items() if v != getattr(present, name)}
        if isinstance(shape, OneText):
            prepare["text_column"] = form.text(_TEXT) or "text"
        unit = Unit.RECORD if user_column is None else Unit.USER
        privacy: dict[str, Any] = {"unit": unit.value}
        if unit is Unit.RECORD:
            privacy["records_per_user"] = 1
        prepare |= {} if options.encoding is None else {"encoding": options.encoding}
        profile = {"columns": form.all("profile.columns")}
        save(app.base, {"prepare": prepare, "privacy": privacy, "profile": profile})


def _shape(project: Project | None, form: Form | None) -> Shape:
    """Return the shape of a record: of the project's schema, or of the form for a new project."""
    if project is None:
        assert form is not None
        own = _own_data(form, {})
        return OneText(own.column) if own.form is None else own.form.shape
    declared = form_of_project(project)
    if declared is not None:
        return declared.shape
    return OneText((form and form.optional(_TEXT)) or project.settings.prepare.text_column)


def _required(
    shape: Shape, project: Project | None, text_of: Callable[[str], str]
) -> dict[str, str]:
    """Map the columns of the text to what names them: the schema, or a field of the form."""
    if project is not None:
        return dict(shape.columns)
    if text_of("record") == _MESSAGES:
        names = ("text", "thread", "speaker", "time")
        named = {text_of(f"{_OF_MESSAGES}.{name}"): f"{_OF_MESSAGES}.{name}" for name in names}
        return {name or "text": field for name, field in named.items() if name or "text" in field}
    json_field = "text.column" if text_of("text.column") else _JSON
    fields = {_CONVERSATION: f"{_CONVERSATION}.column", _JSON: json_field}
    return dict.fromkeys(shape.columns, fields.get(text_of("record"), _TEXT))


def _source(app: App, file: str) -> Source:
    """Return the source of a file. Before there is a project, a path starts at this folder."""
    return source_of(app.base if app.exists else Path(), file, setting=_FILE)


def _columns(
    app: App, text_of: Callable[[str], str], required: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the column names. Without the columns of the text in a header, no name is returned."""
    source, options = _source(app, text_of(_FILE)), _read_options(app, text_of)
    if options.table is None and not app.exists:
        table = path_of_records(source, needed=tuple(required), setting=_FILE, options=options)
        options = replace(options, table=table)
    return column_names(source, required=required, setting=_FILE, options=options)


def _read_options(app: App, text_of: Callable[[str], str]) -> ReadOptions:
    """Return how to read the file: as the settings of a project and the fields of the form say."""
    options = ReadOptions() if not app.exists else app.project().settings.prepare.read_options
    return replace(
        options,
        encoding=encoding_of_header(_source(app, text_of(_FILE)), setting=_FILE),
        table=text_of(_TABLE).strip() or None,
        header_rows=_rows(text_of(_HEADER_ROWS).strip()),
    )


def _rows(text: str) -> int | None:
    if text and not (text.isdecimal() and 1 <= int(text) <= MOST_HEADER_ROWS):
        raise ParamsError(f"{_HEADER_ROWS}: write a number from 1 to {MOST_HEADER_ROWS}")
    return int(text) if text else None


def _own_data(form: Form, further: Mapping[str, Any]) -> OwnData:
    """Return the options of `sugarbush init` for the fields of a new project, with the shape of its
    records."""
    file, record = form.text(_FILE), form.text("record") or _ONE_TEXT
    given = dict(further)
    if record == _CONVERSATION:
        given["conversation"] = form.text(f"{_CONVERSATION}.column") or "messages"
        given["roles"] = form.optional(f"{_CONVERSATION}.roles")
        given["turn_keys"] = form.optional(f"{_CONVERSATION}.format")
        given["other_turns"] = form.optional(f"{_CONVERSATION}.other_turns")
    elif record == _MESSAGES:
        for name in ("thread", "speaker", "time", "roles", "other_turns"):
            given[name] = form.optional(f"{_OF_MESSAGES}.{name}")
        if given["thread"] is None:
            raise ParamsError(f"{_OF_MESSAGES}.thread: name the column of the thread")
        given["text_column"] = form.optional(f"{_OF_MESSAGES}.text")
        given.pop("id_column", None)  # the thread is the id
    elif record == _JSON:
        if not form.text(_JSON):
            raise ParamsError(f"{_JSON}: name the file of the JSON Schema")
        given |= {
            "json_schema": Path(form.text(_JSON)),
            "text_column": form.optional("text.column"),
        }
    else:
        given["text_column"] = form.optional(_TEXT)  # None: a column of conversations counts, too
    given["table"] = form.optional(_TABLE)
    given["header_rows"] = _rows(form.text(_HEADER_ROWS))
    own = own_data(file, given)
    assert own is not None
    options = ReadOptions(
        encoding=encoding_of_header(own.source, setting=_FILE),
        table=own.table,
        header_rows=own.header_rows,
    )
    options, _ = with_records(own, options)
    return with_form(own, options)


def _create(app: App, form: Form, user_column: str | None) -> None:
    donated = form.optional(_DONATED)
    if donated is not None and not Path(donated).exists():
        raise ParamsError(f"{_DONATED}: {donated} was not found")
    given = {
        "id_column": form.optional(_ID),
        "user_column": user_column,
        "donated": None if donated is None else Path(donated),
        "columns": ",".join(form.all("profile.columns")),  # "": a profile counts no column
    }
    create_project(app.base, _own_data(form, given))


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
            "epsilon": _number(form, "privacy.epsilon"),
            "delta": _number(form, "privacy.delta"),
        }
        if app.project().settings.privacy.unit is Unit.USER:
            privacy["records_per_user"] = _number(form, "privacy.records_per_user")
        release = {"texts": form.number("release.texts")}
        save(app.base, {"privacy": privacy, "release": release})
        return "profile" if form.text("action") == "next" else "privacy"


def _number(form: Form, name: str) -> Any:
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
        schema = find_input(project.base, project.settings.prepare.schema_)
        return {
            "value": Values(project.settings, form),
            "button": _draw_button(project.settings.profile.epsilon),
            "is_example": is_in_example(project.settings.prepare.file),
            "has_page": page.exists(),
            "drafts_schema": is_unedited(schema),
            "columns": project.settings.profile.columns,
            "budget": or_message(budget_lines, project),
        }

    def submit(self, app: App, form: Form) -> str | Question | None:
        project = app.project()
        epsilon = _number(form, "profile.epsilon")
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
        if is_unedited(find_input(project.base, project.settings.prepare.schema_)):
            subject = form.text("subject")
            commands.append(["schema", "draft", *([f"--subject={subject}"] if subject else [])])
        app.jobs.start(app.base, commands, step=self.name, charges=ChargesSince(project))
        return self.name


def _draw_button(epsilon: float) -> str:
    return f"Draw the profile: charges epsilon {rounded_up(epsilon)}"
