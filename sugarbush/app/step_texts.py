"""The steps that decide what is written: the schema, the generator, and the estimate."""

from __future__ import annotations

import os
from typing import Any, ClassVar

from yaml import YAMLError

from sugarbush.app.forms import Form, as_yaml, save
from sugarbush.app.step import App, Question, Step, Values
from sugarbush.attributes.placeholders import placeholders
from sugarbush.data.mix import require_mix
from sugarbush.data.schema import Schema, load_schema
from sugarbush.data.settings import is_in_example
from sugarbush.errors import ParamsError, SchemaError, SugarbushError
from sugarbush.generators.openai.settings import OpenAI
from sugarbush.paths import atomic_file, find_input
from sugarbush.profiling.requests import form_of_project
from sugarbush.project.check import example_is_made
from sugarbush.project.estimate import NAMES, EstimateTable, estimate_run
from sugarbush.run.settings import ProjectSettings, parse_params
from sugarbush.yaml_files import load_yaml, yaml_fault

_SOURCES, _MIX = "generator.pool.sources", "release.mix"
_FIELDS = {
    "openai": ("base_url", "model", "key_variable", "max_tokens"),
    "huggingface": ("model", "max_tokens"),
}
_NUMBERS = {"max_tokens"}
_OPTIONAL = {"key_variable"}


class SchemaStep(Step):
    """The schema as YAML. It is checked before it is written."""

    name: ClassVar[str] = "schema"
    title: ClassVar[str] = "Schema"

    def context(self, app: App, form: Form | None) -> dict[str, Any]:
        project = app.project()
        path = find_input(project.base, project.settings.prepare.schema_)
        text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        return {
            "value": Values(None, form, schema=text, **{_MIX: _mix_text(project.settings)}),
            "file": project.settings.prepare.schema_,
            "has_schema": path.exists(),
            "notes": _notes(text, path) if form is None else [],
        }

    def submit(self, app: App, form: Form) -> str | Question | None:
        name = app.project().settings.prepare.schema_
        path = app.base / name
        if not path.parent.is_dir():
            raise SchemaError(f"schema: the folder of {name} does not exist")
        with atomic_file(path, public=True) as temporary:
            temporary.write_text(form.raw("schema").rstrip() + "\n", encoding="utf-8")
            try:
                schema = load_schema(temporary)
            except SchemaError as error:
                raise SchemaError(str(error).replace(str(temporary), f"schema: {name}")) from None
            _save_mix(app, form, schema)
        return "generator" if form.text("action") == "next" else self.name


def _mix_text(settings: ProjectSettings) -> str:
    return as_yaml(settings.release.mix) if settings.release.mix else ""


def _save_mix(app: App, form: Form, schema: Schema) -> None:
    """Write the chosen shares. Raises ParamsError if a release cannot have them."""
    if _MIX not in form.names:
        return
    try:
        mix = load_yaml(form.raw(_MIX)) or {}
    except (YAMLError, ValueError) as error:
        raise ParamsError(f"{_MIX}{yaml_fault(error)}") from None
    require_mix(parse_params({"release": {"mix": mix}}).release.mix, schema)
    save(app.base, {"release": {"mix": mix}})


def _notes(text: str, path: Any) -> list[str]:
    """Return what is still to do in a schema, for example its placeholders."""
    if not text:
        return []
    try:
        return list(placeholders(load_schema(path)))
    except SchemaError as error:
        return str(error).splitlines()


class GeneratorStep(Step):
    """The generator with its few settings. A key is named by its variable and never shown."""

    name: ClassVar[str] = "generator"
    title: ClassVar[str] = "Generator"

    def context(self, app: App, form: Form | None) -> dict[str, Any]:
        project = app.project()
        settings = project.settings
        try:
            declared = form_of_project(project)
        except SchemaError:  # the step of the schema shows it
            declared = None
        values = _generator_values(settings, form)
        variable = _key_variable(values)
        rows = max(len(_sources(settings)), _submitted_rows(form)) + (form is None)
        return {
            "value": values,
            "provider": values("generator.provider"),
            "shape": "" if declared is None else declared.shape.description,
            "rows": range(rows or 1),
            "is_example": is_in_example(settings.prepare.file),
            "variable": variable,
            "variable_is_set": bool(variable and os.environ.get(variable)),
        }

    def submit(self, app: App, form: Form) -> str | Question | None:
        settings = app.project().settings
        provider = form.text("generator.provider")
        changes: dict[str, Any] = {"provider": provider}
        if provider == "pool":
            has_shape = form_of_project(app.project()) is not None
            changes["pool"] = {"sources": _chosen_sources(settings, form, has_shape=has_shape)}
        elif provider == "simulator":
            allowed = form.text("generator.simulator.any_texts") == "true"
            if allowed or not is_in_example(settings.prepare.file):
                changes["simulator"] = {"any_texts": allowed}
        elif provider in _FIELDS:
            section: dict[str, Any] = {}
            for name in _FIELDS[provider]:
                field = f"generator.{provider}.{name}"
                value = form.number(field) if name in _NUMBERS else form.optional(field)
                if value is None and name not in _OPTIONAL:
                    raise ParamsError(f"{field}: has no value")
                section[name] = value
            changes[provider] = section
        save(app.base, {"generator": changes})
        return "estimate" if form.text("action") == "next" else self.name


