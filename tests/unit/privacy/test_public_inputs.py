"""Tests that no public name answers a question about all records that somebody asks by a setting.

Somebody who donates a text, or adds a word to the schema, and then sees that a random name stays,
would learn exactly that no record has this text or word.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

import sugarbush as sb
from sugarbush.pipeline.opening import open_project
from tests.integration.project import SCHEMA, TINY_ENCODER, letters
from tests.unit.pipeline.small_project import run_stages, write_project

PRIVATE = ("prepare", "train_texts", "extract_metadata", "train_codes")
LATER = frozenset(
    {
        *("synthesize_metadata", "initialise", "evolve", "enlarge", "evaluate", "audit"),
        *("pretrain", "finetune", "generate", "report"),
    }
)
ABSENT = "Nobody in this corpus wrote these words about a zeppelin."


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path / "state"))
    monkeypatch.delenv("DVC_STAGE", raising=False)
    monkeypatch.syspath_prepend(TINY_ENCODER)
    write_project(tmp_path / "project", methods=["maple"], embedding__model="tiny")
    return tmp_path / "project"


def names(base: Path) -> dict[str, str]:
    run_stages(base, without=LATER)
    return {
        name: json.loads((base / f"data/stamps/{name}.json").read_text())["stamp"]
        for name in PRIVATE
    }


def donate(base: Path) -> None:
    with (base / "donated.jsonl").open("a") as file:
        file.write(json.dumps(letters(1)[0] | {"text": ABSENT}) + "\n")


def name_a_word(base: Path) -> None:
    path = base / "letters.schema.yaml"
    fields = yaml.safe_load(path.read_text())
    fields["attributes"][1]["keywords"]["refund"].append("zeppelin")
    path.write_text(yaml.safe_dump(fields))


def set_in(section: str, **changes: Any) -> Callable[[Path], None]:
    def change(base: Path) -> None:
        path = base / "params.yaml"
        fields = yaml.safe_load(path.read_text())
        fields[section] |= changes
        path.write_text(yaml.safe_dump(fields))

    return change


@pytest.mark.parametrize(
    "change",
    [donate, name_a_word, set_in("prepare", max_characters=5000)],
    ids=["a donated text", "a word of the schema", "a filter"],
)
def test_a_public_change_renews_every_name_although_no_record_changed(
    base: Path, change: Callable[[Path], None]
) -> None:
    before = names(base)
    assert names(base) == before
    change(base)
    assert not set(names(base).values()) & set(before.values())


def test_settings_that_change_no_output_and_moved_files_keep_the_names(base: Path) -> None:
    before = names(base)
    (base / "letters.jsonl").rename(base / "moved.jsonl")
    set_in("prepare", file="moved.jsonl")(base)
    set_in("run", cluster="local")(base)
    assert names(base) == before


def test_a_setting_that_a_later_version_adds_renews_no_name(base: Path) -> None:
    settings = open_project(base).settings
    found = settings.changed_output_settings(("prepare", "privacy.unit"))
    assert found == {"prepare": {"min_records": 20}, "privacy.unit": "record"}


def test_the_api_renews_names_as_the_stages_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(TINY_ENCODER)
    own = letters(156)
    rows = pd.DataFrame(own)

    def prepared(schema: Any = SCHEMA, **changes: Any) -> set[str]:
        fields: dict[str, Any] = {
            "donated": rows[:6], "settings": {"embedding": {"model": "tiny"}}, **changes,
        }  # fmt: skip
        privacy = sb.Privacy(dataset="letters")
        corpus = sb.prepare(rows[6:], schema=schema, privacy=privacy, state=tmp_path, **fields)
        return set(corpus.names.values())

    first = prepared()
    assert prepared() == first
    second = prepared(donated=pd.DataFrame([*own[:6], own[0] | {"text": ABSENT}]))
    attributes: Any = SCHEMA["attributes"]
    kept = [{**attributes[1], "keywords": {"refund": ["money back", "zeppelin"]}}]
    third = prepared(schema={**SCHEMA, "attributes": [attributes[0], *kept]})
    assert not first & second and not second & third
