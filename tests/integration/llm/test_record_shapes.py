"""Each shape of a record goes through `init`, `check`, all stages and `publish`, with real files.

The published folder has the columns and types of the input, and every record has the shape.
"""

from __future__ import annotations

import csv
import json
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from typer.testing import CliRunner

from sugarbush.cli.main import app
from sugarbush.data.schema import Schema, load_schema
from sugarbush.deep_merge import deep_merge
from sugarbush.generators.interface import Problem, RandomRequest
from sugarbush.generators.shaped import requests_in_shape
from sugarbush.pipeline.artifacts import Artifacts
from sugarbush.privacy.data_types import Released
from sugarbush.release.folders import final_folder
from tests.integration.llm.conftest import Bench
from tests.integration.llm.server import MODEL, Body, Reply, chosen, completion, failure
from tests.publication import COMPLETE
from tests.synthesized import synthesize_frame
from tests.unit.pipeline.small_project import run_stages

pytestmark = [
    pytest.mark.usefixtures("quick_encoder"),
    pytest.mark.filterwarnings(  # warnings from inside DVC
        "ignore:_NoneStep:DeprecationWarning", "ignore:unclosed:ResourceWarning"
    ),
]
Start = Callable[..., Bench]
PRODUCTS = ("lamp", "chair", "kettle")
FAULTS = ("arrived late", "came in pieces", "does not start", "went missing", "has a scratch")
ENDS = (
    "Please help me soon",
    "What can I do now",
    "I need it for a party",
    "This is the third one",
)
SCHEMA_FILE = Path("project/data/public/schema.yaml")
PRODUCT = {"name": "product", "values": [*PRODUCTS], "column": "product"}
WISH = {"name": "wish", "values": ["refund"], "keywords": {"refund": ["money back"]}}
TICKET = {
    "type": "object",
    "required": ["product", "stars", "note"],
    "properties": {
        "product": {"enum": [*PRODUCTS]},
        "stars": {"type": "integer", "minimum": 1, "maximum": 5},
        "tags": {"type": "array", "items": {"type": "string"}},
        "note": {"type": "string", "minLength": 10},
    },
}


def said(number: int) -> tuple[str, str, str]:
    """Return a product, a complaint and a reply, which no other number has."""
    digest = zlib.crc32(f"case {number}".encode())
    product, fault = PRODUCTS[number % 3], FAULTS[digest % 5]
    complaint = f"My {product} of order {digest} {fault}. {ENDS[digest // 5 % 4]}."
    return (
        product,
        complaint,
        f"I see order {digest}, we send another {product} by parcel {number}.",
    )


def conversation(number: int) -> dict[str, Any]:
    product, complaint, reply = said(number)
    turns = [("customer", complaint), ("agent", reply), ("customer", f"Thanks {number}.\nBye")]
    messages = [{"role": role, "content": content} for role, content in turns]
    return {"id": f"c{number}", "messages": messages[: 2 + number % 2], "product": product}


def ticket(number: int) -> dict[str, Any]:
    product, complaint, reply = said(number)
    return {
        "subject": f"{product}, case {number}", "body": f'{complaint}\n"{reply}"',
        "product": product,
    }  # fmt: skip


def record(number: int) -> dict[str, Any]:
    product, complaint, _ = said(number)
    own = {"product": product, "stars": 1 + number % 5, "note": complaint}
    return {
        "id": number,
        "record": own | ({"tags": ["a", "ü"][: number % 3]} if number % 2 else {}),
    }


def as_lines(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def as_csv(rows: list[dict[str, Any]], path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=";")
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path / "state"))


def command(*arguments: str) -> str:
    done = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return " ".join(done.output.split())