def _key_variable(values: Values) -> str | None:
    """Return the variable with the key of the endpoint in the form, or None."""
    fields = {name: values(f"generator.openai.{name}") for name in ("base_url", "key_variable")}
    try:
        return OpenAI(model="any", **fields).named_key_variable
    except ParamsError:  # not saved yet, or wrong
        return None


def _generator_values(settings: ProjectSettings, form: Form | None) -> Values:
    """Return the settings of every generator in the form, with the defaults of a new one."""
    others: dict[str, Any] = {}
    sections = settings.generator.__pydantic_extra__ or {}
    for provider, names in _FIELDS.items():
        section = sections.get(provider)
        for name in names:
            default = OpenAI.model_fields[name].default if provider == "openai" else None
            default = 256 if (provider, name) == ("huggingface", "max_tokens") else default
            given = None if section is None else getattr(section, name)
            listed = list(given) if isinstance(given, tuple) else given
            empty = "" if name == "model" else default
            others[f"generator.{provider}.{name}"] = empty if section is None else listed
    for number, source in enumerate(_sources(settings)):
        for name, value in source.items():
            others[f"{_SOURCES}.{number}.{name}"] = value
    simulator = sections.get("simulator")
    others["generator.simulator.any_texts"] = bool(getattr(simulator, "any_texts", False))
    return Values(settings, form, **others)


def _sources(settings: ProjectSettings) -> list[dict[str, Any]]:
    pool = (settings.generator.__pydantic_extra__ or {}).get("pool")
    return [] if pool is None else [source.model_dump(mode="json") for source in pool.sources]


def _submitted_rows(form: Form | None) -> int:
    if form is None:
        return 0
    return sum(1 for name in form.names if name.startswith(_SOURCES) and name.endswith(".file"))


def _chosen_sources(
    settings: ProjectSettings, form: Form, *, has_shape: bool
) -> list[dict[str, Any]]:
    """Return the public files of the form. Other settings of a file that stays are kept.

    If the schema declares a shape, a file without a text column has the columns of the shape.
    """
    before = {source["file"]: source for source in _sources(settings)}
    chosen = []
    for number in range(_submitted_rows(form)):
        field = f"{_SOURCES}.{number}"
        if not (file := form.text(f"{field}.file")):
            continue
        column = form.optional(f"{field}.text_column")
        if column is None and not has_shape:
            raise ParamsError(f"{field}.text_column: has no value. Name the column with the text")
        source = before.get(file, {}) | {
            "file": file,
            "text_column": column,
            "licence": form.optional(f"{field}.licence"),
        }
        chosen.append({name: value for name, value in source.items() if value is not None})
    if not chosen:
        raise ParamsError(f"{_SOURCES}.0.file: the pool needs at least one public file")
    return chosen


class EstimateStep(Step):
    """The calls, cost and time of a run, and the rehearsal. Charges nothing."""

    name: ClassVar[str] = "estimate"
    title: ClassVar[str] = "Estimate"

    def context(self, app: App, form: Form | None) -> dict[str, Any]:
        project = app.project()
        problem, tables = "", list[EstimateTable]()
        if example_is_made(project):
            try:
                tables = list(estimate_run(project))
            except SugarbushError as error:
                problem = str(error)
        generator = project.settings.generator
        return {
            "provider": generator.provider,
            "endpoint": getattr(generator.chosen.endpoint, "address", None),
            "estimate": tables,
            "names": NAMES,
            "problem": problem,
            "is_made": example_is_made(project),
        }

    def submit(self, app: App, form: Form) -> str | Question | None:
        app.jobs.start(app.base, [["check"]], step=self.name)
        return self.name
