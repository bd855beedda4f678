"""Tests of the shapes of a record: what is read, what is refused, and what is repaired."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ruamel.yaml import YAML

from sugarbush.attributes.draft import text_yaml
from sugarbush.data.reading import Row
from sugarbush.data.records import usable, wanted_columns
from sugarbush.data.schema import Schema, load_schema
from sugarbush.data.settings import PrepareSettings
from sugarbush.data.shapes.declaration import TextForm
from sugarbush.data.shapes.interface import Shape, ShapeError, unfenced
from sugarbush.data.shapes.json_record import JsonRecord
from sugarbush.data.shapes.json_schema import check_json_schema
from sugarbush.errors import InputError, SchemaError

SECRET = "hunter2-sesame"
ATTRIBUTE = {"name": "mood", "values": ["calm"], "keywords": {"calm": ["calm"]}}
TICKET: dict[str, Any] = {
    "type": "object",
    "required": ["item", "note"],
    "properties": {
        "item": {"enum": ["lamp", "chair"]},
        "count": {"type": "integer", "minimum": 0},
        "price": {"type": "number"},
        "paid": {"type": "boolean"},
        "day": {"type": "string", "format": "date"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "from": {"$ref": "#/$defs/person"},
        "note": {"type": "string", "minLength": 1},
    },
    "$defs": {
        "person": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "age": {"type": ["integer", "null"]}},
        }
    },
}


def shape(**form: Any) -> Shape:
    return TextForm.model_validate(form).shape


def chat(**changes: Any) -> Shape:
    return shape(conversation={"roles": ["customer", "agent"], **changes})


def turns(*contents: str) -> list[dict[str, str]]:
    roles = ("customer", "agent")
    return [{"role": roles[i % 2], "content": text} for i, text in enumerate(contents)]


def refused(own: Shape, fields: dict[str, Any]) -> str:
    with pytest.raises(ShapeError) as error:
        own.text_of(fields)
    assert SECRET not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    "cell",
    [
        turns("Hi.", "Hello."),
        tuple(turns("Hi.", "Hello.")),
        np.array(turns("Hi.", "Hello."), dtype=object),
        json.dumps(turns(" Hi.", "Hello.\n")),
        [{**turn, "name": None} for turn in turns("Hi.", "Hello.")],
    ],
)
def test_a_conversation_of_any_format_of_a_file_is_one_text(cell: Any) -> None:
    own = chat()
    text = own.text_of({"messages": cell, "other": 1})
    assert text == "Customer: Hi.\nAgent: Hello."
    assert own.parse(text) == {"messages": turns("Hi.", "Hello.")}


def test_each_format_comes_back() -> None:
    sharegpt = chat(format="sharegpt", column="conversations")
    cell = [{"from": "customer", "value": "Hi."}, {"from": "agent", "value": "Hello."}]
    text = sharegpt.text_of({"conversations": cell})
    assert text == "Customer: Hi.\nAgent: Hello."
    assert sharegpt.parse(text) == {"conversations": cell}
    named = chat(format=["speaker", "text"], column="turns")
    cell = [{"speaker": "customer", "text": "Hi."}, {"speaker": "agent", "text": "Hello."}]
    assert named.text_of({"turns": cell}) == text
    assert named.parse(text) == {"turns": cell}
    assert [field.name for field in named.types["turns"].value_type] == ["speaker", "text"]
    prefixes = chat(format="prefixes", column="dialogue")
    assert prefixes.text_of({"dialogue": "customer: Hi.\n\nAGENT : Hello."}) == text
    assert prefixes.parse(text) == {"dialogue": "customer: Hi.\nagent: Hello."}


@pytest.mark.parametrize(
    ("cell", "says", "changes"),
    [
        (None, "has no conversation", {}),
        (SECRET, "is not JSON. If it is a text with labels, set format: prefixes", {}),
        ({"role": SECRET}, "is not a list of objects with role and content", {}),
        ([SECRET], "turn 1 is not an object with role and content", {}),
        (turns("Hi."), "not an object with speaker and text", {"format": ["speaker", "text"]}),
        ([{"role": "agent"}], "turn 1 is not an object", {}),
        ([{"role": SECRET, "content": "x"}], "role that is not in roles (customer, agent)", {}),
        ([{"role": "agent", "content": [SECRET]}], "turn 1: content is not a text", {}),
        (turns("Hi.", " \n"), "turn 2 is empty", {}),
        ([{**turns("Hi.")[0], SECRET: 1}], "turn 1 has more than role and content", {}),
        (turns(SECRET), "the first turn is not by agent", {"first": "agent"}),
        (turns("a", "b", "c"), "has more turns than max_turns=2", {"max_turns": 2}),
        (turns("a") * 2, "turns 1 and 2 have the same role", {"alternate": True}),
        (turns("a") * 10_000, "has more turns than max_turns=100", {}),
        ([], "has no turns", {}),
        (f"{SECRET}\nagent: x", "does not begin with", {"format": "prefixes"}),
        (turns("a"), "is not a text, as format: prefixes says", {"format": "prefixes"}),
    ],
)
def test_what_is_no_conversation_is_named_without_a_value(
    cell: Any, says: str, changes: dict[str, Any]
) -> None:
    message = refused(chat(**changes), {"messages": cell})
    assert message.startswith("column 'messages'") and says in message


@pytest.mark.parametrize(
    ("answer", "contents"),
    [
        ("Customer: Hi.\n\n\nAgent: Hello.\n", ["Hi.", "Hello."]),
        ("**Customer:** Hi.\n**Agent**: Hello.", ["Hi.", "Hello."]),
        ("- customer : Hi.\n- AGENT: Hello.", ["Hi.", "Hello."]),
        ("```\nCustomer: Hi.\nAgent: Hello.\n```", ["Hi.", "Hello."]),
        ("Customer:\nHi.\nAgent:\nHello.", ["Hi.", "Hello."]),
        ("Customer: one\ntwo\nAgent: see: this", ["one\ntwo", "see: this"]),
    ],
)
def test_small_faults_of_an_answer_are_repaired(answer: str, contents: list[str]) -> None:
    assert chat(alternate=True).parse(answer) == {"messages": turns(*contents)}


@pytest.mark.parametrize(
    "answer",
    ["Hello.", "Sure, here it is:\nCustomer: Hi.", "Customer: Hi.\nAgent:", "Boss: Hi.", "", "\n"],
)
def test_an_answer_without_the_shape_is_refused(answer: str) -> None:
    with pytest.raises(ShapeError):
        chat().parse(answer)


@pytest.mark.parametrize(
    "content",
    [
        "a\nAgent: b",
        "a\n> Agent: b",
        "> Agent: a",
        "a\n**agent**: b",
        "a\n  - Customer : b",
        "Agent: a",
    ],
)
def test_a_turn_may_contain_lines_with_labels(content: str) -> None:
    own = chat()
    text = own.text_of({"messages": turns(content, "ok")})
    assert own.parse(text) == {"messages": turns(content, "ok")}


def test_fields_come_back_in_order_and_only_an_optional_one_may_be_empty() -> None:
    own = shape(fields=["subject", "main_body"], optional=["subject"])
    row = {"subject": "Lamp", "main_body": "It broke.\nSubject: lamp\n\nYours"}
    assert own.parse(own.text_of(row)) == row
    assert own.text_of({"subject": None, "main_body": "x"}) == "Subject:\nMain body: x"
    assert own.parse("Subject:\nMain body: x") == {"subject": "", "main_body": "x"}
    assert "no text in column 'main_body'" in refused(own, {"subject": SECRET, "main_body": None})
    assert "'main_body' is not a text" in refused(own, {"subject": SECRET, "main_body": 7})
    for answer in (
        "Main body: x\nSubject: y",
        "Subject: a\nSubject: b\nMain body: c",
        "Subject: x",
    ):
        with pytest.raises(ShapeError, match="once, in this order"):
            own.parse(answer)


def test_a_json_record_comes_back_and_validates() -> None:
    record = {
        "note": "It broke.\n\"Why?\"", "item": "lamp", "count": 2.0, "price": 2.5, "paid": True,
        "day": "2026-01-31", "tags": ["a", "b"], "from": {"name": "Ö"},
    }  # fmt: skip
    inside, columns = shape(json_schema=TICKET, column="record"), shape(json_schema=TICKET)
    text = inside.text_of({"record": record})
    assert columns.text_of({**record, "id": 3}) == text
    assert inside.text_of({"record": json.dumps(record)}) == text
    back = inside.parse(f"```json\n{text}\n```")["record"]
    assert back == {**record, "count": 2} and list(back) == list(TICKET["properties"])
    with_null = {**record, "from": {"age": None, "name": "Ö"}}  # as parquet contains it
    assert inside.text_of({"record": with_null}) == text
    assert columns.parse(text) == back
    least = {"item": "chair", "note": "x"}
    assert columns.text_of(dict.fromkeys(TICKET["properties"]) | least) == json.dumps(least)
    assert columns.text_of({**least, "count": "3"}) == '{"item": "chair", "count": 3, "note": "x"}'
    flat = {**least, "from.name": "Ö", "from.age": 4}  # a reader that reads all columns
    assert json.loads(columns.text_of(flat))["from"] == {"name": "Ö", "age": 4}
    assert inside.value_in(text, "record.from.name") == "Ö"
    assert inside.is_inside("record.from.age") and not inside.is_inside("item")
    assert columns.is_inside("item") and not columns.is_inside("other")


@pytest.mark.parametrize(
    ("cell", "says"),
    [
        (None, "has no record in column 'record'"),
        (f'{{"note": "{SECRET}"', "column 'record' is not JSON"),
        (f'["{SECRET}"]', "has another type"),
        ({"item": "lamp"}, "lacks a required property"),
        ({"item": SECRET, "note": "x"}, "property 'item' is none of the listed values"),
        ({"item": "lamp", "note": "x", SECRET: 1}, "has a property that the JSON Schema does not"),
        ({"item": "lamp", "note": "x", "count": SECRET}, "'count' has another type"),
        ({"item": "lamp", "note": "x", "count": -1}, "'count' is too small"),
        ({"item": "lamp", "note": "x", "count": 2**64}, "too large to be exact"),
        ({"item": "lamp", "note": "x", "day": SECRET}, "'day' does not have the format"),
        ({"item": "lamp", "note": "x", "price": float("nan")}, "'price' is not a finite number"),
        ('{"item": "lamp", "note": "x", "price": NaN}', "is not JSON"),
        ('{"item": "lamp", "item": "chair", "note": "x"}', "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ({"item": "lamp", "note": "\0"}, "NUL byte"),
        ({"item": "lamp", "note": "x", "from": {SECRET: 1}}, "property 'from' has a property that"),
    ],
)
def test_what_is_no_record_of_the_json_schema_is_named_without_a_value(
    cell: Any, says: str
) -> None:
    assert says in refused(shape(json_schema=TICKET, column="record"), {"record": cell})


def with_property(**node: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"x": node}}


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        (with_property(**{"$ref": "https://example.org/x.json"}), "/properties/x: $ref must point"),
        (with_property(**{"$ref": "other.json#/x"}), "must point into the same file"),
        (with_property(**{"$dynamicRef": "#x"}), "$dynamicRef must point"),
        (with_property(**{"$ref": "#"}), "/properties/x: is recursive"),
        (with_property(type="string") | {"allOf": [{"$ref": "#"}]}, "/allOf/0: is recursive"),
        (with_property(type="string") | {"not": {"$ref": "#/x"}}, "/not: has a $ref without"),
        (with_property(**{"$ref": "#/$defs/none"}), "$ref without a target"),
        (with_property(type=["string", "integer"]), "/properties/x: needs one `type`"),
        (with_property(), "/properties/x: needs one `type`"),
        (with_property(type="object"), "is an object without properties"),
        (with_property(type="array"), "is an array without one schema"),
        (with_property(type="text"), "is not a valid JSON Schema at /properties/x/type"),
        ({"type": "array"}, "needs `type: object`"),
    ],
)
def test_a_json_schema_that_no_release_can_follow_is_refused(
    tmp_path: Path, schema: dict[str, Any], says: str
) -> None:
    """No test has a network, so an URL that is loaded would be another error."""
    (tmp_path / "x.schema.json").write_text(json.dumps(schema))
    fields = {"subject": "x", "attributes": [ATTRIBUTE], "text": {"json_schema": "x.schema.json"}}
    (tmp_path / "schema.yaml").write_text(json.dumps(fields))
    with pytest.raises(SchemaError) as error:
        load_schema(tmp_path / "schema.yaml")
    assert says in str(error.value) and "text.json_schema" in str(error.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ({}, "needs exactly one of fields, conversation, json_schema"),
        ({"fields": ["a"], "conversation": {}}, "needs exactly one of"),
        ({"fields": ["a", "A"]}, "fields repeats a name"),
        ({"fields": ["a"], "optional": ["b"]}, "optional names a column that is not in fields"),
        ({"fields": ["a"], "column": "b"}, "column belongs to json_schema"),
        ({"fields": ["a:b"]}, "should match pattern"),
        ({"fields": ["mood", "body"]}, "attribute 'mood' has the name of a column of the text"),
        ({"fields": ["id", "body"]}, "a release has other columns with these names"),
        ({"fields": ["requested_x", "body"]}, "a release has other columns with these names"),
        ({"conversation": {"format": "prefixes"}}, "roles is empty"),
        ({"conversation": {"roles": ["a_b", "A b"]}}, "roles repeats a name"),
        ({"conversation": {"first": "agent"}}, "first is none of roles"),
        ({"json_schema": "none.json"}, "none.json: not found"),
        ({"conversaton": {}}, "is not a known setting"),
    ],
)
def test_a_wrong_declaration_is_named(tmp_path: Path, text: Any, says: str) -> None:
    fields = {"subject": "x", "attributes": [ATTRIBUTE], "text": text}
    (tmp_path / "schema.yaml").write_text(json.dumps(fields))
    with pytest.raises(SchemaError, match="text") as error:
        load_schema(tmp_path / "schema.yaml")
    assert says in str(error.value)


def schema_with(text: Any, *attributes: Any) -> Schema:
    return Schema(subject="x", attributes=attributes or (ATTRIBUTE,), text=text)


def test_rows_are_checked_one_by_one_and_bad_ones_are_named_by_row() -> None:
    schema, params = schema_with({"conversation": {}}), PrepareSettings()
    assert dict(wanted_columns(params, schema, private=True)) == {
        "messages": "text.conversation.column of the schema"
    }
    good = [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": SECRET}]
    rows = [Row(1, {"messages": good}), Row(2, {"messages": SECRET}), Row(3, {"messages": good})]
    with pytest.raises(InputError, match=r"chats.jsonl, row 2: column 'messages': is not") as error:
        usable(rows, params, schema, source="chats.jsonl", setting="prepare.file")
    assert SECRET not in str(error.value)
    dropping = params.model_copy(update={"bad_rows": "drop"})
    records, bad = usable(rows, dropping, schema, source="chats.jsonl", setting="prepare.file")
    assert [r.number for r in records] == [1, 3] and sum(bad.values()) == 1
    assert records[0].text == f"User: Hi.\nAssistant: {SECRET}"


@pytest.mark.parametrize("column", ["record", None])
def test_attributes_inside_a_json_record_are_read_from_text_too(column: str | None) -> None:
    """In csv, a record is a text, so no reader sees its properties."""
    path = "item" if column is None else f"{column}.item"
    item = {"name": "item", "column": path, "values": ["lamp", "chair"]}
    schema = schema_with({"json_schema": TICKET, "column": column}, item)
    record = {"item": "chair", "note": "x"}
    fields = record if column is None else {column: json.dumps(record)}
    params = PrepareSettings()
    assert path not in wanted_columns(params, schema, private=True) or column is None
    (own,), _ = usable([Row(1, fields)], params, schema, source="x.csv", setting="prepare.file")
    assert own.raw == ("chair",) and json.loads(own.text) == record


def test_the_keys_of_caches_for_records_of_one_string_have_no_new_field() -> None:
    assert "text" not in schema_with(None).model_dump(mode="json")
    assert schema_with({"fields": ["a"]}).model_dump(mode="json")["text"]["fields"] == ["a"]


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("```\na\n```", "a"),
        ("```json\na\nb```", "a\nb"),
        ("``` a b\nc```", "``` a b\nc```"),
        (" a ", "a"),
    ],
)
def test_only_a_fence_around_the_whole_text_is_removed(said: str, text: str) -> None:
    assert unfenced(said) == text


def test_a_role_with_a_dotted_capital_i_is_the_role() -> None:
    """Patterns without case accept this letter, and lower case does not make an i of it."""
    own = shape(conversation={"roles": ["client", "agent"], "format": "prefixes"})
    dotted = "CL\u0130ENT: hi\nAgent: hello"
    assert own.parse(dotted) == own.parse("client: hi\nagent: hello")


@pytest.mark.parametrize("pattern", ["^(a+)+$", "(a|b+)*", r"(\w+\s?)*$"])
def test_a_pattern_that_may_take_hours_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="repeats a repetition"):
        check_json_schema(
            {"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}}
        )


@pytest.mark.parametrize(("kind", "value"), [("number", 2**53 + 1), ("integer", 2.0**54)])
def test_a_number_that_a_frame_may_round_is_no_record(kind: str, value: float) -> None:
    own = JsonRecord({"type": "object", "properties": {"n": {"type": kind}}}, column="record")
    with pytest.raises(ShapeError, match="too large to be exact"):
        own.text_of({"record": {"n": value}})


def test_json_that_is_nested_too_deeply_is_no_record() -> None:
    items = {"type": "array", "items": {"type": "string"}}
    own = JsonRecord({"type": "object", "properties": {"a": items}}, column="record")
    with pytest.raises(ShapeError):
        own.text_of({"record": '{"a": ' + "[" * 700 + "]" * 700 + "}"})


@pytest.mark.parametrize("format_", ["sharegpt", ["speaker", "text"], ["from", "no"]])
def test_the_format_of_a_conversation_is_the_same_in_a_drafted_schema(format_: Any) -> None:
    form = TextForm.model_validate({"conversation": {"format": format_, "roles": ["a", "b"]}})
    drafted = YAML(typ="safe").load(text_yaml(form))["text"]
    assert TextForm.model_validate(drafted) == form


@pytest.mark.parametrize("format_", ["openAI", ["a"], ["a", "a"], ["a", ""], ["a", "b", "c"], 3])
def test_another_format_is_refused_in_one_sentence(format_: Any) -> None:
    with pytest.raises(ValueError, match="or the two keys of a turn") as error:
        chat(format=format_)
    assert str(error.value).count("expected") == 1
