"""Drafts a schema from the profile of a project, or from its donated examples."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sugarbush.attributes.draft import (
    attributes_of_history,
    attributes_of_record,
    draft_schema,
    schema_yaml,
)
from sugarbush.attributes.placeholders import SUBJECT, TONE, placeholders
from sugarbush.data.reading import is_missing, read_rows
from sugarbush.data.schema import Attribute, Schema, load_schema
from sugarbush.data.settings import PrepareSettings
from sugarbush.data.shapes.declaration import TextForm
from sugarbush.data.shapes.interface import ShapeError
from sugarbush.data.shapes.one_text import OneText
from sugarbush.errors import InputError, ParamsError
from sugarbush.paths import atomic_file, find_input
from sugarbush.profiling.draft import subject_of_file
from sugarbush.project.profiles import read_profile, set_from_profile, write_schema_of
from sugarbush.run.context import Project

SETTING = "prepare.donated"


@dataclass(frozen=True, kw_only=True)
class DraftedSchema:
    """A schema that was written to `path`.

    `left_out` maps columns without an attribute to the reason. `donated` is the number of donated
    examples, or None for a draft from a profile. `is_new` is false if params.yaml names the file.
    `notes` are about settings that were changed.
    """

    path: Path
    schema: Schema
    left_out: tuple[tuple[str, str], ...] = ()
    donated: int | None = None
    is_new: bool = True
    notes: tuple[str, ...] = ()


def write_draft(
    project: Project, *, subject: str | None, output: Path | None, seed: int
) -> DraftedSchema:
    """Write a drafted schema. The draft comes from the project's profile, or else from the donated
    file in the settings. A draft from a profile replaces a schema that nobody has edited; otherwise
    the draft is a new file (`output`). No private file is read. Raises ParamsError, InputError or
    SchemaError."""
    profile = read_profile(project.base)
    unedited = find_input(project.base, project.settings.prepare.schema_)
    replaces = output is None and profile is not None and is_unedited(unedited)
    path = output or Path("schema.yaml")
    if not replaces and path.exists():
        raise ParamsError(f"{path}: the file exists already. Name another file with --output")
    if profile is None:
        return _from_donated(project, path, subject=subject, seed=seed)
    named = subject or _subject_of(unedited)
    named = named or subject_of_file(Path(project.settings.prepare.file).stem)
    path = unedited if replaces else path
    draft = write_schema_of(profile, path, subject=named, shape_of=unedited)
    notes = set_from_profile(project, profile, draft.schema.shape) if replaces else ()
    return DraftedSchema(
        path=path, schema=draft.schema, left_out=draft.left_out, is_new=not replaces, notes=notes
    )


def _from_donated(project: Project, path: Path, *, subject: str | None, seed: int) -> DraftedSchema:
    settings = project.settings.prepare
    if settings.donated is None:
        raise ParamsError(
            f"params.yaml: {SETTING} is null, but a draft needs donated examples. Set it to the "
            "file of donated examples, or draw a profile first: sugarbush profile"
        )
    if subject is None:
        raise ParamsError("--subject: say what the texts are, in public words")
    private_file = find_input(project.base, settings.file.removeprefix("file://"))
    if find_input(project.base, settings.donated).resolve() == private_file.resolve():
        raise ParamsError(
            f"params.yaml: {SETTING} is the private file (prepare.file). Name a file of donated "
            "examples"
        )
    form = project.schema.text if find_input(project.base, settings.schema_).exists() else None
    if form is not None and form.json_schema is not None:
        raise ParamsError(
            "the schema declares JSON records, and their JSON Schema tells their attributes. Edit "
            f"{settings.schema_} instead of a draft"
        )
    texts, columns = donated_examples(project.base, settings, form=form)
    embed = project.inputs.encoder(private=False).encode
    schema = draft_schema(texts, subject=subject, columns=columns, embed=embed, seed=seed)
    with atomic_file(path, public=True) as temporary:
        temporary.write_text(
            schema_yaml(schema.model_copy(update={"text": form})), encoding="utf-8"
        )
    return DraftedSchema(path=path, schema=schema, donated=len(texts))


def _subject_of(schema: Path) -> str | None:
    """Return the subject that somebody wrote into the schema, or None."""
    subject = load_schema(schema).subject if schema.exists() else SUBJECT
    return None if subject == SUBJECT else subject


def is_unedited(schema: Path) -> bool:
    """Return whether a schema is a draft that nobody has edited: it has placeholders, or only the
    attributes that a draft has without reading a value."""
    if not schema.exists():
        return False
    own = load_schema(schema)
    drafted: tuple[Attribute, ...] = ()
    if own.text is not None and own.text.json_schema is not None:
        drafted = attributes_of_record(own.text.json_schema, column=own.text.column)
    elif own.text is not None and own.text.history is not None:
        drafted = attributes_of_history(own.text.history)
    has_no_text = not (own.style or own.rules)
    return bool(placeholders(own)) or (has_no_text and own.attributes in ((TONE,), drafted))


def donated_examples(
    base: Path, settings: PrepareSettings, *, form: TextForm | None = None
) -> tuple[tuple[str, ...], dict[str, tuple[object, ...]]]:
    """Read the donated texts and all other columns of their file, except the id and user columns.
    Each column has one entry per text. `form` is the shape of a record; None means one string."""
    path = find_input(base, settings.donated or "")
    shape = OneText(settings.text_column) if form is None else form.shape
    rows, texts = [], []
    read = read_rows(path, setting=SETTING, wanted=shape.columns, all_columns=True)
    for row in shape.grouped(read):
        if form is None and not str(row.fields.get(settings.text_column) or "").strip():
            continue
        try:
            if row.problem:
                raise ShapeError(row.problem)
            texts.append(shape.text_of(row.fields))
        except ShapeError as error:
            raise InputError(f"{path}, row {row.number}: {error} (setting {SETTING})") from None
        rows.append(row.fields)
    if not rows:
        raise InputError(f"{path}: no row has a text (setting {SETTING})")
    names = dict.fromkeys(name for fields in rows for name in fields)
    no_attributes = {settings.id_column, settings.user_column}
    no_attributes |= {n for n in names if any(f"{n}.".startswith(f"{c}.") for c in shape.columns)}
    columns = {
        name: tuple(None if is_missing(fields.get(name)) else fields[name] for fields in rows)
        for name in names
        if name not in no_attributes
    }
    return tuple(texts), columns
