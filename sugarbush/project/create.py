"""Writes a new project, or the generated files of an existing project."""

from __future__ import annotations

import csv
import os
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from sugarbush.attributes.draft import (
    attributes_of_history,
    attributes_of_record,
    draft_schema,
    schema_yaml,
)
from sugarbush.attributes.placeholders import SUBJECT, TONE
from sugarbush.data.formats.header_rows import HeaderRowsError
from sugarbush.data.formats.rows import ReadOptions, ThreadColumns
from sugarbush.data.private_columns import refuse_private_columns
from sugarbush.data.reading import (
    column_names,
    conversation_column,
    encoding_of_header,
    path_of_records,
    reads_keys,
)
from sugarbush.data.remote import SQLITE, Source, source_of
from sugarbush.data.schema import Attribute, Schema
from sugarbush.data.settings import CONVERSATIONS_FILE, EXAMPLE_FOLDER, PrepareSettings
from sugarbush.data.shapes.conversation import KEYS, ChatFormat
from sugarbush.data.shapes.declaration import TextForm
from sugarbush.data.shapes.one_text import TEXT
from sugarbush.data.threads import MESSAGES
from sugarbush.errors import FailureError, InputError, ParamsError, SchemaError, SugarbushError
from sugarbush.languages import ENGLISH, language_code
from sugarbush.paths import atomic_file
from sugarbush.pipeline.opening import open_project
from sugarbush.progress import working
from sugarbush.project.assignments import changed_text
from sugarbush.project.drafts import donated_examples
from sugarbush.project.example_name import ExampleName
from sugarbush.project.local_model import DEFAULT_MODEL, examples_for, tokens_for
from sugarbush.project.template import (
    IGNORED,
    SCHEMA,
    generated_files,
    outdated_tasks,
    project_files,
)
from sugarbush.run.ledgers import profile_charges
from sugarbush.run.settings import FILE, ProjectSettings, dataset_name

if TYPE_CHECKING:
    from sugarbush.project.profiles import ProfiledProject

_TEXTS = 500  # texts of the first release; a language model on two CPU cores writes them in time
_FROM = "--from"
_ESCAPED = r"\\\1"
_OPTION_OF_FORM = {
    "fields": "--text", "conversation": "--conversation", "json_schema": "--json-schema",
    "history": "--history-by",
}  # fmt: skip
_CONVERSATIONS: dict[str, Any] = {
    "prepare": {
        "file": CONVERSATIONS_FILE,
        "donated": EXAMPLE_FOLDER + "conversations.donated.jsonl",
        "schema": EXAMPLE_FOLDER + "conversations.schema.yaml",
    },
    "generator": {
        "pool": {
            "sources": [
                {"file": EXAMPLE_FOLDER + "conversations.pool.jsonl", "licence": "Apache-2.0"}
            ]
        }
    },
}
_SEED = 1  # seed of the clusters that become topics


@dataclass(frozen=True, kw_only=True)
class OwnData:
    """The options about the user's own data. Paths are as the user wrote them."""

    file: str
    text_column: str | None = None
    id_column: str | None = None
    user_column: str | None = None
    donated: Path | None = None
    subject: str | None = None
    columns: str | None = None
    table: str | None = None
    conversation: str | None = None
    roles: str | None = None
    turn_keys: str | None = None
    other_turns: str | None = None
    thread: str | None = None
    time: str | None = None
    speaker: str | None = None
    header_rows: int | None = None
    json_schema: Path | None = None
    history_by: str | None = None
    form: TextForm | None = None

    @property
    def column(self) -> str:
        """The column with the text, for records of one string and for messages."""
        has_shape = self.form is not None and self.thread is None
        return "text" if has_shape else next(iter(_names_in(self.text_column)), "text")

    @property
    def messages(self) -> ThreadColumns | None:
        """The columns of messages, if each row is one."""
        if self.thread is None or self.speaker is None:
            return None
        return ThreadColumns(
            thread=self.thread,
            speaker=self.speaker,
            text=self.column,
            time=self.time,
            user=self.user_column,
        )

    @property
    def named(self) -> tuple[str, ...]:
        """The columns that the options name."""
        texts = _names_in(self.text_column) if self.json_schema is None else ()
        one = (self.conversation, self.id_column, self.user_column, self.time, self.speaker)
        return (*texts, *(name for name in one if name is not None))

    @property
    def source(self) -> Source:
        """The private file, folder or database. A relative path starts at the current folder."""
        return source_of(Path(), self.file, setting=_FROM)

    @property
    def local_path(self) -> Path | None:
        """The private file or folder on this machine, or None. It may be a pattern."""
        if self.file.startswith(SQLITE):
            return Path(self.file.removeprefix(SQLITE))
        return self.source if isinstance(self.source, Path) else None

    @property
    def has_keys(self) -> bool:
        """Whether the records have keys and no header. A key that few records have is data."""
        return reads_keys(self.source)

    @property
    def declared(self) -> tuple[str, ...]:
        """The column names that the user declares public."""
        return _names_in(self.columns)

    @property
    def required(self) -> dict[str, str]:
        """Maps each required column to the option that names the column."""
        if self.form is None or self.thread is not None:
            texts = {self.column: "--text" if self.text_column else "the default of --text"}
        else:
            texts = dict.fromkeys(self.form.shape.columns, _OPTION_OF_FORM[self.form.kind])
        options = texts | {
            self.id_column: "--id",
            self.user_column: "--user",
            self.history_by: "--history-by",
            self.thread: "--thread",
            self.time: "--time",
            self.speaker: "--speaker",
        }
        return {column: option for column, option in options.items() if column is not None}


