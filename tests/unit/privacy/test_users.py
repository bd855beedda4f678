"""Tests that all spellings of a user are one user, so that noise covers all their records."""

from __future__ import annotations

import json
import unicodedata
from collections import defaultdict
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sugarbush as sb
from sugarbush.data.reading import Row
from sugarbush.data.records import usable
from sugarbush.data.schema import Schema
from sugarbush.data.settings import PrepareSettings
from sugarbush.data.split import ContributionBounder, private_frame
from sugarbush.errors import InputError
from sugarbush.privacy.fingerprint import is_same_dataset, make_dataset_fingerprint, stored_values
from sugarbush.privacy.users import is_user_name, normalised_user

KEY = bytes(range(32))
INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff\u00ad\u202e\u034f\u3164\u115f\ufe0f\u180e\U000e0041\x07"
SCHEMA = Schema.model_validate(
    {"subject": "s", "attributes": [{"name": "a", "values": ["x"], "keywords": {"x": ["x"]}}]}
)
names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12).filter(
    normalised_user
)


def full_width(text: str) -> str:
    return "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in text)


FORMS = [
    str, str.upper, str.lower, str.casefold, str.title, full_width,
    lambda text: f"  {text}\t\u3000", lambda text: text.replace(" ", "\u00a0  "),
    *[lambda text, form=form: unicodedata.normalize(form, text)
      for form in ("NFC", "NFD", "NFKC", "NFKD")],
]  # fmt: skip


@pytest.mark.parametrize("letter", ["\u1fb7", "\u1fc7", "\u1ff7", "\u1f80"])
def test_greek_letters_with_iota_subscript_are_one_user_in_every_case(letter: str) -> None:
    assert len({normalised_user(form(f"{letter}na")) for form in FORMS}) == 1


@st.composite
def decorated(draw: st.DrawFn, name: str) -> str:
    """Return another spelling of `name`: other forms, and invisible characters anywhere."""
    for form in draw(st.lists(st.sampled_from(FORMS), max_size=3)):
        name = form(name)
    for character in draw(st.lists(st.sampled_from(INVISIBLE), max_size=4)):
        place = draw(st.integers(0, len(name)))
        name = name[:place] + character + name[place:]
    return name


def records_of(users: list[Any], **changes: Any) -> tuple[Any, ...]:
    rows = [
        Row(i, {"text": f"letter {i}", "id": f"{i}", "user": user}) for i, user in enumerate(users)
    ]
    params = PrepareSettings(id_column="id", user_column="user", **changes)
    return usable(rows, params, SCHEMA, source="letters.jsonl", setting="prepare.file")[0]


@pytest.mark.slow
@settings(max_examples=300)
@given(st.data(), names)
def test_any_spelling_of_a_user_is_the_same_user(data: st.DataObject, name: str) -> None:
    other = data.draw(decorated(name))
    assert normalised_user(other) == normalised_user(name)
    assert normalised_user(normalised_user(name)) == normalised_user(name)


@settings(max_examples=40)
@given(st.data(), st.lists(names, min_size=1, max_size=4), st.integers(1, 3))
def test_no_spelling_gives_a_user_more_records(
    data: st.DataObject, people: list[str], most: int
) -> None:
    """Bounding, the keyed hash and the units of training use the same user."""
    owners = data.draw(st.lists(st.sampled_from(people), min_size=1, max_size=25))
    records = records_of([data.draw(decorated(owner)) for owner in owners])
    bound = ContributionBounder(records=most, key=KEY)
    bound.add(records)
    used = bound.chosen()[0].used(records, source="f")
    frame = private_frame(used, SCHEMA, key=KEY, by_user=True)
    by_person: dict[str, set[str]] = defaultdict(set)
    counts: dict[str, int] = defaultdict(int)
    for record, hashed in zip(used, frame["user"], strict=True):
        person = normalised_user(owners[record.number])
        by_person[person].add(hashed)
        counts[person] += 1
    assert all(len(hashes) == 1 for hashes in by_person.values())
    assert all(count <= most for count in counts.values())