def released(
    monkeypatch: pytest.MonkeyPatch, *attributes: Any, generator: Any
) -> tuple[Schema, list[dict[str, Any]], Any]:
    """Complete the project that `init` wrote, and take it to its publication.

    Returns its schema, the lines of the release, and the published dataset.
    """
    import datasets

    fields = yaml.safe_load(SCHEMA_FILE.read_text())
    fields |= {"subject": "cases of a shop", "attributes": [*attributes]}
    SCHEMA_FILE.write_text(yaml.safe_dump(fields))
    monkeypatch.chdir("project")
    params = yaml.safe_load(Path("params.yaml").read_text())
    changes: dict[str, Any] = {
        "prepare": {"min_records": 20}, "generator": generator, "release": {"texts": 12},
        "methods": {"mosaic": {"candidates": 40, "prompt": "metadata"}}, "publication": COMPLETE,
        "synthesize_metadata": {"degree": 1}, "evaluate": {"show": False},
        "privacy": {"epsilon": 8.0, "cap": 9.0}, "report": {"accept_poor": True},
    }  # fmt: skip
    deep_merge(params, changes)
    Path("params.yaml").write_text(yaml.safe_dump(params))
    command("check")
    run_stages(Path(), without=frozenset({"evaluate", "audit"}))
    assert command("show", "synthetic")
    command("publish", "published")
    artifacts = Artifacts(Path())
    path = final_folder(artifacts.roots, artifacts.params.chosen[0]) / "synthetic.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    data = datasets.load_dataset("published", cache_dir="cache", split="train")
    schema = load_schema(SCHEMA_FILE.relative_to("project"))
    assert schema.shape is not None
    if schema.shape.groups_rows:  # a published row is one record of a history
        return schema, lines, data
    assert len(data) == len(lines) > 5
    for line, row in zip(lines, data, strict=True):  # a release can be read as the input was
        assert "text" not in line
        assert schema.shape.text_of(line) == schema.shape.text_of(row)
    return schema, lines, data


def pool_of(name: str) -> dict[str, Any]:
    return {"provider": "pool", "pool": {"sources": [{"file": f"../{name}"}]}}