@dataclass(frozen=True, kw_only=True)
class CreatedProject:
    """A project in `folder`. `is_new` is false if all its files existed.

    `keys` are the keys of the first record that no option names. A key may be private. `encoding`
    is that of the header, if it is not UTF-8 and no setting names it, and `records` the path of the
    list that was found in a JSON file.
    """

    folder: Path
    user_data: OwnData | None
    is_new: bool
    keys: tuple[str, ...] = ()
    encoding: str | None = None
    records: str | None = None
    profiled: ProfiledProject | None = None


def create_project(
    folder: Path,
    user_data: OwnData | None,
    *,
    profile: bool = False,
    example: ExampleName = ExampleName.TEXTS,
    assignments: Sequence[str] = (),
    advise: Callable[[str], None] = lambda line: None,
) -> CreatedProject:
    """Write a project into `folder`, for the embedded example or the user's own file. Without
    `profile`, only the column names of the private file are read. `assignments` are settings as
    `key=value`. No existing file is overwritten. After a failure before the first charge, the new
    files are removed. `advise` gets lines that say what to do after a failure of the profile.
    Raises ParamsError, InputError or FailureError."""
    project = project_files()
    if user_data is None:
        changes = _CONVERSATIONS if example is ExampleName.CONVERSATIONS else {}
        if changes or assignments:
            changed = changed_text(project[FILE], changes, assignments=assignments)
            project[FILE] = changed.text
    keys: tuple[str, ...] = ()
    encoding: str | None = None
    records: str | None = None
    if user_data is not None:
        options = changed_text(project[FILE], {}, assignments=assignments).params.prepare
        encoding = None if options.encoding else encoding_of_header(user_data.source, setting=_FROM)
        read = replace(
            options.read_options,
            encoding=options.encoding or encoding,
            table=user_data.table or options.table,
            header_rows=user_data.header_rows or options.header_rows,
            thread=user_data.messages,
        )
        with working("reading the column names"):
            read, records = with_records(user_data, read)
            user_data = with_form(user_data, read)
            columns = column_names(
                user_data.source,
                required=user_data.required | _profiled(user_data, profile),
                setting=_FROM,
                options=read,
            )
        keys = _further_keys(user_data, columns)
        if profile and keys and user_data.columns is None:
            raise ParamsError(
                f"--profile: the first record also has the keys {', '.join(keys)}. A key may be "
                "private, so a profile counts only columns that --columns names, and a second "
                f"profile costs again. Name the public ones that matter: --columns "
                f"{','.join(keys)}, or none: --columns ''. Nothing was spent"
            )
        with working("drafting the settings"):
            found = {"encoding": encoding, "records": records}
            project |= _files_for(folder, user_data, columns, found, assignments)
    if (folder / ".dvc").exists():
        project = {name: text for name, text in project.items() if not name.startswith(".dvc/")}
    new = {name: text for name, text in project.items() if not _has(folder / name, text)}
    if taken := [name for name in new if os.path.lexists(folder / name)]:
        raise ParamsError(
            f"{folder}: these files exist and differ: {', '.join(sorted(taken))}. Move them away, "
            "or name another folder. In a project, `sugarbush init --update` writes the generated "
            "files again."
        )
    files = _NewFiles(folder)
    with files.removed_on_failure():
        for name, text in new.items():
            files.write(name, text)
        files.start_git()
    profiled = None
    if profile and user_data is not None:
        profiled = _profile_new_project(files, user_data, advise)
    return CreatedProject(
        folder=folder,
        user_data=user_data,
        is_new=bool(new),
        keys=keys,
        encoding=encoding,
        records=records,
        profiled=profiled,
    )