def test_other_names_are_other_users() -> None:
    found = {normalised_user(name) for name in ("Ana", "Anna", "Ana 2", "An", "7", "70", "7.5")}
    assert len(found) == 7


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (7, 7.0), (7, "7"), ("7.0", 7), (Decimal("7.00"), 7), (Decimal("7E+2"), 700),
        (np.int64(7), 7), (-3, "-3.0"),
        (UUID(int=5), str(UUID(int=5)).upper()), ("ﬁnn", "FINN"), ("Straße", "STRASSE"),
        ("ı", "I"), ("A\u200bna", "ana"), ("Ａｎａ", "Ana"), ("e\u200b\u0301va", "Éva"),
    ],
)  # fmt: skip
def test_equal_values_of_other_types_and_forms_are_one_user(one: Any, other: Any) -> None:
    first, second = records_of([one, other])
    assert first.user == second.user


@pytest.mark.parametrize(
    "value",
    [
        {"id": 731, "name": "x"}, [731], (731,), True, False, 7.31, b"731",
        date(2026, 7, 31), datetime(2026, 7, 31, 7, 31), np.bool_(True), np.array([731]),
        Decimal("7.31"), Decimal("Infinity"),
    ],
    ids=repr,
)  # fmt: skip
def test_a_value_that_is_no_name_is_refused_without_its_content(value: Any) -> None:
    assert not is_user_name(value)
    with pytest.raises(InputError) as raised:
        records_of(["ana", value])
    message = str(raised.value)
    assert "letters.jsonl, row 1: column 'user' (prepare.user_column) is not a text" in message
    assert "731" not in message.replace("7.31", "731")
    assert [r.user for r in records_of(["ana", value, "ben"], bad_rows="drop")] == ["ana", "ben"]


@pytest.mark.parametrize("value", [None, "", " ", float("nan"), pd.NA, pd.NaT, INVISIBLE, "\u3000"])
def test_a_value_without_a_visible_character_is_no_user(value: Any) -> None:
    with pytest.raises(InputError, match=r"row 1: column 'user' \(prepare.user_column\) has no"):
        records_of(["ana", value])


def test_the_fingerprint_knows_a_user_in_any_spelling() -> None:
    users = [f"Customer {i}" for i in range(300)]
    texts = [[f"{word} {i}" for i in range(300)] for word in ("one", "another")]
    first = make_dataset_fingerprint(texts[0], key=KEY, users=users)
    second = make_dataset_fingerprint(
        texts[1], key=KEY, users=[full_width(u)[:3] + "\u200b" + u[3:].upper() for u in users]
    )
    assert is_same_dataset(second, stored_values(first))


def test_objects_in_another_key_order_are_not_other_users(tmp_path: Path) -> None:
    """300 persons became 600 users: each of them got one record too many."""
    users = [json.loads(order) for i in range(300) for order in (
        f'{{"id": {i}, "site": "a"}}', f'{{"site": "a", "id": {i}}}')]  # fmt: skip
    frame = pd.DataFrame({"text": [f"letter number {i}" for i in range(600)], "who": users})
    with pytest.raises(InputError, match="cannot name a user"):
        sb.prepare(
            frame,
            schema=SCHEMA,
            user="who",
            privacy=sb.Privacy(dataset="letters", unit="user"),
            state=tmp_path,
        )


@pytest.mark.parametrize(
    "spellings",
    [("i", "\u0130", "I", "\u0131"), ("17", "\u0661\u0667", "\uff11\uff17"), ("0", "-0.0", "0.0")],
)
def test_dotted_letters_digits_and_zeros_name_one_user(spellings: tuple[str, ...]) -> None:
    assert len({normalised_user(name) for name in spellings}) == 1


def test_a_whole_float_of_any_width_is_the_whole_number() -> None:
    rows = [
        Row(i, {"n": n, "text": "letter"})
        for i, n in enumerate((16777216, np.float32(16777216), 16777216.0, "16777216.0"))
    ]
    settings = PrepareSettings.model_validate({"user_column": "n"})
    records, _ = usable(rows, settings, SCHEMA, source="f", setting="s")
    assert {record.user for record in records} == {"16777216"}
