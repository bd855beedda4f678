"""What `make fuzz` found: inputs that raised something else than an error of the project, or whose
error quoted what it must not."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import openai
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sugarbush.attributes.label_prompts import read_labels
from sugarbush.attributes.settings import LabelEndpoint
from sugarbush.data.reading import is_missing, read_rows, rows_of_frame
from sugarbush.data.records import usable
from sugarbush.data.schema import Attribute, Schema, load_schema
from sugarbush.data.settings import PrepareSettings
from sugarbush.errors import InputError, LedgerError, ParamsError, SchemaError, StorageError
from sugarbush.generators.openai.cost import read_journal
from sugarbush.generators.openai.endpoint import read_completion
from sugarbush.generators.openai.failures import explain
from sugarbush.privacy.data_types import Released
from sugarbush.privacy.events import DiscreteGaussian
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.results import open_result_store
from sugarbush.privacy.snapshots import Snapshots
from sugarbush.privacy.unit import Unit
from sugarbush.run.settings import load_params, parse_params

SCHEMA = Schema(subject="letters", attributes=(Attribute(name="stars", column="stars", bins=(2,)),))
EMPTY = [None, float("nan"), np.float32("nan"), pd.NA, pd.NaT, np.datetime64("NaT")]


@pytest.mark.parametrize("cell", EMPTY, ids=repr)
def test_every_missing_value_of_pandas_is_an_empty_cell(cell: Any) -> None:
    frame = pd.DataFrame({"text": ["a"], "stars": pd.Series([cell], dtype=object)})
    (record,), _ = usable(
        rows_of_frame(frame, wanted={}), PrepareSettings(), SCHEMA, source="frame", setting="s"
    )
    assert is_missing(cell) and record.raw == (None,)


@pytest.mark.parametrize("column", ["stars", "id", "user"])
def test_half_a_character_in_any_column_is_a_bad_row(column: str) -> None:
    row = {"text": "a", "stars": "1", "id": "i", "user": "u", column: "Kim \ud800"}
    settings = PrepareSettings(id_column="id", user_column="user")
    with pytest.raises(InputError, match=f"column '{column}' contains half a character") as error:
        usable(rows_of_frame(pd.DataFrame([row], dtype=object), wanted={}), settings, SCHEMA,
               source="frame", setting="s")  # fmt: skip
    assert "Kim" not in str(error.value)


def test_a_date_that_python_does_not_have_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"text": pa.array([2**62], type=pa.duration("s"))}), path)
    with pytest.raises(InputError, match="after row 0: a value cannot be read"):
        read_rows(path, setting="prepare.file", wanted={"text": "prepare.text_column"})


@pytest.mark.parametrize(
    "content",
    [
        "a: !!int ''", "a: !!float x", "a: 2020-99-99", pytest.param("[" * 1000, id="brackets"),
        "a: !!timestamp x",
    ],
)  # fmt: skip
def test_yaml_with_impossible_values_is_not_yaml(content: str, tmp_path: Path) -> None:
    (path := tmp_path / "file.yaml").write_text(content)
    with pytest.raises(SchemaError):
        load_schema(path)
    with pytest.raises(ParamsError):
        load_params(path)


@pytest.mark.parametrize("section", ["generator", "evolve", "privacy"])
def test_half_a_character_in_a_name_of_a_setting_is_refused(section: str) -> None:
    with pytest.raises(ParamsError):
        parse_params({section: {"\ud800": 1}, "methods": 5})


@pytest.mark.parametrize(
    "content", ["evolve: {on: 1}", "evolve: {1: 2, a: 3}", "yes: 1", "audit: [{2020-01-01: 1}]"]
)
def test_a_name_that_yaml_reads_as_another_value_is_refused(content: str, tmp_path: Path) -> None:
    (path := tmp_path / "params.yaml").write_text(content)
    with pytest.raises(ParamsError, match=r"YAML reads a name as .*Write the name in quotes"):
        load_params(path)


@pytest.mark.parametrize("name", ["schema", "copy", "json", "model_config", "_private", "a-b"])
def test_a_section_named_like_an_attribute_of_a_model_is_not_a_setting(name: str) -> None:
    with pytest.raises(ParamsError, match=f"generator.{name}: is not a setting"):
        parse_params({"generator": {name: 1}})


def test_settings_that_contain_themselves_are_refused(tmp_path: Path) -> None:
    (path := tmp_path / "params.yaml").write_text("privacy: &all {cap: *all}")
    with pytest.raises(ParamsError, match="contains itself"):
        load_params(path)


def test_a_label_after_much_white_space_is_read_at_once() -> None:
    """Removing code fences by a pattern took a time that grew with the square of the length. For
    this length, such a test would not end."""
    attribute = Attribute(name="mood", values=("angry",), source="llm")
    assert read_labels(" " * 30_000_000 + '```json\n{"mood": "angry"}\n```', [attribute]) == [0]


def test_descriptions_may_be_a_tuple() -> None:
    keywords = {"angry": ("furious", "cross")}
    assert Attribute(name="mood", values=("angry",), keywords=keywords).keywords == keywords


def test_a_password_in_an_address_is_not_repeated() -> None:
    openai_section = {"model": "m", "base_url": "http://me:hunter2@host/v1"}
    with pytest.raises(ParamsError, match="must have no user") as error:
        parse_params({"generator": {"openai": openai_section}})
    assert "hunter2" not in str(error.value)


def test_no_word_of_an_endpoint_that_reads_private_text_is_repeated() -> None:
    params = LabelEndpoint(model="m", base_url="http://x/v1", trusted=True)
    request = httpx2.Request("POST", "http://x/v1")
    response = httpx2.Response(302, headers={"location": "http://y/Kim"}, request=request)
    broken = openai.APIConnectionError(request=request)
    broken.__cause__ = httpx2.RemoteProtocolError("illegal status line: Kim")
    for error in (
        broken,
        openai.APIStatusError("no", response=response, body=None),
        ValueError("Kim"),
    ):
        assert "Kim" not in explain(error, params)


def test_an_absurd_number_of_tokens_counts_as_none() -> None:
    message = {"role": "assistant", "content": "a"}
    answer = {
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10**400, "completion_tokens": 3},
    }
    found = read_completion(answer)
    assert (found.prompt_tokens, found.completion_tokens) == (0, 3)


def ledger(state: Path) -> Ledger:
    return Ledger(state, dataset="a", purpose="release", unit=Unit.RECORD, cap=math.inf, delta=1e-6)


LINE = {
    "id": "1", "time": "", "unit": "record", "stage": "s", "run": "r", "delta": 1e-6, "sketch": [],
    "event": {"kind": "discrete_gaussian", "stddev": 9.0, "sensitivity": 1, "count": 1},
}  # fmt: skip
EVENT: dict[str, Any] = LINE["event"]  # type: ignore[assignment]
ODD_ENTRIES: list[dict[str, Any]] = [
    {"delta": 0}, {"delta": 1}, {"delta": -1}, {"delta": float("nan")}, {"delta": None},
    {"event": None}, {"event": []}, {"sketch": [""]}, {"sketch": 5}, {"unit": []},
    {"event": EVENT | {"stddev": 10**400}},
    {"event": EVENT | {"stddev": "9"}}, {"event": EVENT | {"count": 1.5}},
    {"event": EVENT | {"count": True}},
    {"event": EVENT | {"stddev": float("nan")}}, {"event": {"kind": []}},
]  # fmt: skip


@pytest.mark.parametrize("odd", ODD_ENTRIES, ids=str)
def test_an_entry_that_no_charge_wrote_stops_the_ledger(
    odd: dict[str, Any], tmp_path: Path
) -> None:
    own = ledger(tmp_path)
    own.folder.mkdir(parents=True)
    own.path.write_text(json.dumps(LINE) + "\n")
    assert len(own.entries()) == 1
    own.path.write_text(json.dumps({**LINE, **odd}) + "\n")
    with pytest.raises(LedgerError, match="line 1: not an entry"):
        own.charge(DiscreteGaussian(stddev=9.0), stage="s", run="r")


@pytest.mark.parametrize("line", [b"[" * 10**5, b"\xff", b'{"id":'])
def test_a_line_that_is_no_json_stops_the_ledger(line: bytes, tmp_path: Path) -> None:
    own = ledger(tmp_path)
    own.folder.mkdir(parents=True)
    own.path.write_bytes(line + b"\n")
    with pytest.raises(LedgerError, match="line 1: not an entry"):
        own.entries()


def test_a_damaged_head_or_a_folder_in_its_place_stops_the_ledger(tmp_path: Path) -> None:
    own = ledger(tmp_path)
    own.charge(DiscreteGaussian(stddev=9.0), stage="s", run="r")
    head = own.path.with_suffix(".head")
    head.write_bytes(b"\xff\xfe")
    with pytest.raises(LedgerError, match="edited"):
        own.entries()
    head.unlink()
    head.mkdir()
    with pytest.raises(LedgerError, match="cannot be read"):
        own.entries()


@pytest.mark.parametrize("name", ["votes/votes.npy", "votes/ledger_ids.json", "run"])
@pytest.mark.parametrize("content", [b"", b"\xff", b"PK\x03\x04", b"\x93NUMPY"])
def test_a_damaged_result_is_named_and_not_restored(
    name: str, content: bytes, tmp_path: Path
) -> None:
    def restored() -> Any:
        with open_result_store(
            tmp_path, dataset="a", stage="s", key={"a": "d"}, forced=False
        ) as store:
            return store.array("votes", lambda: Released(np.arange(3), ("1",))).value

    restored()
    (path,) = tmp_path.glob(f"draws/a/*/generation-1/{name}")
    path.write_bytes(content)
    if name == "run" and content in {b"", b"PK\x03\x04"}:
        return  # any text is a name
    with pytest.raises(StorageError, match="is damaged"):
        restored()


def test_a_damaged_file_of_names_is_refused(tmp_path: Path) -> None:
    (path := tmp_path / "snapshots/a.json").parent.mkdir()
    path.write_text("[" * 10**5)
    with pytest.raises(StorageError, match="is damaged"):
        Snapshots(tmp_path, "a").of("corpus", digest="d")


def test_journal_lines_with_impossible_costs_are_skipped(tmp_path: Path) -> None:
    line = {"time": "", "stage": "s", "what": "w", "model": "m", "prompt_tokens": 1,
            "completion_tokens": 1, "cost": 0.5}  # fmt: skip
    odd = [
        {"cost": float("nan")},
        {"cost": -9},
        {"prompt_tokens": "1"},
        {"stage": []},
        {"cost": "x"},
    ]
    (path := tmp_path / "a.jsonl").write_text(
        "".join(json.dumps(line | change) + "\n" for change in ({}, *odd))
    )
    (paid,) = read_journal(path)
    assert paid.cost == 0.5