def _profile_new_project(
    files: _NewFiles, user_data: OwnData, advise: Callable[[str], None]
) -> ProfiledProject | None:
    """Draw the profile of a project that has none, and write its schema.

    If it fails before a charge, no file of the project remains, so the same command can be given
    again with a correction. After a kill, the same command goes on.
    """
    from sugarbush.project.profiles import read_profile, use_profile  # slow

    if read_profile(files.folder) is not None:
        return None
    before = profile_charges(open_project(files.folder))
    try:
        return use_profile(files.folder, files.folder / SCHEMA, subject=user_data.subject)
    except SugarbushError:
        if files.written and profile_charges(open_project(files.folder)) == before:
            files.remove()
            lines: tuple[str, ...] = (
                "Nothing was spent, and no project was written. Correct what the error below "
                "names, and give the same command again.",
                "  -S SETTING=VALUE   changes a setting, such as -S prepare.bad_rows=drop",
            )
        else:
            lines = (
                f"{files.folder}: the project is written, but its profile is not. Correct what the "
                f"error below names, in the file, in {FILE} or in {SCHEMA}. Then, in the folder:",
                "  sugarbush profile          says if something was charged",
                "  sugarbush schema draft     writes the schema",
            )
        for line in lines:
            advise(line)
        raise


def with_records(user_data: OwnData, options: ReadOptions) -> tuple[ReadOptions, str | None]:
    """Return the options with the path of the records, and the path if no option names it. The
    names in a JSON file decide, never a value."""
    if options.table is not None:
        return options, None
    found = path_of_records(
        user_data.source, needed=user_data.named, setting=_FROM, options=options
    )
    return replace(options, table=found), found


def _with_one_column(user_data: OwnData, options: ReadOptions) -> OwnData:
    """Return the options with quotation marks around a name of a column with commas, unless its
    parts are columns, too. Questions of a survey have such names."""
    name = (user_data.text_column or "").strip()
    if "," not in name or '"' in name:
        return user_data

    def are_columns(names: Iterable[str]) -> bool:
        required = dict.fromkeys(names, "--text")
        try:
            column_names(user_data.source, required=required, setting=_FROM, options=options)
        except HeaderRowsError:
            raise
        except InputError:
            return False
        return True

    # The parts come first: with another delimiter, a whole header is one name.
    if are_columns(_names_in(name)) or not are_columns([name]):
        return user_data
    return replace(user_data, text_column=f'"{name}"')


def with_form(user_data: OwnData, options: ReadOptions) -> OwnData:
    """Return the options with the shape of a record that they name, or that the file shows.

    Without an option, a column of conversations is recognized by its type or its name, never by a
    value. Raises ParamsError for options that exclude each other.
    """
    user_data = _with_one_column(user_data, options)
    chat, texts = user_data.conversation, _names_in(user_data.text_column)
    roles = _names_in(user_data.roles)
    if user_data.thread is not None:
        _check_thread(user_data, texts, roles)
        chat_form = {"column": MESSAGES, "roles": roles, **_policy(user_data)}
        return replace(user_data, form=_form({"conversation": chat_form}))
    if user_data.speaker is not None or user_data.time is not None:
        raise ParamsError("--speaker and --time: need --thread, which names the thread of a row")
    if chat is not None and (texts or user_data.json_schema is not None):
        raise ParamsError("--conversation: cannot be combined with --text or --json-schema")
    if user_data.json_schema is not None and len(texts) > 1:
        raise ParamsError("--json-schema: name at most one column with --text, or none")
    if user_data.history_by is not None:
        return replace(user_data, form=_history_form(user_data, texts))
    recognized = None
    if user_data.json_schema is None and not texts:
        recognized = conversation_column(
            user_data.source, setting=_FROM, named=chat, options=options
        )
    column = chat or (recognized[0] if recognized else None)
    if roles and column is None:
        raise ParamsError("--roles: needs --conversation, which names the column")
    fields: dict[str, Any] | None = None
    if column is not None:
        formats = {keys: name.value for name, keys in KEYS.items()}
        format_: Any = formats[recognized[1]] if recognized else ChatFormat.OPENAI.value
        format_ = list(_names_in(user_data.turn_keys)) or format_
        declared = {"column": column, "roles": roles, "format": format_}
        fields = {"conversation": declared | _policy(user_data)}
    elif user_data.json_schema is not None:
        fields = {"json_schema": user_data.json_schema, "column": next(iter(texts), None)}
    elif len(texts) > 1:
        fields = {"fields": texts}
    if column is None and (user_data.turn_keys or user_data.other_turns):
        raise ParamsError("--turn-keys and --other-turns: need --conversation or --thread")
    return user_data if fields is None else replace(user_data, form=_form(fields))