def test_conversations_in_parquet(monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.Table.from_pylist([conversation(i) for i in range(140)])
    pq.write_table(table, "chats.parquet")
    Path("public.jsonl").write_text(as_lines([conversation(i) for i in range(1000, 1200)]))
    Path("donated.jsonl").write_text(as_lines([conversation(i) for i in range(500, 530)]))
    command(
        "init", "project", "--from", "chats.parquet", "--roles", "customer,agent", "--id", "id",
        "--donated", "donated.jsonl",
    )  # fmt: skip
    written = SCHEMA_FILE.read_text()
    assert "column: messages" in written and "roles: [customer, agent]" in written
    SCHEMA_FILE.write_text(
        written.replace("# first: customer", "first: customer").replace(
            "alternate: false", "alternate: true"
        )
    )
    _, lines, data = released(monkeypatch, PRODUCT, generator=pool_of("public.jsonl"))
    assert data.features.arrow_schema.field("messages").type == table.schema.field("messages").type
    pool = [conversation(i)["messages"] for i in range(1000, 1200)]
    assert all(line["messages"] in pool for line in lines)
    assert [set(turn) for turn in data[0]["messages"]][:1] == [{"role", "content"}]


def test_fields_in_csv(monkeypatch: pytest.MonkeyPatch) -> None:
    as_csv([ticket(i) for i in range(140)], Path("tickets.csv"))
    as_csv([ticket(i) for i in range(1000, 1200)], Path("public.csv"))
    as_csv([ticket(i) for i in range(500, 530)], Path("donated.csv"))
    command(
        "init", "project", "--from", "tickets.csv", "--text", "subject,body",
        "--donated", "donated.csv",
    )  # fmt: skip
    assert "fields: [subject, body]" in SCHEMA_FILE.read_text()
    _, lines, data = released(monkeypatch, PRODUCT, generator=pool_of("public.csv"))
    pool = {(row["subject"], row["body"]) for row in map(ticket, range(1000, 1200))}
    assert {(line["subject"], line["body"]) for line in lines} <= pool
    assert data.column_names[:3] == ["id", "subject", "body"]
    assert {str(data.features[name].dtype) for name in ("subject", "body")} == {"string"}


def json_answer(number: int, body: Body) -> Reply:
    """Write a record. A fence and a wrong record test the repair and the check."""
    prompt = str(body["messages"][0]["content"])
    product = next((p for p in PRODUCTS if f"product: {p}" in prompt), "lamp")
    stars = next((n for n in (2, 3, 4) if f"stars: {n} " in prompt), 1)
    fault, end, place = chosen(body, FAULTS, ENDS, ("here", "at home", "in the shop"))
    order = zlib.crc32(json.dumps(body).encode())
    note = f"My {product} of order {order} {fault} {place}. {end}."
    own: dict[str, Any] = {"note": note, "product": product, "stars": stars}
    if order % 19 == 0:
        own["stars"] = 9
    return completion(f"```json\n{json.dumps(own, indent=1)}\n```")


def refuses_schema(number: int, body: Body) -> Reply:
    if "response_format" in body:
        return failure(400, "response_format is not supported")
    return json_answer(number, body)


@pytest.mark.parametrize("takes_schema", [True, False])
def test_json_records_from_an_endpoint(
    bench: Start, monkeypatch: pytest.MonkeyPatch, takes_schema: bool
) -> None:
    run = bench(behave=json_answer if takes_schema else refuses_schema)
    Path("records.jsonl").write_text(as_lines([record(i) for i in range(140)]))
    Path("donated.jsonl").write_text(as_lines([record(i) for i in range(500, 530)]))
    Path("ticket.schema.json").write_text(json.dumps(TICKET))
    command(
        "init", "project", "--from", "records.jsonl", "--text", "record", "--id", "id",
        "--json-schema", "ticket.schema.json", "--donated", "donated.jsonl",
    )  # fmt: skip
    attributes = yaml.safe_load(SCHEMA_FILE.read_text())["attributes"]
    assert [a.get("column") for a in attributes][:2] == ["record.product", "record.stars"]
    openai = {
        "base_url": run.server.base_url, "model": MODEL, "max_retries": 0,
        "key_variable": "OPENAI_API_KEY",
    }  # fmt: skip
    generator = {"provider": "openai", "openai": openai}
    schema, lines, data = released(monkeypatch, *attributes[:2], generator=generator)
    asked = [body for body in run.server.asked if "JSON Schema" in str(body["messages"])]
    sent = [body for body in asked if "to take up room" not in str(body["messages"])]  # no probes
    with_schema = [body for body in sent if "response_format" in body]
    if takes_schema:
        assert len(with_schema) == len(sent)
        assert with_schema[0]["response_format"]["json_schema"]["schema"] == TICKET
    else:  # tried once by each of the three stages that ask, and not again
        assert 0 < len(with_schema) <= 4 < len(sent) / 10
    assert schema.shape is not None
    for line in lines:
        own = line["record"]
        assert set(own) == {"product", "stars", "note"} and own["stars"] <= 5
        assert line["product"] == own["product"]  # read from the record
    assert pa.types.is_integer(data.features.arrow_schema.field("record").type.field("stars").type)


def tickets_of(customer: int) -> list[dict[str, Any]]:
    product, complaint, reply = said(customer)
    texts = [complaint, reply, f"Still waiting for order {customer}."]
    return [
        {
            "customer": f"c{customer}",
            "opened_on": f"2024-0{1 + 2 * number}-1{customer % 9}",
            "message": text,
            "product": product,
        }
        for number, text in enumerate(texts[: 1 + customer % 3])
    ]


def history_answer(number: int, body: Body) -> Reply:
    """Write as many records as the prompt requests. Their labels have numbers."""
    prompt = str(body["messages"][0]["content"])
    asked = re.search(r"Write (\d+) records?", prompt)
    product = next((p for p in PRODUCTS if f"product: {p}" in prompt), "lamp")
    fault, end, place = chosen(body, FAULTS, ENDS, ("here", "at home", "in the shop"))
    order = zlib.crc32(json.dumps(body).encode())
    first = f"My {product} of order {order} {fault} {place}. {end}."
    second = f"I see order {order}, we send another {product} by parcel {order % 97}."
    texts = [first, second, f"Still waiting for order {order}."]
    kept = texts[: int(asked[1]) if asked else 2]
    return completion("\n\n".join(f"**Record {n}:** {t}" for n, t in enumerate(kept, start=1)))


def test_histories_from_an_endpoint(bench: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    run = bench(behave=history_answer)
    for name, customers in (("tickets", range(140)), ("donated", range(500, 530))):
        rows = [row for customer in customers for row in tickets_of(customer)]
        as_csv(sorted(rows, key=lambda row: row["message"]), Path(f"{name}.csv"))
    command(
        "init", "project", "--from", "tickets.csv", "--text", "message", "--user", "customer",
        "--history-by", "opened_on", "--donated", "donated.csv",
    )  # fmt: skip
    attributes = yaml.safe_load(SCHEMA_FILE.read_text())["attributes"]
    assert [a.get("column") for a in attributes][:2] == ["records", "gap_days"]
    attributes[0] |= {"bins": [2, 3], "span": [1, 3]}
    openai = {
        "base_url": run.server.base_url, "model": MODEL, "max_retries": 0,
        "key_variable": "OPENAI_API_KEY",
    }  # fmt: skip
    opened = {"name": "opened", "column": "opened_on", "bins": ["2024-02-01"]}
    opened["span"] = ["2024-01-01", "2024-12-31"]
    generator = {"provider": "openai", "openai": openai}
    _, lines, data = released(monkeypatch, PRODUCT, *attributes[:2], opened, generator=generator)
    prompts = [str(body["messages"][0]["content"]) for body in run.server.asked]
    assert any('on a new line with the label "Record:"' in prompt for prompt in prompts)
    assert any("Write 3 records" in prompt for prompt in prompts)
    records = data.to_pandas()
    assert len(records) == sum(len(line["message"]) for line in lines) > len(lines) > 5
    assert any(line["opened"] is not None for line in lines)  # noise may draw `other` for some
    for line in lines:
        own = records[records["person"] == line["id"]]
        assert own["record"].tolist() == list(range(1, len(own) + 1))
        assert own["message"].tolist() == line["message"] and line["records"] == len(own)
        if len(own) > 1 and line["opened"] is not None:
            days = (own["opened_on"].iloc[-1] - own["opened_on"].iloc[0]).days
            assert days == line["gap_days"] * (len(own) - 1)
    assert Path("reports/public/records_mosaic.parquet").exists()


@pytest.mark.parametrize("learns", [True, False])
def test_an_answer_of_the_wrong_form_is_requested_again_and_then_counted(
    bench: Start, learns: bool
) -> None:
    schema = Schema.model_validate(
        {"subject": "chats", "attributes": [WISH], "text": {"conversation": {}}}
    )

    def answer(number: int, body: Body) -> Reply:
        if learns and len(run.server.asked) > 1:
            return completion("**User:** My lamp broke.\n\nAssistant : Sad.")
        return completion("Boss: My lamp broke on a Sunday.")

    run = bench(behave=answer)
    asked = requests_in_shape([RandomRequest(subject="chats")], schema.shape)
    (found,) = run.generator().generate(Released(asked)).value
    assert len(run.server.asked) == 2
    assert found.problem is (None if learns else Problem.WRONG_FORM)
    assert found.text == ("User: My lamp broke.\nAssistant: Sad." if learns else None)


def test_the_columns_of_a_frame_come_back(tmp_path: Path) -> None:
    import sugarbush as sb

    frame = pd.DataFrame([ticket(i) for i in range(140)])
    form = {"subject": "tickets", "attributes": [PRODUCT], "text": {"fields": ["subject", "body"]}}
    texts = [
        f"SUBJECT: {t['subject']}\n\nBody: {t['body']}" for t in map(ticket, range(1000, 1200))
    ]
    release = synthesize_frame(
        frame,
        schema=form,
        state=tmp_path / "state",
        method=sb.Mosaic(candidates=20, prompt="metadata"),
        generator=sb.Pool(texts=texts),
        privacy=sb.Privacy(epsilon=4, delta=1e-6, dataset="tickets"),
        texts=10,
        accept_poor=True,
    )
    pool = {(row["subject"], row["body"]) for row in map(ticket, range(1000, 1200))}
    assert set(zip(release.frame["subject"], release.frame["body"], strict=True)) <= pool
    assert "text" not in release.frame and release.texts[0].startswith("Subject: ")
