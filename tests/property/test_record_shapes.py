"""Properties of the shapes of a record: nothing is lost, and no record changes another."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sugarbush.data.reading import Row
from sugarbush.data.records import usable
from sugarbush.data.schema import Schema
from sugarbush.data.settings import BadRows, PrepareSettings
from sugarbush.data.shapes.declaration import TextForm
from sugarbush.data.shapes.interface import Shape

ROLES = ("customer", "agent", "chief_clerk")
LABELS = [
    "Agent:",
    "> customer :",
    "**Chief clerk:**",
    "subject:",
    "- BODY:",
    "\n",
    "> ",
    "```",
    "{",
]
ATTRIBUTE = {"name": "mood", "values": ["calm"], "keywords": {"calm": ["calm"]}}
RECORD: dict[str, Any] = {
    "type": "object",
    "required": ["note"],
    "properties": {
        "note": {"type": "string"},
        "count": {"type": "integer"},
        "price": {"type": "number"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "who": {
            "type": "object",
            "required": ["name"],
            "properties": {"name": {"type": ["string", "null"]}},
        },
    },
}
# Texts with labels, marks and fences in every place
contents = (
    st.lists(st.one_of(st.sampled_from(LABELS), st.text(max_size=8)), min_size=1, max_size=6)
    .map(" ".join)
    .map(str.strip)
    .filter(bool)
)
FORMS: dict[str, dict[str, Any]] = {
    "fields": {"fields": ["subject", "body"]},
    "openai": {"conversation": {"roles": ROLES}},
    "sharegpt": {"conversation": {"roles": ROLES, "format": "sharegpt", "column": "chat"}},
    "prefixes": {"conversation": {"roles": ROLES, "format": "prefixes", "column": "chat"}},
    "json": {"json_schema": RECORD, "column": "record"},
    "columns": {"json_schema": RECORD},
}
SHAPES: dict[str, Shape] = {name: TextForm.model_validate(f).shape for name, f in FORMS.items()}
turns = st.lists(st.tuples(st.sampled_from(ROLES), contents), min_size=1, max_size=5)
whole = st.integers(-(2**53) + 1, 2**53 - 1)
no_nul = st.text(max_size=12).map(lambda text: text.replace("\0", ""))
records = st.fixed_dictionaries(
    {"note": no_nul},
    optional={
        "count": whole,
        "price": st.floats(allow_nan=False, allow_infinity=False, width=32),
        "tags": st.lists(no_nul, max_size=3),
        "who": st.fixed_dictionaries({"name": st.none() | no_nul}),
    },
)


def keyed(role: str, content: str) -> Any:
    return lambda said: [{role: r, content: text} for r, text in said]


rows = st.one_of(
    st.tuples(st.just("fields"), st.fixed_dictionaries({"subject": contents, "body": contents})),
    st.tuples(
        st.just("openai"), turns.map(keyed("role", "content")).map(lambda c: {"messages": c})
    ),
    st.tuples(st.just("sharegpt"), turns.map(keyed("from", "value")).map(lambda c: {"chat": c})),
    st.tuples(st.just("json"), records.map(lambda r: {"record": r})),
    st.tuples(st.just("columns"), records),
)


@given(rows)
def test_a_row_that_becomes_a_text_comes_back_as_it_was(row: tuple[str, dict[str, Any]]) -> None:
    name, fields = row
    own = SHAPES[name]
    text = own.text_of(fields)
    back = own.parse(text)
    assert {n: value for n, value in back.items() if value is not None or n in fields} == fields
    assert own.text_of(back) == text == own.canonical(text)
    if (spans := own.spans(text)) is not None:
        labels = "".join(text[a:b] for (_, a), (b, _) in pairwise([(0, 0), *spans]))
        sections = len(fields) if name == "fields" else len(next(iter(fields.values())))
        assert len(spans) == sections and labels.count(":") == sections


@given(turns)
def test_a_text_with_labels_comes_back_as_it_is_released(said: list[tuple[str, str]]) -> None:
    """A text with prefixes cannot say whether a line is a turn. Its turns are the ones that a
    release contains, so a release is read as it was written."""
    own, other = SHAPES["prefixes"], SHAPES["openai"]
    text = other.text_of({"messages": keyed("role", "content")(said)})
    released = own.parse(text)
    assert own.text_of(released) == text
    assert own.parse(own.text_of(released)) == released


@given(st.sampled_from([*SHAPES]), st.text(max_size=60) | contents)
def test_an_answer_is_refused_or_becomes_a_text_that_stays_as_it_is(name: str, answer: str) -> None:
    own = SHAPES[name]
    try:
        text = own.canonical(answer)
    except ValueError as error:
        if len(answer.strip()) > 12:
            assert answer.strip() not in str(error)
        return
    assert own.canonical(text) == text
    assert own.text_of(own.parse(text)) == text


@given(st.lists(rows | st.tuples(st.just("openai"), st.just({"messages": 7})), max_size=5), rows)
def test_a_record_does_not_depend_on_other_records(
    others: list[tuple[str, dict[str, Any]]], own: tuple[str, dict[str, Any]]
) -> None:
    """Rows of another shape are bad rows, and a bad row changes no other row, either."""
    name, fields = own
    schema = Schema(subject="x", attributes=(ATTRIBUTE,), text=FORMS[name])
    params = PrepareSettings(bad_rows=BadRows.DROP)

    def text_of(before: list[Any], after: list[Any]) -> list[str]:
        cells = [*(f for _, f in before), fields, *(f for _, f in after)]
        numbered = [Row(number, cell) for number, cell in enumerate(cells)]
        found, _ = usable(numbered, params, schema, source="x", setting="prepare.file")
        return [record.text for record in found if record.number == len(before)]

    alone = text_of([], [])
    assert text_of(others, []) == text_of([], others) == alone


@given(records, st.randoms(use_true_random=False))
def test_the_order_of_the_keys_of_a_record_is_lost(record: dict[str, Any], random: Any) -> None:
    names = list(record)
    random.shuffle(names)
    own = SHAPES["json"]
    shuffled = json.dumps({name: record[name] for name in names})
    assert own.text_of({"record": shuffled}) == own.text_of({"record": record})