def _history_form(user_data: OwnData, texts: Sequence[str]) -> TextForm:
    """Return the declaration of histories. Raises ParamsError without a column of users."""
    if user_data.user_column is None:
        raise ParamsError("--history-by: needs --user, the column with the person of each record")
    if user_data.conversation is not None or user_data.json_schema is not None or len(texts) > 1:
        raise ParamsError(
            "--history-by: name one column with --text, and no other form of a record"
        )
    column = next(iter(texts), TEXT)
    fields = {"person": user_data.user_column, "by": user_data.history_by, "column": column}
    return _form({"history": fields})


def _policy(user_data: OwnData) -> dict[str, str]:
    return {} if user_data.other_turns is None else {"other_turns": user_data.other_turns}


def _check_thread(user_data: OwnData, texts: Sequence[str], roles: Sequence[str]) -> None:
    if user_data.conversation is not None or user_data.json_schema is not None or len(texts) > 1:
        raise ParamsError(
            "--thread: each row is one message, so it cannot be combined with --conversation, "
            "--json-schema or several columns of --text"
        )
    if user_data.history_by is not None:
        raise ParamsError("--thread: cannot be combined with --history-by")
    if user_data.speaker is None or not roles:
        raise ParamsError(
            "--thread: needs --speaker, the column of the speakers, and --roles, their public "
            "names, such as: --roles customer,agent"
        )
    if user_data.id_column not in (None, user_data.thread):
        raise ParamsError(
            "--id: a thread is a record, so its id is that of --thread. Leave out --id"
        )


def _form(fields: Mapping[str, Any]) -> TextForm:
    """Return a declared shape. Raises ParamsError for a wrong declaration."""
    try:
        return TextForm.model_validate(fields)
    except ValidationError as error:
        problem = error.errors(include_input=False, include_url=False)[0]
        option = _OPTION_OF_FORM[next(iter(fields))]
        reason = problem["msg"].removeprefix("Value error, ")
        raise ParamsError(f"{option}: {reason}") from None


def _names_in(option: str | None) -> tuple[str, ...]:
    """Return the names in an option, such as A,B. A name with a comma has quotation marks.

    >>> _names_in('product, "name, given"')
    ('product', 'name, given')
    """
    names = next(csv.reader([option or ""], skipinitialspace=True), [])
    return tuple(name.strip() for name in names if name.strip())


def _further_keys(user_data: OwnData, names: Sequence[str]) -> tuple[str, ...]:
    """Return the keys of the first record that no option names, without objects of other keys."""
    if not user_data.has_keys:
        return ()
    public = {*user_data.required, *user_data.declared}
    parents = {name for name in names if any(n.startswith(f"{name}.") for n in (*names, *public))}
    return tuple(name for name in names if name not in public | parents)


def _profiled(user_data: OwnData, profile: bool) -> dict[str, str]:
    """Map the columns of a profile to their option. The first record may lack a key."""
    named = user_data.declared if profile and not user_data.has_keys else ()
    return dict.fromkeys(named, "--columns")


def update_project(folder: Path) -> list[str]:
    """Write dvc.yaml, tasks/ and flows/ again. An old file is renamed to <file>.old. Return a line
    about each changed file."""
    if not (folder / FILE).exists():
        raise ParamsError(f"{folder / FILE}: not found. --update is for the folder of a project")
    lines = []
    for name, text in generated_files().items():
        path = folder / name
        if _has(path, text):
            continue
        if path.exists():
            path.replace(path.with_name(f"{path.name}.old"))
            lines.append(f"{name}: updated; the old version is {name}.old")
        else:
            lines.append(f"{name}: written")
        _write(path, text)
    for name in outdated_tasks(folder):
        (folder / name).replace(folder / f"{name}.old")
        lines.append(f"{name}: no longer needed; it is now {name}.old")
    return lines


