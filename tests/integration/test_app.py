"""The form in the browser: from a csv file to a published folder, and closed to everybody else."""

from __future__ import annotations

import csv
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pandas as pd
import psutil
import pytest
import yaml

from sugarbush.app.server import STEPS, AppServer
from sugarbush.project.assignments import changed_settings, write_settings
from tests.integration.browser import Page, chromium, open_page
from tests.integration.project import ONE_PROCESS, TINY_ENCODER, letters
from tests.settings import ROOT

SCHEMA = """\
# Written in the form.
subject: letters to a shop
attributes:
- name: product
  column: product
  values: [lamp, chair, kettle]
"""
SMALL = {
    "prepare": {"min_records": 20},
    "synthesize_metadata": {"degree": 1},
    "methods": {"mosaic": {"candidates": 24}},
    "evaluate": {"bootstrap": 0},
    "embedding": {"model": "tiny"},
}
PUBLICATION = {
    "curators": "City Library",
    "contact": "privacy@library.example",
    "intended_use": "Teaching how to answer letters.",
    "recipients": "everybody",
    "region": "Germany",
    "sector": "Government",
    "licence": "cc-by-4.0",
    "languages": "en",
    "data_source": "static",
    "source_access": "Two librarians.",
    "source_retention": "One year.",
    "exploration": "nothing",
    "justification_of_epsilon": "A small risk.",
    "justification_of_unit": "Each person wrote one letter.",
    "intruder_test": "A colleague found no writer.",
    "review_date": "2035-06-30",
}
WITH_SIGINT = str(ROOT / "tests" / "with_sigint.py")


def write_csv(path: Path, rows: list[dict[str, str]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a private file, donated examples and public texts, all invented."""
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("DVC_NO_ANALYTICS", "1")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    paths = [str(ONE_PROCESS), str(ROOT), str(TINY_ENCODER)]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    monkeypatch.syspath_prepend(str(TINY_ENCODER))
    records = letters(360)
    write_csv(tmp_path / "letters.csv", records[:120])
    write_csv(tmp_path / "donated.csv", records[120:140])
    public = [{"text": row["text"].replace("Dear shop", "Hello")} for row in records[140:]]
    write_csv(tmp_path / "public.csv", public)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def server(folder: Path) -> Iterator[AppServer]:
    (folder / "open").mkdir(mode=0o700)
    with AppServer(folder / "project", folder=folder / "open") as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


class Address:
    """The address of a form in another process."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.port is not None
        self.server_port, self.token = parts.port, parts.path.strip("/")


class Answer:
    def __init__(self, answer: http.client.HTTPResponse) -> None:
        self.status, self.headers = answer.status, dict(answer.getheaders())
        self.text = answer.read().decode("utf-8", "replace")

    def message(self, field: str) -> str:
        """Return the message beside a field."""
        found = re.search(
            rf'<p class="error" id="{re.escape(field)}-error">(.*?)</p>', self.text, re.S
        )
        assert found is not None, self.text
        return found[1]


def request(
    server: AppServer | Address, path: str, *, body: str | None = None, **headers: str
) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=300)
    connection.request("GET" if body is None else "POST", path, body, headers)
    answer = Answer(connection.getresponse())
    connection.close()
    return answer


def page_of(server: AppServer | Address, step: str) -> Answer:
    return request(server, f"/{server.token}/{step}")


def submit(server: AppServer | Address, step: str, fields: dict[str, str | list[str]]) -> Answer:
    """Submit a form as a browser does."""
    return request(
        server,
        f"/{server.token}/{step}",
        body=urlencode(fields, doseq=True),
        **{
            "Content-Type": "application/x-www-form-urlencoded",
            "Origin": f"http://127.0.0.1:{server.server_port}",
        },
    )


def make_project(server: AppServer | Address) -> Path:
    """Make the project by the form."""
    answer = submit(
        server,
        "data",
        {
            "prepare.file": "letters.csv",
            "prepare.text_column": "text",
            "prepare.id_column": "id",
            "unit": "record",
            "profile.columns": ["product"],
            "prepare.donated": "donated.csv",
            "action": "create",
        },
    )
    assert answer.status == 303, answer.text
    assert answer.headers["Location"].endswith("/privacy")
    return Path("project").absolute()


def params(base: Path) -> dict[str, dict[str, object]]:
    return dict(yaml.safe_load((base / "params.yaml").read_text(encoding="utf-8")))


def make_small(base: Path) -> None:
    """Change settings that the form does not show, as a person does in an editor."""
    write_settings(base, changed_settings(base, changes=SMALL))


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".git" not in path.parts
    }


