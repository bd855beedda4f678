"""Tests which files `sugarbush init` writes, and what it reads from a private file."""

from __future__ import annotations

import csv
import gzip
import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from typer.testing import CliRunner, Result

from sugarbush.cli.main import app
from sugarbush.data.schema import load_schema
from sugarbush.embedding.encoder import Encoder
from sugarbush.generators.huggingface.settings import HuggingFace
from sugarbush.pipeline.opening import open_project
from sugarbush.project import create as init_module
from sugarbush.project.local_model import DEFAULT_MODEL
from sugarbush.project.template import generated_files, project_files
from sugarbush.run.settings import load_params
from sugarbush.run.tools import first_length
from tests.settings import ROOT

CANARY = "canary-7731"
COLUMNS = ("case no", "message", "product", "customer")
ROWS = [
    (f"{CANARY}-{i}", f"{CANARY} text {i}", f"{CANARY}-product", f"{CANARY}-who-{i}")
    for i in range(20)
]
DONATED = [
    {"message": f"a letter on my {s}, line {i}", "product": s, "mood": "ab"[i % 2]}
    for i, s in enumerate(("lamp", "chair") * 8)
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty current folder, and replace the embedding model.

    The replacement returns one direction per product.
    """

    def embed(_: Any, texts: Any, places: Any, advance: Any) -> Any:
        if places:
            rows = [["lamp" in texts[i], "chair" in texts[i], i / 500] for i in places]
            yield list(places), np.array(rows, dtype=np.float32)

    monkeypatch.setattr(Encoder, "_space", "watched", raising=False)
    monkeypatch.setattr(Encoder, "_embed", embed)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def init(*arguments: str, code: int = 0) -> Result:
    done = CliRunner().invoke(app, ["init", *arguments])
    assert done.exit_code == code, done.output
    return done


def write_csv(path: Path, header: tuple[str, ...] = COLUMNS) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *ROWS] if header else ROWS)


def write_private(path: Path) -> None:
    frame = pd.DataFrame(ROWS, columns=list(COLUMNS))
    if path.suffix == ".csv":
        write_csv(path)
    elif path.suffix == ".parquet":
        frame.to_parquet(path, index=False)
    else:
        frame.to_json(path, orient="records", lines=True)


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and ".git" not in path.parts
    }


def test_a_new_project_is_in_git_and_has_the_embedded_example(folder: Path) -> None:
    init("demo")
    assert files_of(folder / "demo").keys() == project_files().keys()
    settings = load_params(folder / "demo" / "params.yaml")
    assert settings.reads_example
    assert load_schema(folder / "demo/data/public/schema.yaml").names
    found = subprocess.run(
        ["git", "rev-parse", "--show-toplevel"],
        cwd=folder / "demo",
        text=True,
        capture_output=True,
        check=True,
    )
    assert Path(found.stdout.strip()).resolve() == (folder / "demo").resolve()


def test_git_ignores_private_files_and_not_the_schema(folder: Path) -> None:
    write_csv(folder / "tickets.csv")
    init("--from", "tickets.csv", "--text", "message")
    (folder / "data/private").mkdir()
    (folder / "data/private/texts.jsonl").write_text("x")
    listed = subprocess.run(
        ["git", "ls-files", "--others", "--exclude-standard"],
        cwd=folder,
        text=True,
        capture_output=True,
        check=True,
    ).stdout.splitlines()
    assert "data/public/schema.yaml" in listed
    assert "params.yaml" in listed
    assert not {"tickets.csv", "data/private/texts.jsonl"} & set(listed)


def test_own_texts_get_a_language_model_with_the_lengths_of_the_donated_texts(
    folder: Path,
) -> None:
    write_csv(folder / "tickets.csv")
    donated = [{"message": "word " * words} for words in (*[5] * 10, *[20] * 10, *[60] * 10)]
    (folder / "donated.jsonl").write_text("\n".join(map(json.dumps, donated)))
    said = init("--from", "tickets.csv", "--text", "message", "--donated", "donated.jsonl").output
    settings = load_params(folder / "params.yaml")
    assert settings.generator.provider == "huggingface"
    model = settings.generator.of(HuggingFace)
    assert model.model == DEFAULT_MODEL.name
    for part in (DEFAULT_MODEL.name, f"{DEFAULT_MODEL.megabytes} MB", DEFAULT_MODEL.licence):
        assert part in said
    assert settings.initialise.length.words is None  # a run reads them from the donated texts
    assert set(first_length(open_project(folder)).numbers) == {5, 20, 60}
    assert model.max_tokens >= 1.5 * 60
    assert settings.release.texts == 500


def test_the_repository_root_is_a_project_of_the_same_template() -> None:
    root = {
        path.relative_to(ROOT).as_posix(): path.read_text()
        for pattern in ("tasks/*.py", "flows/*.py", "dvc.yaml", "prefect.*", "params.yaml")
        for path in ROOT.glob(pattern)
    }
    written = {name: text for name, text in project_files().items() if name in root}
    assert written == root, "run `sugarbush init --update`, or copy the root's file to the template"
    assert generated_files().keys() <= root.keys()


def test_the_settings_of_a_project_are_few_and_commented() -> None:
    lines = project_files()["params.yaml"].splitlines()
    assert len(lines) <= 60
    section = ("release:", "privacy:", "prepare:", "generator:", "embedding:", "initialise:")
    for line in lines:
        assert not line or "#" in line or line.startswith(section), line


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_no_private_value_is_in_a_file_or_a_message(folder: Path, suffix: str) -> None:
    write_private(folder / f"tickets.{suffix}")
    (folder / "donated.jsonl").write_text("".join(json.dumps(d) + "\n" for d in DONATED))
    options = ("--from", f"tickets.{suffix}", "--text", "message", "--id", "case no")
    said = init("bare", *options).output
    said += init("own", *options, "--user", "customer", "--donated", "donated.jsonl").output
    said += init("wrong", *options, "--user", "gone", code=2).output
    assert CANARY not in said
    for project in ("bare", "own"):
        for name, content in files_of(folder / project).items():
            assert CANARY.encode() not in content, name
    assert not (folder / "wrong").exists()


def test_a_csv_file_without_a_header_shows_none_of_its_first_record(folder: Path) -> None:
    write_csv(folder / "tickets.csv", header=())
    said = init("own", "--from", "tickets.csv", "--text", "message", code=2).output
    assert "has no column 'message'" in said
    assert CANARY not in said
    assert not (folder / "own").exists()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.jsonl", f"{CANARY} is not JSON\n".encode()),
        ("t.jsonl", f'["{CANARY}"]\n'.encode()),
        ("t.csv", f'"{CANARY}'.encode()),
        ("t.csv", f"message,{CANARY}".encode() + b"\x81\n"),
        ("t.parquet", CANARY.encode()),
        ("t.csv", b""),
        ("t.txt", CANARY.encode()),
    ],
)
def test_a_file_that_cannot_be_read_is_named_and_not_quoted(
    folder: Path, name: str, content: bytes
) -> None:
    (folder / name).write_bytes(content)
    said = init("own", "--from", name, "--text", "message", code=2).output
    assert f"{name}: " in said and CANARY not in said
    assert not (folder / "own").exists()


def test_column_names_that_look_like_data_are_left_out(folder: Path) -> None:
    write_csv(folder / "t.csv", header=("17", "message", f"x@{CANARY}.org", "why? " * 20))
    init("own", "--from", "t.csv", "--text", "message")
    text = (folder / "own/data/public/schema.yaml").read_text()
    assert "column:" not in text
    assert CANARY not in text


@pytest.mark.parametrize("suffix", ["jsonl", "ndjson", "jsonl.gz"])
def test_a_key_of_a_record_is_in_no_file_unless_it_is_declared(folder: Path, suffix: str) -> None:
    """A key such as the name of a person is data. It is shown on the terminal only."""
    name = f"tickets.{suffix}"
    rows = [{"message": "a", "stars": 3, "product": "lamp", CANARY: 1}, {"message": "b"}]
    content = "".join(json.dumps(row) + "\n" for row in rows).encode()
    (folder / name).write_bytes(gzip.compress(content) if suffix.endswith("gz") else content)
    (folder / "donated.jsonl").write_text("".join(json.dumps(d) + "\n" for d in DONATED))
    options = ("--from", name, "--text", "message")
    said = init("bare", *options).output
    assert CANARY in said
    said = init("own", *options, "--columns", "product, wish", "--donated", "donated.jsonl").output
    assert CANARY in said
    for project in ("bare", "own"):
        for path, written in files_of(folder / project).items():
            assert CANARY.encode() not in written, path
    schemas = [(folder / p / "data/public/schema.yaml").read_text() for p in ("bare", "own")]
    assert not any(key in schemas[0] for key in ("stars", "product", "wish"))
    assert "wish" in schemas[1]
    assert "stars" not in schemas[1]


def test_the_file_is_named_relative_to_the_project(folder: Path) -> None:
    write_csv(folder / "tickets.csv")
    init(
        "own", "--from", "tickets.csv", "--text", "message", "--id", "case no", "--user", "customer"
    )
    settings = load_params(folder / "own/params.yaml")
    assert settings.prepare.file == "../tickets.csv"
    assert settings.prepare.text_column == "message"
    assert settings.prepare.id_column == "case no"
    assert settings.prepare.user_column == "customer"
    assert settings.privacy.unit.value == "user"
    assert settings.privacy.dataset == "tickets"
    assert settings.prepare.donated is None
    fields = yaml.safe_load((folder / "own/params.yaml").read_text())
    assert fields["privacy"]["dataset"] == "tickets"
    here = (folder / "own/params.yaml").read_text().count("#")
    assert here == project_files()["params.yaml"].count("#")


def test_an_absolute_path_outside_the_project_stays_absolute(folder: Path) -> None:
    write_csv(folder / "tickets.csv")
    init("own", "--from", str(folder / "tickets.csv"), "--text", "message")
    assert load_params(folder / "own/params.yaml").prepare.file == str(folder / "tickets.csv")


def test_without_donated_examples_columns_are_comments_and_one_attribute_is_proposed(
    folder: Path,
) -> None:
    write_csv(folder / "tickets.csv")
    init("own", "--from", "tickets.csv", "--text", "message", "--id", "case no")
    path = folder / "own/data/public/schema.yaml"
    assert load_schema(path).names == ("tone",)
    text = path.read_text()
    assert "# - name: product\n#   column: product\n#   values: [" in text
    assert "case no" not in text and "message" not in text
    start = text.index("# - name: product")
    path.write_text(text[:start] + text[start:].replace("# ", ""))
    assert load_schema(path).names == ("tone", "product", "customer")


def test_donated_examples_give_the_values_of_their_columns_and_topics(folder: Path) -> None:
    write_csv(folder / "tickets.csv")
    (folder / "donated.jsonl").write_text("".join(json.dumps(d) + "\n" for d in DONATED))
    options = ("--donated", "donated.jsonl", "--subject", "letters to a shop")
    init("own", "--from", "tickets.csv", "--text", "message", *options)
    path = folder / "own/data/public/schema.yaml"
    schema = load_schema(path)
    assert schema.subject == "letters to a shop"
    assert schema.names == ("product", "topic")  # the private file has no column `mood`
    assert set(schema.attribute("product").values) == {"lamp", "chair"}
    assert "# - name: customer" in path.read_text()
    assert load_params(folder / "own/params.yaml").prepare.donated == "../donated.jsonl"


def test_the_private_file_is_refused_as_donated_examples(folder: Path) -> None:
    write_csv(folder / "tickets.csv")
    options = ("--from", "tickets.csv", "--text", "message", "--donated", "tickets.csv")
    assert "is the private file" in init("own", *options, code=2).output
    assert not (folder / "own").exists()


def test_a_file_that_differs_is_named_and_nothing_is_written(folder: Path) -> None:
    (folder / "README.md").write_text("mine")
    (folder / "tasks").mkdir()
    (folder / "tasks/evolve.py").write_text("mine")
    before = files_of(folder)
    said = init(code=2).output
    assert "README.md, tasks/evolve.py" in said.replace("\n", " ")
    assert files_of(folder) == before
    assert not (folder / ".git").exists()


def test_a_failure_leaves_nothing_behind(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Path, text: str) -> None:
        if path.name == "prefect.yaml":
            raise KeyboardInterrupt
        write(path, text)

    write = init_module._write
    monkeypatch.setattr(init_module, "_write", fail)
    (folder / "there").mkdir()
    for name in ("new/deep", "there"):
        CliRunner().invoke(app, ["init", name])
    assert [path.name for path in folder.rglob("*")] == ["there"]


def test_init_again_writes_nothing(folder: Path) -> None:
    init("demo")
    before = {path: path.stat().st_mtime_ns for path in (folder / "demo").rglob("*.py")}
    assert "nothing to write" in init("demo").output
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_update_writes_generated_files_only_and_keeps_the_old_ones(folder: Path) -> None:
    init()
    (folder / "dvc.yaml").write_text("stages: {}\n")
    (folder / "tasks/evolve.py").unlink()
    gone = project_files()["tasks/evolve.py"].replace('"evolve"', '"crt"')
    (folder / "tasks/crt.py").write_text(gone)
    (folder / "tasks/own.py").write_text("mine")
    (folder / "params.yaml").write_text("methods: {augpe: {}}\n")
    said = init("--update").output
    assert (folder / "dvc.yaml").read_text() == project_files()["dvc.yaml"]
    assert (folder / "dvc.yaml.old").read_text() == "stages: {}\n"
    assert (folder / "tasks/evolve.py").read_text() == project_files()["tasks/evolve.py"]
    assert (folder / "params.yaml").read_text() == "methods: {augpe: {}}\n"
    assert (folder / "tasks/own.py").read_text() == "mine"
    assert not (folder / "tasks/crt.py").exists()
    for name in ("dvc.yaml", "tasks/evolve.py", "tasks/crt.py"):
        assert f"{name}: " in said
    assert "up to date" in init("--update").output


def test_options_that_do_not_go_together_are_refused(folder: Path) -> None:
    assert "needs --from" in init("--text", "message", code=2).output
    assert "not found" in init("--from", "gone.csv", code=2).output
    assert "is for the folder of a project" in init("--update", code=2).output
    assert not files_of(folder)


def test_a_run_refuses_the_stages_of_another_version(folder: Path) -> None:
    init()
    fields = yaml.safe_load((folder / "dvc.yaml").read_text())
    fields["stages"]["prepare"]["deps"].pop()
    fields["stages"]["mine"] = {"cmd": "true"}
    (folder / "dvc.yaml").write_text(yaml.safe_dump(fields))
    done = CliRunner().invoke(app, ["run"])
    assert done.exit_code == 2
    assert "prepare. Write the file again with: sugarbush init --update" in done.output
    assert "mine" not in done.output
    (folder / "dvc.yaml").write_text(project_files()["dvc.yaml"])
    (folder / "tasks/prepare.py").unlink()
    assert "tasks/prepare.py: not found" in CliRunner().invoke(app, ["run"]).output


def test_a_profile_of_json_lines_is_refused_before_it_costs_if_keys_are_not_named(
    folder: Path,
) -> None:
    """A stranger who names the keys afterwards would pay for two profiles."""
    record = {"review": {"text": "fine", "stars": 2}, "shop": "north", "id": 1}
    (folder / "r.jsonl").write_text(json.dumps(record) + "\n")
    said = init("own", "--from", "r.jsonl", "--text", "review.text", "--profile", code=2).output
    assert "--columns shop,id,review.stars, or none: --columns ''. Nothing was spent" in said
    assert not (folder / "own").exists()


def test_the_proposed_columns_can_be_named(folder: Path) -> None:
    """An object is no column: its fields are."""
    record = {"review": {"text": "fine", "stars": 2}, "shop": "north"}
    (folder / "r.jsonl").write_text(json.dumps(record) + "\n")
    said = init("own", "--from", "r.jsonl", "--text", "review.text").output
    named = next(line for line in said.splitlines() if "--columns" in line)
    assert named.endswith("--columns shop,review.stars")
    said = init("other", "--from", "r.jsonl", "--text", "review.text", "--columns", "shop").output
    assert "review.stars" in said and "shop," not in said


def write_chats(path: Path) -> None:
    """Write 120 conversations. One of them has an empty turn."""
    turns = [("user", "My lamp is late."), ("assistant", "Sorry.")]
    chats = [
        {"messages": [{"role": r, "content": f"{t} {i}"} for r, t in turns], "shop": "north"}
        for i in range(120)
    ]
    chats[70]["messages"][1]["content"] = ""  # type: ignore[index]
    path.write_text("".join(json.dumps(chat) + "\n" for chat in chats))


CHATS = ("--conversation", "messages", "--columns", "shop", "--subject", "chats", "--profile")


@pytest.mark.parametrize(
    ("data", "options", "correction"),
    [
        ("chats.jsonl", CHATS, ("-S", "prepare.bad_rows=drop")),
        ("t.csv", ("--text", "message", "--id", "no", "--profile"), ("--id", "key")),
        ("t.csv", ("--text", "message", "--profile", "-S", "privacy.cap=0.1"),
         ("-S", "privacy.cap=2")),
    ],
)  # fmt: skip
def test_one_command_goes_on_after_a_profile_that_failed(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    data: str,
    options: tuple[str, ...],
    correction: tuple[str, ...],
) -> None:
    """Before a charge, a failure leaves nothing. The correction is an option."""
    monkeypatch.setenv("SUGARBUSH_STATE", str(folder / "state"))
    write_chats(folder / "chats.jsonl")
    rows = {"message": [f"late {i}" for i in range(120)], "no": [1] * 120, "key": range(120)}
    pd.DataFrame(rows).to_csv("t.csv", index=False)
    before = sorted(path.name for path in folder.iterdir())
    code = 1 if "privacy.cap=2" in correction else 2
    said = init("own", "--from", data, *options, code=code).output
    assert "Nothing was spent, and no project was written" in said and "-S" in said
    after = sorted(path.name for path in folder.iterdir() if path.name != "state")
    assert after == before and not list(folder.glob("state/ledgers/*/*.jsonl"))
    init("own", "--from", data, *options, *correction)
    assert (folder / "own/data/released/profile").is_dir() and (folder / "own/.git").is_dir()
    if correction[1].startswith("prepare"):
        assert load_params(folder / "own/params.yaml").prepare.bad_rows == "drop"


def test_the_same_command_goes_on_after_a_kill(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUGARBUSH_STATE", str(folder / "state"))
    write_chats(folder / "chats.jsonl")
    command = ("own", "--from", "chats.jsonl", *CHATS, "-S", "prepare.bad_rows=drop")

    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("sugarbush.project.profiles.use_profile", killed)
        CliRunner().invoke(app, ["init", *command])
    assert not (folder / "own/data/released/profile").exists()
    init(*command)
    assert (folder / "own/data/released/profile").is_dir()
    charges = list(folder.glob("state/ledgers/*/*.jsonl"))
    lines = charges[0].read_text()
    assert "exist and differ" in init(*command, code=2).output, "the schema of the profile is there"
    assert charges[0].read_text() == lines


def test_a_draft_from_a_profile_replaces_a_schema_without_attributes_of_its_own(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A subject or a shape that `init` wrote is no edit, and stays."""
    monkeypatch.setenv("SUGARBUSH_STATE", str(folder / "state"))
    write_chats(folder / "chats.jsonl")
    init("own", "--from", "chats.jsonl", *CHATS[:-1], "-S", "prepare.bad_rows=drop")
    monkeypatch.chdir(folder / "own")
    for command in (["profile"], ["schema", "draft"]):
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0, done.output
    assert not Path("schema.yaml").exists() and "prepare.schema" not in done.output
    schema = load_schema(Path("data/public/schema.yaml"))
    assert schema.subject == "chats" and schema.text is not None


def test_settings_of_init_are_in_the_new_project(folder: Path) -> None:
    write_csv(folder / "t.csv")
    settings = ("-S", "prepare.bad_rows=drop", "-S", "methods.mosaic.candidates=700")
    init("own", "--from", "t.csv", "--text", "message", *settings)
    params = load_params(folder / "own/params.yaml")
    assert params.prepare.bad_rows == "drop"
    assert params.methods.by_name["mosaic"].candidates == 700
    said = init("other", "--from", "t.csv", "-S", "prepare.bad_row=drop", code=2).output
    assert "bad_row" in said and not (folder / "other").exists()
    init("demo", "-S", "privacy.epsilon=0.5")
    assert load_params(folder / "demo/params.yaml").privacy.epsilon == 0.5


def test_without_text_the_error_says_that_the_default_is_missing(folder: Path) -> None:
    write_csv(folder / "tickets.csv")
    said = init("own", "--from", "tickets.csv", code=2).output
    assert "has no column 'text', which the default of --text names" in said


def test_a_folder_of_plain_texts_is_refused_with_a_way_to_convert_it(folder: Path) -> None:
    (folder / "notes").mkdir()
    (folder / "notes/a.txt").write_text("late")
    said = init("own", "--from", "notes", code=2).output
    assert 'such as {"text": "My lamp is broken."}' in said.replace("\n", " ")


def test_signs_of_currencies_and_units_are_in_names_of_columns(folder: Path) -> None:
    write_csv(folder / "t.csv", ("Ticket #", "message", "Gebühr (€)", "Rate %"))
    init("own", "--from", "t.csv", "--text", "message")
    drafted = (folder / "own/data/public/schema.yaml").read_text(encoding="utf-8")
    assert all(f"column: {name}" in drafted.replace("'", "") for name in ("Gebühr (€)", "Rate %"))


@pytest.mark.parametrize("name", ["No", "on", "12:30", "2026"])
def test_a_column_with_a_name_that_yaml_reads_as_another_type(folder: Path, name: str) -> None:
    write_csv(folder / "t.csv", (name, "message", "product", "customer"))
    init("own", "--from", "t.csv", "--text", "message", "--id", name)
    assert load_params(folder / "own/params.yaml").prepare.id_column == name


@pytest.mark.parametrize(("option", "columns"), [([], None), (["--columns", ""], ())])
def test_no_named_column_is_not_all_columns(
    folder: Path, option: list[str], columns: tuple[str, ...] | None
) -> None:
    write_csv(folder / "t.csv")
    init("own", "--from", "t.csv", "--text", "message", *option)
    assert load_params(folder / "own/params.yaml").profile.columns == columns


def test_a_schema_has_only_the_columns_that_an_option_names(folder: Path) -> None:
    write_csv(folder / "t.csv")
    init("own", "--from", "t.csv", "--text", "message", "--columns", "product")
    schema = (folder / "own/data/public/schema.yaml").read_text()
    assert "column: product" in schema and "column: customer" not in schema


def test_init_names_the_generator_that_an_option_sets(folder: Path) -> None:
    write_csv(folder / "t.csv")
    options = ("--from", "t.csv", "--text", "message")
    assert "names the generator HuggingFaceTB/SmolLM2" in init("own", *options).stdout
    said = init("other", *options, "-S", "generator.provider=pool").stdout
    assert "params.yaml names the generator pool" in said and "SmolLM2" not in said