def _files_for(
    folder: Path,
    user_data: OwnData,
    columns: tuple[str, ...],
    found: Mapping[str, Any],
    assignments: Sequence[str],
) -> dict[str, str]:
    template = project_files()
    path = user_data.local_path
    local = "" if path is None else _path_setting(path, folder)
    file = local or user_data.file
    if user_data.file.startswith(SQLITE):
        file = SQLITE + local
    changes: dict[str, Any] = {
        "prepare": {
            "file": file,
            "text_column": user_data.column,
            "id_column": user_data.thread or user_data.id_column,
            "user_column": user_data.user_column,
            "donated": None
            if user_data.donated is None
            else _path_setting(user_data.donated, folder),
            "schema": SCHEMA,
        },
        "release": {"texts": _TEXTS},
        "profile": {"columns": None if user_data.columns is None else list(user_data.declared)},
        "privacy": {
            "dataset": dataset_name(local or user_data.file.partition("?")[0]),
            "unit": "record" if user_data.user_column is None else "user",
        },
    }
    options = {
        "table": user_data.table or found["records"],
        "header_rows": user_data.header_rows,
        "messages": _message_settings(user_data),
        "encoding": found["encoding"],
    }
    changes["prepare"] |= {name: value for name, value in options.items() if value is not None}
    changes |= _generator_changes(user_data)
    changed = changed_text(template[FILE], changes, assignments=assignments)
    ignored = template[IGNORED]
    if path is not None and not local.startswith("../") and not Path(local).is_absolute():
        special = r"([\\*?\[\]!#])" if path.exists() else r"([\\?\[\]!#])"  # or a pattern with *
        ignored += f"# Your private file.\n/{re.sub(special, _ESCAPED, local)}\n"
    files = {
        FILE: changed.text,
        SCHEMA: _schema_text(user_data, columns, changed.params),
        IGNORED: ignored,
    }
    if user_data.json_schema is not None:
        beside = (Path(SCHEMA).parent / user_data.json_schema.name).as_posix()
        files[beside] = user_data.json_schema.read_text(encoding="utf-8")
    return files


def _message_settings(user_data: OwnData) -> dict[str, str | None] | None:
    if (columns := user_data.messages) is None:
        return None
    return {name: getattr(columns, name) for name in ("thread", "speaker", "time")}


def _generator_changes(user_data: OwnData) -> dict[str, Any]:
    """Return the settings of the generator for texts like the donated ones. The default is a small
    open model on this machine."""
    local: dict[str, Any] = {
        "model": DEFAULT_MODEL.name,
        "temperature": DEFAULT_MODEL.temperature,
    }
    changes: dict[str, Any] = {
        "generator": {"provider": "huggingface", "huggingface": local, "pool": {"sources": []}}
    }
    if user_data.donated is None:
        return changes
    settings = PrepareSettings(donated=str(user_data.donated), text_column=user_data.column)
    texts, _ = donated_examples(Path(), settings, form=user_data.form)
    local["max_tokens"] = tokens_for(texts)
    changes["methods"] = {"mosaic": {"examples": examples_for(texts)}}
    return changes


def _schema_text(user_data: OwnData, columns: tuple[str, ...], params: ProjectSettings) -> str:
    """Draft a schema from column names of the private file, and from donated examples if given. A
    column with unknown values becomes a comment. From a jsonl file, only declared names are
    written, because git tracks the schema and a key of a record may be data. Raises ParamsError if
    the donated file is the private file."""
    subject = user_data.subject or SUBJECT
    attributes, of_record = tuple[Attribute, ...](), tuple[Attribute, ...]()
    language = ENGLISH
    if user_data.form is not None and user_data.form.json_schema is not None:
        of_record = attributes_of_record(user_data.form.json_schema, column=user_data.form.column)
    if user_data.form is not None and user_data.form.history is not None:
        of_record = attributes_of_history(user_data.form.history)
    if user_data.donated is not None:
        private = user_data.local_path
        if private is not None and user_data.donated.resolve() == private.resolve():
            raise ParamsError(
                "--donated is the private file (--from). Name a file of donated examples"
            )
        settings = params.prepare.model_copy(update={"donated": str(user_data.donated)})
        texts, values = donated_examples(Path(), settings, form=user_data.form)
        language = _language_of(texts)
        with (
            tempfile.TemporaryDirectory() as cache,
            suppress(SchemaError),
        ):  # too few examples
            encoder = open_project(Path(cache), settings=params).inputs.encoder(private=False)
            attributes = draft_schema(
                texts,
                subject=subject,
                columns={name: values[name] for name in values if name in columns},
                embed=encoder.encode,
                seed=_SEED,
            ).attributes
    names = {attribute.name for attribute in of_record}
    attributes = (*of_record, *(a for a in attributes if a.name not in names))
    schema = Schema(
        subject=subject,
        language=language,
        attributes=attributes or (TONE,),
        text=user_data.form,
    )
    refuse_private_columns(schema, params.prepare, params.publication.private_columns)
    named_columns = {attribute.column for attribute in schema.attributes} | set(user_data.required)
    only_named = user_data.has_keys or user_data.columns is not None
    public = user_data.declared if only_named else columns
    unknown = [
        name
        for name in dict.fromkeys(public)
        if name not in named_columns
        and not any(other.startswith(f"{name}.") for other in public)  # a struct
        and not (user_data.form and name.partition(".")[0] in user_data.form.shape.types)
    ]
    file = None if user_data.json_schema is None else user_data.json_schema.name
    return schema_yaml(schema, unknown_columns=unknown, json_schema=file)


