"""Tests that ids, users and private columns reach no text, attribute, prompt or profile."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import sugarbush as sb
from sugarbush.data.private_columns import overlap, refuse_private_columns
from sugarbush.data.schema import Attribute, Schema
from sugarbush.data.settings import PrepareSettings
from sugarbush.errors import InputError
from tests.synthesized import synthesize_frame

MOOD = Attribute(name="mood", values=("calm", "angry"), keywords={"calm": ["fine"]})
PERSON = {
    "type": "object",
    "properties": {"customer": {"type": "string"}, "city": {"type": "string"}},
}
RECORD = {
    "type": "object",
    "required": ["body"],
    "$defs": {"person": PERSON},
    "properties": {
        "body": {"type": "string"},
        "key": {"type": "string"},
        "customer": {"type": "string"},
        "author": {"$ref": "#/$defs/person"},
        "notes": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"by": {"$ref": "#/$defs/person"}, "key": {"type": "integer"}},
            },
        },
        "tags": {"type": "array", "items": {"type": "string"}},
    },
}
IN_COLUMN = {"json_schema": RECORD, "column": "rec"}
COLUMNS = {"json_schema": RECORD}
CHAT = {"conversation": {"column": "chat.messages"}}
PATHS = {"fields": ["rec.body", "rec.customer"]}
FIELDS = {"fields": ["subject", "body"], "optional": ["subject"]}


def schema_with(text: Any, *attributes: Attribute) -> Schema:
    return Schema(subject="x", attributes=attributes or (MOOD,), text=text)


def check(text: Any, *attributes: Attribute, private: tuple[str, ...] = (), **columns: str) -> None:
    params = PrepareSettings(**columns)
    refuse_private_columns(schema_with(text, *attributes), params, private)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (IN_COLUMN, "rec"),
        (IN_COLUMN, "rec.customer"),
        (IN_COLUMN, "rec.author"),
        (IN_COLUMN, "rec.author.customer"),
        (IN_COLUMN, "rec.notes.by.customer"),
        (IN_COLUMN, "rec.notes[].by.customer"),
        (IN_COLUMN, "rec.notes[0].by"),
        (IN_COLUMN, "rec.notes.0.by.customer"),
        (IN_COLUMN, "$.rec.notes[*].key"),
        (IN_COLUMN, "rec.tags"),
        (IN_COLUMN, "rec.not_listed"),
        (IN_COLUMN, "customer"),
        (IN_COLUMN, "city"),
        (IN_COLUMN, "Customer"),
        (COLUMNS, "customer"),
        (COLUMNS, "author"),
        (COLUMNS, "author.customer"),
        (COLUMNS, "notes.by.customer"),
        (COLUMNS, "city"),
        (CHAT, "chat"),
        (CHAT, "chat.messages"),
        (CHAT, "chat.messages.name"),
        (FIELDS, "subject"),
        (FIELDS, "body"),
        (FIELDS, "body.author"),
        (PATHS, "customer"),
        (PATHS, "rec.customer"),
        (None, "text"),
        (None, "text.author"),
    ],
)
def test_a_private_value_inside_a_text_is_refused(text: Any, name: str) -> None:
    for arguments in ({"user_column": name}, {"private": (name,)}):
        with pytest.raises(InputError, match="the texts contain") as refusal:
            check(text, **arguments)  # type: ignore[arg-type]
        assert name in str(refusal.value) and "prompts" in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (IN_COLUMN, "rec.key"),
        (IN_COLUMN, "key"),
        (COLUMNS, "key"),
        (COLUMNS, "notes.key"),
        (FIELDS, "subject"),
        (None, "text"),
    ],
)
def test_an_id_inside_a_text_is_refused(text: Any, name: str) -> None:
    with pytest.raises(InputError, match=r"the texts contain .*prepare\.id_column"):
        check(text, id_column=name)


@pytest.mark.parametrize(
    ("column", "private"),
    [
        ("customer", "customer"),
        ("meta.customer", "meta.customer"),
        ("meta", "meta.customer"),
        ("meta.customer.name", "meta.customer"),
    ],
)
def test_an_attribute_of_a_private_value_is_refused(column: str, private: str) -> None:
    attribute = Attribute(name="own", column=column, values=("a", "b"))
    for arguments in ({"id_column": private}, {"user_column": private}, {"private": (private,)}):
        with pytest.raises(InputError, match="attribute 'own' comes from a private column"):
            check(None, attribute, **arguments)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="has its name"):
        check(None, MOOD, private=("mood",))


@pytest.mark.parametrize("text", [None, IN_COLUMN])
@pytest.mark.parametrize("column", ["meta.person", "order.by.person", "meta.Person"])
def test_an_attribute_of_a_property_with_the_name_of_a_private_column_is_refused(
    column: str, text: Any
) -> None:
    attribute = Attribute(name="own", column=column, values=("a", "b"))
    for arguments in ({"user_column": "person"}, {"private": ("person",)}):
        with pytest.raises(InputError, match="attribute 'own' comes from a private column"):
            check(text, attribute, **arguments)  # type: ignore[arg-type]
    check(text, attribute, id_column="person")
    check(text, attribute, user_column="persons")


def test_private_columns_beside_the_text_are_allowed() -> None:
    """Another key of the same object is no part of the text."""
    product = Attribute(name="product", column="meta.product", values=("lamp",))
    check(CHAT, product, user_column="chat.customer", id_column="chat.id")
    check(None, product, user_column="ticket.customer", text_column="ticket.body")
    check(IN_COLUMN, product, user_column="user", id_column="number", private=("meta.person",))
    check(COLUMNS, user_column="user", private=("body2", "customers"))
    check(None, product, user_column="user", id_column="user")
    short = {**RECORD, "properties": {n: RECORD["properties"][n] for n in ("body", "notes")}}  # type: ignore[index]
    check({"json_schema": short, "column": "rec"}, id_column="key")


def test_names_overlap_by_whole_parts_only() -> None:
    assert overlap("rec.customer", ["rec.customers", "record"]) is None
    assert overlap("rec", ["rec.a.b"]) == "rec.a.b"
    assert overlap("rec.a.b", ["rec.a"]) == "rec.a"


ROWS = [
    {
        "rec": {"body": f"Order {i} of my lamp is late", "customer": f"u{i}"},
        "customer": f"u{i}",
        "mood": "calm" if i % 2 else "angry",
    }
    for i in range(200)
]


@pytest.mark.parametrize("column", ["rec", None])
def test_the_api_refuses_users_in_records_before_it_spends(
    tmp_path: Path, column: str | None
) -> None:
    """The property of the user is optional, so its column may be missing."""
    flat = [{**row["rec"], "mood": row["mood"]} for row in ROWS]  # type: ignore[dict-item]
    frame = pd.DataFrame(flat if column is None else ROWS)
    text = {"json_schema": RECORD, "column": column}
    mood = {"name": "own_mood", "column": "mood", "values": ["calm", "angry"]}
    privacy = sb.Privacy(epsilon=1, dataset="letters", unit="user")
    schema = {"subject": "letters", "text": text, "attributes": [mood]}
    with pytest.raises(sb.InputError, match="customer"):
        synthesize_frame(
            frame, schema=schema, user="customer", privacy=privacy, state=tmp_path,
            generator=sb.Pool(texts=[json.dumps({"body": "a lamp"})]),
        )  # fmt: skip
    with pytest.raises(sb.InputError, match="customer"):
        sb.profile(frame, text=text, columns=["mood"], user="customer", privacy=privacy,
                   state=tmp_path)  # fmt: skip
    assert not list(tmp_path.rglob("*.jsonl")), "nothing was charged"


def test_a_profile_counts_no_private_column(tmp_path: Path) -> None:
    frame = pd.DataFrame(ROWS).drop(columns="rec").assign(text=[r["rec"]["body"] for r in ROWS])  # type: ignore[index]
    privacy = sb.Privacy(epsilon=1, dataset="letters")
    settings = {"publication": {"private_columns": ["customer"]}}
    frame["meta"] = [{"customer": each} for each in frame["customer"]]
    for column in ("customer", "meta.customer"):
        with pytest.raises(sb.ParamsError, match=f"'{column}' is the column of the texts, ids"):
            sb.profile(frame, text="text", columns=[column], privacy=privacy, settings=settings,
                       state=tmp_path)  # fmt: skip
    del frame["meta"]
    profile = sb.profile(
        frame, text="text", privacy=privacy, settings=settings, state=tmp_path, epsilon=0.9
    )
    assert "mood" in repr(profile.schema("letters")) and "customer" not in repr(profile)