def test_a_request_needs_the_token_the_host_and_the_origin_of_this_start(
    server: AppServer,
) -> None:
    form_type = {"Content-Type": "application/x-www-form-urlencoded"}
    origin = {"Origin": f"http://127.0.0.1:{server.server_port}"}
    page = f"/{server.token}/data"
    example = "action=example"
    assert page_of(server, "data").status == 200
    assert request(server, f"/{'0' * 48}/data").status == 403
    assert request(server, "/data").status == request(server, "/").status == 403
    assert request(server, page, Host="attacker.example").status == 403
    assert request(server, page, Host=f"localhost:{server.server_port}").status == 403
    for foreign in ({"Origin": "http://attacker.example"}, {"Origin": "null"}, {}):
        assert request(server, page, body=example, **form_type, **foreign).status == 403
    wrong = f"/{'0' * 48}/data"
    assert request(server, wrong, body=example, **form_type, **origin).status == 403
    json_type = {"Content-Type": "application/json"}
    assert request(server, page, body=example, **json_type, **origin).status == 400
    assert not server.app.base.exists()
    assert server.server_address[0] == "127.0.0.1"
    policy = page_of(server, "data").headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy


def test_no_file_outside_the_reports_is_sent(server: AppServer, folder: Path) -> None:
    base = make_project(server)
    public, internal = base / "reports" / "public", base / "reports" / "internal"
    for reports in (public, internal):
        reports.mkdir(parents=True)
        (reports / "index.html").write_text("the page")
    (internal / "errors.log").write_text("row 3")
    (public / "link.html").symlink_to(folder / "letters.csv")
    assert page_of(server, "files/public/index.html").text == "the page"
    assert (
        "sandbox" in page_of(server, "files/public/index.html").headers["Content-Security-Policy"]
    )
    assert page_of(server, "files/internal/index.html").status == 200
    for path in (
        "files/public/../../params.yaml",
        "files/public/..%2f..%2fparams.yaml",
        "files/public/%2e%2e/internal/errors.log",
        f"files/public/{folder}/letters.csv",
        f"files/public//{folder}/letters.csv",
        "files/public/link.html",
        "files/internal/errors.log",
        "files/public",
        "files/private/train.parquet",
        "files/",
        "../params.yaml",
        "templates/base.html.jinja",
    ):
        assert page_of(server, path).status == 404, path


def test_the_first_page_reads_column_names_and_no_value(server: AppServer) -> None:
    fields: dict[str, str | list[str]] = {"prepare.file": "letters.csv", "action": "columns"}
    answer = submit(server, "data", fields | {"prepare.text_column": "text"})
    assert answer.status == 200
    assert "<option>product</option>" in answer.text
    assert 'value="record" checked' in answer.text
    assert "Dear shop" not in answer.text
    assert not server.app.base.exists()


def test_a_first_record_without_a_header_is_not_shown(server: AppServer, folder: Path) -> None:
    (folder / "plain.csv").write_text("letter-1,Dear shop my lamp is late,lamp\nletter-2,x,chair\n")
    fields: dict[str, str | list[str]] = {
        "prepare.file": "plain.csv",
        "prepare.text_column": "text",
        "action": "columns",
    }
    answer = submit(server, "data", fields)
    assert answer.status == 422
    assert "has no column" in answer.message("prepare.text_column")
    assert "Dear shop" not in answer.text
    assert "letter-1" not in answer.text


@pytest.mark.parametrize(
    ("fields", "field", "message"),
    [
        ({"prepare.file": ""}, "prepare.file", "name your file"),
        ({"prepare.file": "absent.csv"}, "prepare.file", "not found"),
        ({"prepare.file": "letters.doc"}, "prepare.file", "letters.doc"),
        ({"prepare.text_column": "body"}, "prepare.text_column", "has no column &#39;body&#39;"),
        ({"unit": "user"}, "prepare.user_column", "choose the column"),
        ({"prepare.donated": "gone.csv"}, "prepare.donated", "was not found"),
    ],
)
def test_a_wrong_answer_makes_no_project(
    server: AppServer, fields: dict[str, str], field: str, message: str
) -> None:
    before = contents(Path())
    whole: dict[str, str | list[str]] = {
        "prepare.file": "letters.csv",
        "prepare.text_column": "text",
        "prepare.id_column": "",
        "prepare.user_column": "",
        "prepare.donated": "",
        "unit": "record",
        "action": "create",
    }
    answer = submit(server, "data", whole | fields)
    assert answer.status == 422
    assert message in answer.message(field)
    assert 'aria-invalid="true"' in answer.text
    assert contents(Path()) == before


