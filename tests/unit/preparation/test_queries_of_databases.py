"""Tests that a query with rows that depend on other rows pays nothing, or is an assumption."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sugarbush.errors import InputError, ParamsError
from sugarbush.pipeline.opening import open_project
from sugarbush.privacy.remarks import INDEPENDENT_ROWS, OVERLAP
from sugarbush.run.settings import parse_params
from tests.integration.project import letters
from tests.unit.pipeline.small_project import run_stages, write_project

pytestmark = pytest.mark.usefixtures("quick_encoder")
NEWEST = "SELECT id, text, product FROM letters ORDER BY id DESC LIMIT 120"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pytest.importorskip("sqlalchemy")
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path / "state"))
    (tmp_path / "project").mkdir()
    with closing(sqlite3.connect(tmp_path / "project/shop.db")) as database, database:
        database.execute("CREATE TABLE letters (id TEXT, text TEXT, product TEXT)")
        rows = [tuple(row.values()) for row in letters(146)[6:]]
        database.executemany("INSERT INTO letters VALUES (?, ?, ?)", rows)
    return tmp_path


def write(folder: Path, **prepare: Any) -> None:
    changes = {f"prepare__{name}": value for name, value in prepare.items()}
    write_project(
        folder / "project",
        prepare__file="sqlite:///shop.db",
        prepare__id_column="id",
        evaluate__show=False,
        **changes,
    )


def card(folder: Path) -> Any:
    run_stages(folder / "project", without=frozenset({"evaluate", "audit"}))
    return json.loads((folder / "project/reports/public/release_card.json").read_text())


def test_a_query_with_a_limit_is_refused_before_it_pays(folder: Path) -> None:
    write(folder, table=NEWEST)
    with pytest.raises(InputError, match="the SELECT has the word ORDER, so its rows may depend"):
        card(folder)
    assert not open_project(folder / "project").ledger().entries()
    assert not (folder / "project/data/released").exists()


@pytest.mark.parametrize(
    ("table", "declared"),
    [("SELECT * FROM letters WHERE product <> 'sofa'", None), (NEWEST, False)],
)
def test_the_card_states_the_assumption_that_the_settings_declare(
    folder: Path, table: str, declared: bool | None
) -> None:
    write(folder, table=table, rows_depend_on_other_rows=declared)
    made = card(folder)
    assert (INDEPENDENT_ROWS in made["remarks"]) == (declared is False)
    markdown = (folder / "project/reports/public/release_card.md").read_text()
    assert ("no row depends on other rows" in markdown) == (declared is False)


def test_a_later_card_states_the_assumption_of_an_earlier_charge(folder: Path) -> None:
    """Its total counts the charge, and the charge is right under the assumption alone."""
    write(folder, table=NEWEST, rows_depend_on_other_rows=False, accept_overlap=True)
    card(folder)
    write(folder, table="letters")
    made = card(folder)
    assert made["promise"]["epsilon"] > made["promise"]["epsilon_of_this_run"]
    assert {INDEPENDENT_ROWS, OVERLAP} <= set(made["remarks"])


@pytest.mark.parametrize(
    "file",
    [
        "https://shop.example/letters?limit=50&order=-date&as=.jsonl",
        "http://localhost:8000/rows?offset=0&length=100&format=.parquet",
        "zip://letters.csv::https://shop.example/export?newest=50",
    ],
)
def test_a_url_with_a_query_needs_the_declaration(file: str) -> None:
    with pytest.raises(ParamsError, match=r"a URL with a query.*rows_depend_on_other_rows: false"):
        parse_params({"prepare": {"file": file}})
    declared = {"file": file, "rows_depend_on_other_rows": False}
    assert parse_params({"prepare": declared}).prepare.read_options.rows_are_independent
    for plain in ("https://shop.example/letters.jsonl", "postgresql://host/shop?sslmode=require"):
        assert parse_params({"prepare": {"file": plain}}).prepare.file == plain


def test_rows_that_depend_on_other_rows_are_refused() -> None:
    with pytest.raises(ParamsError, match="rows_depend_on_other_rows is true, but then"):
        parse_params({"prepare": {"rows_depend_on_other_rows": True}})


def test_a_slice_of_a_dataset_is_no_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path / "state"))
    write_project(tmp_path / "project", prepare__file="letters.jsonl[:50]")
    with pytest.raises(InputError, match=r"letters\.jsonl\[:50\]"):
        run_stages(tmp_path / "project")