def _language_of(texts: Sequence[str]) -> str:
    """Return the code of the language of most donated texts, or English if there is none."""
    from sugarbush.profiling.style import language

    (name, count), *_ = Counter(map(language, texts)).most_common(1) or [("", 0)]
    return language_code(name) or ENGLISH if 2 * count > len(texts) else ENGLISH


def _path_setting(file: Path, folder: Path) -> str:
    """Return the path for params.yaml: relative, except for an absolute path outside `folder`."""
    path = file.absolute().parent.resolve() / file.name
    if file.is_absolute() and not path.is_relative_to(folder.resolve()):
        return str(file)
    return Path(os.path.relpath(path, folder.resolve())).as_posix()


def _has(path: Path, text: str) -> bool:
    return path.is_file() and path.read_bytes() == text.encode()


def _write(path: Path, text: str) -> None:
    with atomic_file(path, public=True) as temporary:
        temporary.write_bytes(text.encode())


class _NewFiles:
    """The files that `init` writes into `folder`, so that they can be removed again."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.written = folder, list[Path]()
        self._above = [p for p in (folder, *folder.absolute().parents) if not p.exists()]
        self._git: Path | None = None

    def write(self, name: str, text: str) -> None:
        self.written.append(self.folder / name)
        _write(self.folder / name, text)

    def start_git(self) -> None:
        """Make a git repository if the folder is in none. DVC needs it."""
        try:
            inside = _git(self.folder, "rev-parse", "--is-inside-work-tree").returncode == 0
            if inside:
                return
            if _git(self.folder, "init", "--quiet").returncode == 0:
                self._git = self.folder / ".git"
                return
        except FileNotFoundError:
            raise FailureError("git is not installed, but DVC needs it. Install git") from None
        raise FailureError(
            f"{self.folder}: `git init` failed. Run `git init` there to see the reason"
        )

    def remove(self) -> None:
        """Remove the files, a new git repository, and then the empty folders."""
        within = {p for f in self.written for p in f.parents if p.is_relative_to(self.folder)}
        for file in self.written:
            file.unlink(missing_ok=True)
        if self._git is not None:
            shutil.rmtree(self._git, ignore_errors=True)
        for path in sorted(within - {self.folder}, key=lambda p: -len(p.parts)) + self._above:
            if path.is_dir() and not any(path.iterdir()):
                path.rmdir()

    @contextmanager
    def removed_on_failure(self) -> Iterator[None]:
        """Remove the files if the block fails."""
        try:
            yield
        except BaseException:
            self.remove()
            raise


def _git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    # In a git hook, variables such as GIT_DIR name another repository.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    return subprocess.run(
        ["git", *arguments], cwd=folder, capture_output=True, check=False, env=environment
    )


def own_data(file: str | None, fields: Mapping[str, Any]) -> OwnData | None:
    """Collect the options that need `--from`. Raises ParamsError if `--from` is missing."""
    given = {name: value for name, value in fields.items() if value is not None}
    if file is not None:
        return OwnData(file=file, **given)
    if given:
        options = ", ".join("--" + name.removesuffix("_column").replace("_", "-") for name in given)
        raise ParamsError(f"{options}: needs --from, which names your file")
    return None