TICKET = {
    "type": "object",
    "required": ["body"],
    "properties": {
        "body": {"type": "string"},
        "kind": {"type": "string", "enum": ["question", "complaint"]},
    },
}
# A file, the fields of the form, and the options of `init` that mean the same.
SHAPES: dict[str, tuple[list[dict[str, object]], dict[str, str | list[str]], list[str]]] = {
    "conversations": (
        [
            {"chat": [{"role": "buyer", "content": f"Hi {i}."},
                      {"role": "shop", "content": "Yes?"}], "product": "lamp"}
            for i in range(30)
        ],
        {"record": "text.conversation", "text.conversation.column": "chat",
         "text.conversation.roles": "buyer, shop"},
        ["--conversation=chat", "--roles=buyer,shop"],
    ),
    "turns of other speakers": (
        [
            {"chat": [{"by": {"is": "system"}, "body": "Be brief."},
                      {"by": {"is": "buyer"}, "body": f"Hi {i}."}], "product": "lamp"}
            for i in range(30)
        ],
        {"record": "text.conversation", "text.conversation.column": "chat",
         "text.conversation.roles": "buyer, shop", "text.conversation.format": "by.is, body",
         "text.conversation.other_turns": "drop"},
        ["--conversation=chat", "--roles=buyer,shop", "--turn-keys=by.is,body",
         "--other-turns=drop"],
    ),
    "messages of threads": (
        [
            {"ticket": f"t{i // 2}", "at": f"2026-01-05 10:{i}:00", "by": "buyer",
             "body": f"Hi {i}.", "product": "lamp"}
            for i in range(10, 40)
        ],
        {"record": "messages", "prepare.messages.thread": "ticket", "prepare.messages.time": "at",
         "prepare.messages.speaker": "by", "prepare.messages.text": "body",
         "prepare.messages.roles": "buyer, shop"},
        ["--thread=ticket", "--time=at", "--speaker=by", "--text=body", "--roles=buyer,shop"],
    ),
    "fields": (
        [{"subject": f"Lamp {i}", "body": "It is late.", "product": "lamp"} for i in range(30)],
        {"record": "text", "prepare.text_column": "subject, body"},
        ["--text=subject,body"],
    ),
    "a column of JSON": (
        [{"ticket": {"body": f"Lamp {i}", "kind": "question"}, "product": "lamp"}
         for i in range(30)],
        {"record": "text.json_schema", "text.json_schema": "ticket.schema.json",
         "text.column": "ticket"},
        ["--json-schema=ticket.schema.json", "--text=ticket"],
    ),
    "columns of JSON": (
        [{"body": f"Lamp {i}", "kind": "question", "product": "lamp"} for i in range(30)],
        {"record": "text.json_schema", "text.json_schema": "ticket.schema.json"},
        ["--json-schema=ticket.schema.json"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", SHAPES)
def test_a_record_of_each_form_has_fields_and_its_project_opens_without_an_error(
    server: AppServer, folder: Path, kind: str
) -> None:
    from typer.testing import CliRunner

    from sugarbush.cli.main import app

    rows, fields, options = SHAPES[kind]
    (folder / "ticket.schema.json").write_text(json.dumps(TICKET))
    (folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    whole = fields | {"prepare.file": "data.jsonl", "unit": "record"}
    names = submit(server, "data", whole | {"action": "columns"})
    assert names.status == 200 and 'value="product"' in names.text
    assert 'class="error"' not in names.text and "Hi 1" not in names.text
    for column in (column for row in rows[:1] for column in row if column != "product"):
        assert f'name="profile.columns" value="{column}"' not in names.text, "it is no attribute"
    create = whole | {"action": "create", "profile.columns": ["product"]}
    assert submit(server, "data", create).status == 303
    base = folder / "project"
    command = ["init", "by_command", "--from=data.jsonl", "--columns=product", *options]
    assert CliRunner().invoke(app, command).exit_code == 0
    assert contents(base) == contents(folder / "by_command")
    for step in STEPS:
        page = page_of(server, step.name)
        assert page.status == 200 and "text_column" not in re.sub(
            "<(input|label).*?>", "", page.text
        )
        if step.name != "estimate":  # without a model
            assert 'class="error"' not in page.text, step.name
    data = page_of(server, "data").text
    assert "A record is of this form" in data and 'name="prepare.text_column"' not in data
    before = contents(base)
    kept = {"prepare.file": "../data.jsonl", "unit": "record", "profile.columns": ["product"]}
    assert submit(server, "data", kept | {"action": "create"}).status == 303
    assert contents(base) == before, "saving changes nothing"


@pytest.mark.parametrize(
    ("fields", "field", "message"),
    [
        ({"record": "text.conversation", "text.conversation.column": "gone"},
         "text.conversation.column", "has no column &#39;gone&#39;"),
        ({"record": "text.conversation", "text.conversation.column": "text",
          "text.conversation.roles": "a,A"}, "text.conversation.column", "roles repeats a name"),
        ({"record": "text.json_schema", "text.json_schema": ""}, "text.json_schema",
         "name the file"),
        ({"record": "text.json_schema", "text.json_schema": "gone.json"},
         "text.json_schema", "not found"),
        ({"record": "text", "prepare.text_column": "text,gone"}, "prepare.text_column", "gone"),
    ],
)  # fmt: skip
def test_a_wrong_form_of_a_record_makes_no_project(
    server: AppServer, fields: dict[str, str | list[str]], field: str, message: str
) -> None:
    before = contents(Path())
    whole = {"prepare.file": "letters.csv", "unit": "record", "action": "create"} | fields
    answer = submit(server, "data", whole)
    assert answer.status == 422 and message in answer.message(field)
    assert contents(Path()) == before


def test_the_form_names_header_rows_and_lists_of_records(server: AppServer, folder: Path) -> None:
    survey = [["Q1", "Q2"], ["Why?", "How many?"], *([f"Late {i}", f"{i}"] for i in range(30))]
    (folder / "survey.csv").write_text("".join(f"{a},{b}\n" for a, b in survey))
    fields = {"prepare.file": "survey.csv", "prepare.text_column": "Q1", "unit": "record"}
    empty = fields | {"prepare.header_rows": "", "action": "columns"}
    answer = submit(server, "data", empty)
    assert answer.status == 422 and "to 2" in answer.message("prepare.header_rows")
    fields |= {"prepare.header_rows": "2"}
    names = submit(server, "data", fields | {"action": "columns"})
    assert 'name="profile.columns" value="Q2"' in names.text and "Why?" not in names.text
    (folder / "api.json").write_text(json.dumps({"tickets": [{"Q1": "Late", "Q2": 1}], "n": 1}))
    listed = fields | {"prepare.file": "api.json", "prepare.header_rows": "", "action": "create"}
    assert submit(server, "data", listed).status == 303
    assert "table: tickets" in (folder / "project" / "params.yaml").read_text()
    page = page_of(server, "data").text
    assert 'value="tickets"' in page and 'class="error"' not in page


def test_the_example_of_conversations_opens_without_an_error(
    server: AppServer, folder: Path
) -> None:
    from typer.testing import CliRunner

    from sugarbush.cli.main import app

    command = ["init", "project", "--example", "conversations"]
    assert CliRunner().invoke(app, command).exit_code == 0
    for step in STEPS:
        page = page_of(server, step.name)
        assert page.status == 200 and 'class="error"' not in page.text, step.name


def test_the_form_writes_what_init_writes(server: AppServer, folder: Path) -> None:
    from typer.testing import CliRunner

    from sugarbush.cli.main import app

    base = make_project(server)
    options = ["--from=letters.csv", "--id=id", "--donated=donated.csv", "--columns=product"]
    assert CliRunner().invoke(app, ["init", "by_command", *options]).exit_code == 0
    assert contents(base) == contents(folder / "by_command")


@pytest.mark.parametrize(
    ("step", "fields", "field", "message"),
    [
        ("privacy", {"privacy.epsilon": "much"}, "privacy.epsilon", "valid number"),
        ("privacy", {"privacy.epsilon": "-1"}, "privacy.epsilon", "greater than"),
        ("privacy", {"privacy.epsilon": "nan"}, "privacy.epsilon", "finite"),
        ("privacy", {"privacy.epsilon": ""}, "privacy.epsilon", "has no value"),
        ("privacy", {"privacy.dataset": "Two Words"}, "privacy.dataset", "pattern"),
        ("privacy", {"release.texts": "1.5"}, "release.texts", "integer"),
        ("profile", {"profile.epsilon": "1000"}, "profile.epsilon", "less than"),
        ("schema", {"schema": "attributes: ["}, "schema", "is not YAML"),
        ("schema", {"schema": "subject: letters"}, "schema", "attributes"),
        ("schema", {"schema": ""}, "schema", "expected"),
        ("generator", {"generator.provider": "pool"}, "generator.pool.sources.0.file", "at least"),
        (
            "generator",
            {"generator.provider": "openai", "generator.openai.base_url": "https://a:b@host/v1"},
            "generator.openai.base_url",
            "must have no user",
        ),
        (
            "publish",
            {"publication.languages": "English", "action": "save"},
            "publication.languages",
            "BCP 47",
        ),
        ("publish", {"publication.sector": "", "action": "publish"}, "", "Save an answer first"),
    ],
)
def test_a_wrong_answer_changes_no_file(
    server: AppServer, step: str, fields: dict[str, str], field: str, message: str
) -> None:
    base = make_project(server)
    whole: dict[str, str | list[str]] = {
        "privacy": {
            "privacy.dataset": "letters",
            "privacy.epsilon": "1",
            "privacy.delta": "1e-6",
            "release.texts": "12",
        },
        "generator": {
            "generator.pool.sources.0.file": "",
            "generator.openai.base_url": "http://localhost:8000/v1",
            "generator.openai.model": "m",
            "generator.openai.key_variable": "",
            "generator.openai.max_tokens": "100",
        },
    }.get(step, {})  # type: ignore[assignment]
    before = contents(base)
    answer = submit(server, step, whole | fields)
    assert answer.status == 422, answer.text
    assert message in (answer.message(field) if field else answer.text)
    assert "a:b@" not in answer.message(field) if field else True
    assert contents(base) == before
    assert server.app.jobs.last is None


def test_settings_keep_their_comments(server: AppServer) -> None:
    base = make_project(server)
    path = base / "params.yaml"
    comments = [line for line in path.read_text().splitlines() if line.startswith("#")]
    fields: dict[str, str | list[str]] = {
        "privacy.dataset": "letters",
        "privacy.epsilon": "2",
        "privacy.delta": "1e-7",
        "release.texts": "",
        "action": "stay",
    }
    assert submit(server, "privacy", fields).status == 303
    assert params(base)["privacy"]["epsilon"] == 2
    assert params(base)["release"]["texts"] is None
    assert [line for line in path.read_text().splitlines() if line.startswith("#")] == comments
    page = page_of(server, "privacy").text
    assert "89%" in page
    assert "epsilon 0 of a cap of 4 is spent" in page


def test_a_button_that_charges_asks_once_and_names_its_epsilon(server: AppServer) -> None:
    make_project(server)
    answer = submit(server, "run", {})
    assert answer.status == 200
    assert "Run: charges epsilon 1 at most</button>" in answer.text
    assert server.app.jobs.last is None
    old: dict[str, str | list[str]] = {"confirmed": "Run: charges epsilon 0.5 at most"}
    assert "Please confirm" in submit(server, "run", old).text  # of a page with other settings
    answer = submit(server, "profile", {"profile.epsilon": "0.1"})
    assert "Draw the profile: charges epsilon 0.1</button>" in answer.text
    assert server.app.jobs.last is None


def test_two_runs_at_once_are_refused_and_a_stop_ends_all_processes(server: AppServer) -> None:
    base = make_project(server)
    confirmed: dict[str, str | list[str]] = {"confirmed": "Run: charges epsilon 1 at most"}
    assert submit(server, "estimate", {}).status == 303  # `sugarbush check`, which takes seconds
    answer = submit(server, "run", confirmed)
    assert answer.status == 409
    assert "has not ended" in answer.text
    before = contents(base)
    privacy: dict[str, str | list[str]] = {"privacy.epsilon": "2"}
    for step, fields in (("estimate", {}), ("schema", {"schema": SCHEMA}), ("privacy", privacy)):
        assert submit(server, step, fields).status == 409, step  # type: ignore[arg-type]
    assert contents(base)["params.yaml"] == before["params.yaml"]
    assert json.loads(page_of(server, "job.json").text)["state"] == "running"
    assert submit(server, "stop", {}).status == 303
    assert "sugarbush check: stopped" in page_of(server, "estimate").text
    assert not psutil.Process().children(recursive=True)


def test_a_failed_command_shows_its_message(server: AppServer) -> None:
    base = make_project(server)
    (base / "data" / "public" / "schema.yaml").write_text("subject: texts\nattributes: []\n")
    assert submit(server, "estimate", {}).status == 303
    assert server.app.jobs.last is not None
    server.app.jobs.last.join()
    page = page_of(server, "estimate").text
    assert "stopped with an error" in page
    assert "schema.yaml: attributes" in page


def test_no_page_and_no_output_has_the_key_or_the_token(
    server: AppServer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SHOP_KEY", "sk-very-secret")
    base = make_project(server)
    fields: dict[str, str | list[str]] = {
        "generator.provider": "openai",
        "generator.openai.base_url": "http://127.0.0.1:9/v1",
        "generator.openai.model": "m",
        "generator.openai.key_variable": "SHOP_KEY",
        "generator.openai.max_tokens": "100",
    }
    assert submit(server, "generator", fields).status == 303
    assert "SHOP_KEY is set." in page_of(server, "generator").text
    for step in STEPS:
        page = page_of(server, step.name)
        assert page.status == 200
        assert "sk-very-secret" not in page.text
        assert server.token not in page.text
        assert "Dear shop" not in page.text
    printed = "".join(capfd.readouterr())
    for text in (*contents(base).values(), printed.encode()):
        assert server.token.encode() not in text
        assert b"sk-very-secret" not in text


def test_a_password_in_an_address_is_neither_shown_nor_stored(server: AppServer) -> None:
    base = make_project(server)
    address = "postgresql://ann:pass-7731@db.example/shop"
    data: dict[str, str | list[str]] = {"prepare.file": address, "action": "create"}
    upload: dict[str, str | list[str]] = {
        "to": "s3://key:pass-7731@bucket/folder",
        "folder": "published",
        "action": "publish",
    }
    answers = {f"publication.{name}": text for name, text in PUBLICATION.items()}
    assert submit(server, "publish", answers | {"action": "save"}).status == 303
    for step, fields in (("data", data), ("publish", upload)):
        answer = submit(server, step, fields)
        assert answer.status == 422, step
        assert "pass-7731" not in answer.text
        assert not any(b"pass-7731" in content for content in contents(base).values())


def test_the_unit_changes_in_both_directions(server: AppServer) -> None:
    base = make_project(server)
    fields: dict[str, str | list[str]] = {
        "prepare.file": "../letters.csv",
        "prepare.text_column": "text",
        "prepare.id_column": "id",
        "prepare.user_column": "product",
        "prepare.donated": "",
        "action": "create",
    }
    assert submit(server, "data", fields | {"unit": "user"}).status == 303
    assert params(base)["privacy"]["unit"] == "user"
    assert params(base)["prepare"]["user_column"] == "product"
    assert params(base)["prepare"]["donated"] is None
    page = page_of(server, "privacy").text
    assert "one person with all of their records" in page
    assert 'name="privacy.records_per_user"' in page
    assert submit(server, "data", fields | {"unit": "record"}).status == 303
    assert params(base)["privacy"]["unit"] == "record"
    assert params(base)["prepare"]["user_column"] is None


def test_a_profile_counts_the_ticked_columns_and_no_others(server: AppServer) -> None:
    """Without a tick, all columns of the header would be counted and published."""
    base = make_project(server)
    fields: dict[str, str | list[str]] = {
        "prepare.file": "../letters.csv",
        "prepare.text_column": "text",
        "unit": "record",
        "action": "create",
    }
    assert params(base)["profile"]["columns"] == ["product"]
    assert "Counted columns: product" in page_of(server, "profile").text
    assert submit(server, "data", fields).status == 303
    assert params(base)["profile"]["columns"] == []
    assert "Counted columns: none, so the texts alone" in page_of(server, "profile").text
    write_settings(base, changed_settings(base, changes={"profile": {"columns": None}}))
    assert "Counted columns: all columns in the header" in page_of(server, "profile").text
    assert 'value="product" checked' in page_of(server, "data").text


def test_without_a_name_of_the_dataset_no_run_can_start(server: AppServer) -> None:
    make_project(server)
    fields: dict[str, str | list[str]] = {
        "privacy.dataset": "",
        "privacy.epsilon": "1",
        "privacy.delta": "1e-6",
    }
    assert submit(server, "privacy", fields).status == 303
    page = page_of(server, "run").text
    assert "privacy.dataset is not set" in page
    assert "charges epsilon" not in page
    confirmed: dict[str, str | list[str]] = {"confirmed": "Run: charges epsilon 1 at most"}
    assert submit(server, "run", confirmed).status == 422
    assert server.app.jobs.last is None


def test_the_example_needs_one_button(server: AppServer) -> None:
    assert submit(server, "data", {"action": "example"}).status == 303
    for step in STEPS:
        assert page_of(server, step.name).status == 200, step.name
    assert "Run: charges epsilon 1 at most</button>" in submit(server, "run", {}).text


def test_broken_settings_are_a_page_with_the_message(server: AppServer) -> None:
    base = make_project(server)
    (base / "params.yaml").write_text("privacy: {epsilon: [}")
    for step in STEPS:
        answer = page_of(server, step.name)
        if step.name != "report":
            assert answer.status == 422, step.name
            assert "is not YAML" in answer.text


def test_every_field_has_a_label(server: AppServer) -> None:
    make_project(server)
    for step in STEPS:
        page = page_of(server, step.name).text
        ids = re.findall(r'<(?:input|select|textarea)[^>]* id="([^"]+)"', page)
        labelled = re.findall(r'<label for="([^"]+)"', page)
        assert sorted(ids) == sorted(labelled), step.name
        free = re.findall(r"<input(?![^>]* id=)[^>]*>", page)
        assert all("hidden" in each or "radio" in each or "checkbox" in each for each in free)


def test_a_run_ends_with_the_program(folder: Path) -> None:
    with AppServer(folder / "project", folder=folder) as server:
        made_by = threading.Thread(target=server.serve_forever, daemon=True)
        made_by.start()
        make_project(server)
        submit(server, "estimate", {})
        server.shutdown()
    assert not psutil.Process().children(recursive=True)


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_the_command_prints_its_address_and_ends_with_its_run(
    folder: Path, end: signal.Signals
) -> None:
    command = [sys.executable, WITH_SIGINT, sys.executable, "-m", "sugarbush", "app"]
    with subprocess.Popen([*command, "project"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().removeprefix("Open ").strip()
        server = Address(url)
        make_project(server)
        assert server.token not in " ".join(psutil.Process(process.pid).cmdline())
        assert submit(server, "estimate", {}).status == 303
        while not (children := psutil.Process(process.pid).children(recursive=True)):
            time.sleep(0.01)
        process.send_signal(end)
        process.wait(timeout=60)
    _, alive = psutil.wait_procs(children, timeout=30)
    assert not alive
    assert process.returncode == (0 if end is signal.SIGINT else -end)


@pytest.mark.slow
def test_a_profile_writes_the_schema_and_its_page(server: AppServer) -> None:
    base = make_project(server)
    make_small(base)
    write_settings(base, changed_settings(base, changes={"privacy": {"epsilon": 20, "cap": 50}}))
    schema = base / "data" / "public" / "schema.yaml"
    before = schema.read_text()
    button = "Draw the profile: charges epsilon 15"
    fields: dict[str, str | list[str]] = {"profile.epsilon": "15", "subject": "letters to a shop"}
    assert f"{button}</button>" in submit(server, "profile", fields).text
    assert submit(server, "profile", fields | {"confirmed": button}).status == 303
    job = server.app.jobs.last
    assert job is not None
    job.join()
    page = page_of(server, "profile").text
    assert "sugarbush profile: finished" in page, page
    charged = re.search(r"Charged since the start: epsilon ([\d.]+)\. Total", page)
    assert charged is not None
    assert 14 < float(charged[1]) <= 15
    assert schema.read_text() != before
    assert "subject: letters to a shop" in schema.read_text()
    assert page_of(server, "files/public/profile.html").status == 200


def test_rules_and_chosen_shares_are_checked_together_and_saved(server: AppServer) -> None:
    base = make_project(server)
    mood = "- {name: mood, column: mood, values: [good, bad]}\n"
    rule = "rules: [{if: {product: lamp}, then: {mood: good}}]\n"
    fields: dict[str, str | list[str]] = {"schema": rule + SCHEMA + mood}
    schema = base / "data" / "public" / "schema.yaml"
    before = schema.read_text()
    for mix, message in (
        ("{product: {lamp: 1}, mood: {bad: 0.5}}", "no rows can have all of these shares"),
        ("{product: {lamps: 1}}", "is no value"),
        ("{product: {lamp: 2}}", "above 1"),
        ("{product: {lamp: 1", "is not YAML"),
    ):
        assert message in submit(server, "schema", fields | {"release.mix": mix}).text
        assert schema.read_text() == before
    for mix in ("{product: {lamp: 0.5, chair: 0.5}}", "{mood: {bad: 0.3}}", ""):
        assert submit(server, "schema", fields | {"release.mix": mix}).status == 303
        assert server.app.project().settings.release.mix == (yaml.safe_load(mix) or {})
        assert not mix or yaml.safe_load(mix).popitem()[0] in page_of(server, "schema").text
    assert len(server.app.project().schema.category_rules) == 1


needs_chromium = pytest.mark.skipif(chromium() is None, reason="no Chromium")


class Hands:
    """Uses the page: by the mouse, or by the keyboard alone."""

    def __init__(self, page: Page, *, keyboard: bool) -> None:
        self.page, self.keyboard = page, keyboard

    def load(self, url: str) -> None:
        self.page.call("Page.navigate", url=url)
        self.wait(f"location.href.startsWith({url!r}) && document.readyState === 'complete'")

    def wait(self, expression: str) -> None:
        while True:
            try:
                if self.page.evaluate(expression):
                    return
            except AssertionError:
                pass  # the page is being replaced
            time.sleep(0.1)

    def reach(self, selector: str) -> None:
        """Move the focus to an element."""
        target = f"document.querySelector({selector!r})"
        assert self.page.evaluate(f"!!{target}"), selector
        if not self.keyboard:
            self._click(target)
            return
        for _ in range(200):
            if self.page.evaluate(f"document.activeElement === {target}"):
                visible = self.page.evaluate(
                    "getComputedStyle(document.activeElement).outlineStyle !== 'none'"
                )
                assert visible, f"the focus on {selector} is not visible"
                return
            self.page.press("Tab")
        raise AssertionError(f"no Tab reaches {selector}")

    def _click(self, target: str) -> None:
        self.page.evaluate(f"{target}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
        box = self.page.evaluate(
            f"(() => {{ const b = {target}.getBoundingClientRect();"
            " return [b.left + Math.min(b.width / 2, 16), b.top + b.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.page.call(
                "Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left",
                clickCount=1,
            )  # fmt: skip

    def write(self, name: str, text: str) -> None:
        selector = f'[name="{name}"]'
        self.reach(selector)
        self.page.evaluate("document.activeElement.select()")
        self.page.call("Input.insertText", text=text)

    def choose(self, name: str, option: str) -> None:
        """Choose an option of a list by its first letters."""
        self.reach(f'[name="{name}"]')
        if not self.keyboard:
            self.page.press("Escape")
        for letter in option:
            self.page.press(letter, text=letter)
        value = self.page.evaluate(f"document.querySelector('[name=\"{name}\"]').value")
        assert value == option

    def tick(self, name: str, value: str) -> None:
        selector = f'[name="{name}"][value="{value}"]'
        if self.keyboard and self.page.evaluate(
            f"document.querySelector({selector!r}).type === 'radio'"
        ):
            self.reach(f'[name="{name}"]:checked')
            for _ in range(10):
                if self.page.evaluate(f"document.querySelector({selector!r}).checked"):
                    return
                self.page.press("ArrowDown")
        self.reach(selector)
        if self.keyboard:
            self.page.press("Space", text=" ")
        assert self.page.evaluate(f"document.querySelector({selector!r}).checked")

    def push(self, selector: str, *, then: str) -> None:
        """Push a button, and wait for the page `then`."""
        self.page.evaluate("window.old = true")
        self.reach(selector)
        if self.keyboard:
            self.page.press("Enter", text="\r")
        self.wait(f"!window.old && document.readyState === 'complete' && ({then})")

    def at(self, step: str) -> str:
        return f"location.pathname.endsWith('/{step}')"


@needs_chromium
@pytest.mark.slow
@pytest.mark.parametrize(
    ("width", "keyboard", "provider"), [(1280, False, "pool"), (390, True, "simulator")]
)
def test_from_a_csv_file_to_a_published_folder(
    server: AppServer, tmp_path: Path, width: int, keyboard: bool, provider: str
) -> None:
    base = server.app.base
    with open_page(tmp_path / "profile") as page:
        page.view(width=width, mobile=width < 500)
        hands = Hands(page, keyboard=keyboard)
        pictures = iter(range(100))

        def look() -> None:
            page.screenshot(tmp_path / f"{next(pictures):02}.png")
            assert page.evaluate("document.documentElement.scrollWidth") <= width

        hands.load(server.url + "data")
        hands.write("prepare.file", "letters.csv")
        hands.write("prepare.text_column", "body")
        hands.push("[value=columns]", then="!!document.querySelector('.error')")
        look()
        hands.write("prepare.text_column", "text")
        hands.push("[value=columns]", then="!!document.querySelector('[value=create]')")
        hands.choose("prepare.id_column", "id")
        hands.tick("profile.columns", "product")
        hands.write("prepare.donated", "donated.csv")
        look()
        hands.push("[value=create]", then=hands.at("privacy"))
        make_small(base)
        hands.write("privacy.epsilon", "2")
        hands.write("release.texts", "12")
        hands.push("[value=stay]", then="document.body.textContent.includes('89%')")
        look()
        hands.push("[value=next]", then=hands.at("profile"))
        look()
        hands.push('a.button[href="schema"]', then=hands.at("schema"))
        hands.write("schema", SCHEMA)
        look()
        hands.push("[value=next]", then=hands.at("generator"))
        hands.tick("generator.provider", provider)
        if provider == "pool":
            hands.write("generator.pool.sources.0.file", "../public.csv")
            hands.write("generator.pool.sources.0.text_column", "text")
            hands.write("generator.pool.sources.0.licence", "CC0")
        else:
            hands.tick("generator.simulator.any_texts", "true")
        look()
        hands.push("[value=next]", then=hands.at("estimate"))
        hands.push("form .main", then="!!document.querySelector('#job')")
        hands.wait("document.querySelector('#job').dataset.state !== 'running'")
        look()
        assert page.evaluate("document.querySelector('#job').dataset.state") == "finished"
        hands.push('a.button[href="run"]', then=hands.at("run"))
        look()
        hands.tick("accept_poor", "yes")
        hands.push("form .main", then="document.body.textContent.includes('Please confirm')")
        look()
        assert page.evaluate("document.querySelector('form .main').textContent") == (
            "Run: charges epsilon 2 at most"
        )
        hands.push("form .main", then="!!document.querySelector('#job')")
        look()
        hands.load(server.url + "run")  # the page is loaded again
        assert page.evaluate("document.querySelector('#job').dataset.state") == "running"
        hands.wait("document.querySelector('#job').dataset.state !== 'running'")
        look()
        lines = page.evaluate("document.querySelector('#job-lines').textContent")
        assert (base / "reports" / "public" / "release_card.json").exists(), lines
        assert "Charged since the start: epsilon" in page.evaluate("document.body.textContent")
        hands.load(server.url + "report")
        look()
        assert "do not share" in page.evaluate("document.querySelector('.tag').textContent")
        hands.push('a[href="files/public/index.html"]', then="document.title.length > 0")
        look()
        assert server.token not in page.evaluate("document.body.textContent")
        hands.load(server.url + "publish")
        for name, text in PUBLICATION.items():
            if name in {"sector", "data_source"}:
                hands.choose(f"publication.{name}", text)
            elif name == "review_date":
                hands.reach(f'[name="publication.{name}"]')
                for letter in "06302035":
                    page.press(letter, text=letter)
            else:
                hands.write(f"publication.{name}", text)
        hands.push("[value=save]", then="document.body.textContent.includes('All answers')")
        look()
        hands.write("folder", "published")
        hands.push("[value=publish]", then="document.body.textContent.includes('Please confirm')")
        look()
        hands.push("form .main", then="!!document.querySelector('#job')")
        hands.wait("document.querySelector('#job').dataset.state !== 'running'")
        look()
        lines = page.evaluate("document.querySelector('#job-lines').textContent")
        assert page.evaluate("document.querySelector('#job').dataset.state") == "finished", lines
        # The browser reports the answer to the wrong column as an error.
        assert [each for each in page.problems if "status of 422" not in each] == []
        assert all(url.startswith((server.url, "data:", "about:")) for url in page.requests)
    (table,) = (base / "published" / "data").rglob("*.parquet")
    assert len(pd.read_parquet(table)) == 12
