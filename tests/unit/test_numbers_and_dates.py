"""Tests that numbers and dates go in and come out as numbers and dates, through the Python API."""

from __future__ import annotations

import json
import re
from datetime import date, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import sugarbush as sb
from sugarbush.data.schema import schema_of
from sugarbush.errors import InputError, ParamsError
from sugarbush.evolution.targets import targets_by_rows
from sugarbush.generators.interface import Answer, GeneratorSettings
from sugarbush.randomness import public_rng
from sugarbush.registry import GENERATORS
from tests.publication import COMPLETE
from tests.synthesized import synthesize_frame
from tests.unit.publication.test_dataset_folder import run_in_process

pytestmark = pytest.mark.usefixtures("quick_encoder")
DAYS = [date(2024, 1, 1) + timedelta(days=i % 300) for i in range(300)]
COLUMNS: dict[str, list[Any]] = {
    "message": [f"Order {i} of my lamp arrived late" for i in range(300)],
    "stars": [1 + i % 5 for i in range(300)],
    "opened": [str(day) for day in DAYS],
    "closed": [(day + timedelta(days=i % 40)).strftime("%d.%m.%Y") for i, day in enumerate(DAYS)],
    "price": [None if i % 7 == 0 else f"${i / 4:.2f}" for i in range(300)],
}
FRAME = pd.DataFrame(COLUMNS)
SPAN = {"bins": ["2024-04-01", "2024-07-01"], "span": ["2024-01-01", "2024-12-31"]}
SCHEMA: dict[str, Any] = {
    "subject": "letters to a shop",
    "rules": ["closed >= opened"],
    "attributes": [
        {"name": "stars", "column": "stars", "type": "integer", "bins": [2, 4], "span": [1, 5]},
        {"name": "opened", "column": "opened", **SPAN},
        {"name": "closed", "column": "closed", **SPAN},
        {"name": "price", "column": "price", "type": "number", "bins": [25], "span": [0, 80]},
    ],
}


@pytest.fixture(autouse=True)
def _installed(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the generator of this module by an entry point, as an installer does."""
    folder = tmp_path_factory.mktemp("site")
    info = folder / "obedient-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: obedient\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{GENERATORS}]\nobedient = {__name__}:Obedient\n")
    monkeypatch.syspath_prepend(str(folder))


class Obedient(GeneratorSettings):
    """A generator that writes the requested values into the text, as a language model should."""

    name: ClassVar[str] = "obedient"

    def open(self, context: Any) -> Any:
        return self

    def generate(self, requests: Any, *, what: str = "answers") -> Any:
        return requests.map(lambda all_: tuple(Answer(text=self.text(one)) for one in all_))

    @staticmethod
    def text(request: Any) -> str:
        said = ", ".join(f"{name} {value}" for name, value in request.attributes)
        return f"Letter {request.sample}: {said}."


def release(state: Path, *, generator: Any = None, schema: Any = None, **more: Any) -> sb.Release:
    return synthesize_frame(
        FRAME,
        text="message",
        schema=schema or SCHEMA,
        method=sb.Mosaic(candidates=300, prompt="metadata"),
        generator=generator or Obedient(),
        privacy=sb.Privacy(epsilon=4, delta=1e-5, dataset="letters"),
        texts=150,
        state=state,
        settings={"prepare": {"min_records": 20}, "evaluate": {"public": False}},
        accept_poor=True,
        **more,
    )


@pytest.mark.slow
def test_released_columns_have_types_and_texts_say_the_released_values(tmp_path: Path) -> None:
    own = release(tmp_path)
    frame = own.frame
    assert str(frame["stars"].dtype) == "Int64"
    assert str(frame["price"].dtype) == "float64"
    assert str(frame["opened"].dtype) == "datetime64[s]"
    assert set(frame["stars"].dropna()) <= {1, 2, 3, 4, 5} and frame["stars"].nunique() == 5
    assert frame["price"].dropna().between(0, 80).all() and frame["price"].isna().any()
    assert frame["opened"].dropna().between("2024-01-01", "2024-12-31").all()
    assert frame["opened"].nunique() > 10, "days, not the names of three bins"
    both = frame.dropna(subset=["opened", "closed"])
    assert len(both) > 20 and (both["closed"] >= both["opened"]).all()
    # A request names the attributes of one clique. Where it names none, nothing says the value.
    for row in frame.to_dict("records"):
        for name in ("stars", "price"):
            if not pd.isna(row[f"requested_{name}"]):
                (said,) = re.findall(rf"{name} ([\d.]+)[,.]", row["text"])
                assert float(said.rstrip(".")) == row[name] == row[f"requested_{name}"]
        for name in ("opened", "closed"):
            if not pd.isna(row[f"requested_{name}"]):
                assert f"{name} {row[name].date()}" in row["text"]
    for name in ("stars", "price", "opened", "closed"):
        assert frame[f"requested_{name}"].notna().any(), "of 25 releases, the fewest were 5"
    own.save(tmp_path / "out")
    lines = (tmp_path / "out" / "synthetic.jsonl").read_text().splitlines()
    first = json.loads(lines[0])
    assert len(lines) == len(frame)
    for name in ("opened", "closed"):
        assert first[name] is None or re.fullmatch(r"2024-\d\d-\d\d", first[name])


@pytest.mark.slow
def test_the_same_call_gives_the_same_values(tmp_path: Path) -> None:
    assert release(tmp_path).frame.equals(release(tmp_path).frame)


def test_a_published_table_has_typed_columns(tmp_path: Path) -> None:
    own = release(tmp_path)
    own.publish(tmp_path / "out", publication=COMPLETE)
    table = pq.read_table(tmp_path / "out" / "data" / "train-00000-of-00001.parquet")
    types = {field.name: str(field.type) for field in table.schema}
    assert types["stars"] == "int64" and types["price"] == "double"
    assert types["opened"] == types["closed"] == "date32[day]"
    assert table["opened"].to_pylist() == [
        None if pd.isna(day) else day.date() for day in own.frame["opened"]
    ]
    assert table["price"].null_count == own.frame["price"].isna().sum() > 0
    croissant = json.loads((tmp_path / "out" / "croissant.json").read_text())
    fields = {field["name"]: field for field in croissant["recordSet"][0]["field"]}
    assert fields["opened"]["dataType"] == "sc:Date"
    assert fields["stars"]["dataType"] == "sc:Integer"
    assert "from 1 to 5" in fields["stars"]["description"]


@pytest.mark.slow
@pytest.mark.skipif(find_spec("datasets") is None, reason="datasets is not installed: extra `dev`")
@pytest.mark.skipif(find_spec("mlcroissant") is None, reason="mlcroissant is not installed: `dev`")
def test_other_programs_read_the_types(tmp_path: Path) -> None:
    release(tmp_path).publish(tmp_path / "out", publication=COMPLETE)
    (tmp_path / "cache").mkdir()
    program = """
        import json, sys
        from datasets import load_dataset
        import mlcroissant
        texts = load_dataset(sys.argv[1], split="train")
        issues = mlcroissant.Dataset(sys.argv[1] + "/croissant.json").metadata.ctx.issues
        days = [str(row["opened"]) for row in texts if row["opened"]]
        types = {name: feature.dtype for name, feature in texts.features.items()}
        print(json.dumps([types, days[0], sorted(issues.errors), sorted(issues.warnings)]))
    """
    printed = run_in_process(program, str(tmp_path / "out"), cache=tmp_path / "cache")
    types, day, errors, warnings = json.loads(printed.splitlines()[-1])
    assert types["stars"] == "int64" and types["price"] == "float64"
    assert types["opened"] == types["requested_closed"] == "date32"
    assert re.fullmatch(r"2024-\d\d-\d\d", day)
    assert not errors and not warnings


def test_a_dp_table_has_typed_columns_and_obeys_the_rules(tmp_path: Path) -> None:
    table = sb.dp_table(
        FRAME,
        schema=SCHEMA,
        privacy=sb.Privacy(epsilon=4, delta=1e-5, dataset="table"),
        state=tmp_path,
    ).value
    assert [str(table[n].dtype) for n in ("stars", "opened", "price")] == [
        "Int64", "datetime64[s]", "float64",
    ]  # fmt: skip
    both = table.dropna(subset=["opened", "closed"])
    assert (both["closed"] >= both["opened"]).all()
    assert table.attrs["rows_that_broke_a_rule"] >= 0
    assert 250 < len(table) + table.attrs["rows_that_broke_a_rule"] < 350
    assert table["price"].isna().mean() == pytest.approx(1 / 7, abs=0.08)


@pytest.mark.parametrize(
    "column, cell, message",
    [
        ("stars", "many", "is no number"),
        ("stars", float("inf"), "is infinite"),
        ("stars", 2.5, "is no whole number"),
        ("opened", "02/03/2024", "may be read as two dates"),
        ("price", "5,678", "may be read as two numbers"),
    ],
)
def test_a_wrong_cell_is_named_by_row_and_column(
    tmp_path: Path, column: str, cell: Any, message: str
) -> None:
    wrong = FRAME.astype(object)
    wrong.loc[16, column] = cell
    with pytest.raises(InputError, match=f"row 17.*'{column}' {message}") as error:
        sb.prepare(
            wrong,
            text="message",
            schema=SCHEMA,
            privacy=sb.Privacy(dataset="letters"),
            state=tmp_path,
        )
    told = str(error.value).replace("infinite", "")
    assert str(cell) not in told
    with pytest.raises(InputError, match=f"row 17: column '{column}' {message}"):
        sb.dp_table(
            wrong,
            schema=SCHEMA,
            privacy=sb.Privacy(epsilon=1, delta=1e-5, dataset="t"),
            state=tmp_path,
        )

    def prepare_without_bad_rows() -> sb.Corpus:
        return sb.prepare(
            wrong,
            text="message",
            schema=SCHEMA,
            privacy=sb.Privacy(dataset="letters"),
            settings={"prepare": {"bad_rows": "drop"}},
            state=tmp_path,
        )

    if "two numbers" in message:  # each cell of the column would need the decimal sign
        with pytest.raises(InputError, match=f"'{column}' has cells with two meanings") as error:
            prepare_without_bad_rows()
        assert str(cell) not in str(error.value)
        return
    dropped = prepare_without_bad_rows()
    texts = [t for split in ("train", "heldout") for t in dropped.real_texts(split).texts]
    assert len(texts) == 299 and COLUMNS["message"][16] not in texts


def test_rules_that_no_row_of_the_table_obeys_are_refused() -> None:
    late = {"name": "opened", "column": "opened", "bins": ["2024-12-01"], "span": SPAN["span"]}
    fields = {"subject": "x", "rules": ["opened >= '2024-12-01'"], "attributes": [late]}
    schema = schema_of(fields, source="x")
    rows = np.array([[0], [1], [0]])
    targets = targets_by_rows(4, rows, schema, rng=public_rng(1))
    assert targets.codes[:, 0].tolist() == [1] * 4, "rows that cannot obey are not requested"
    with pytest.raises(ParamsError, match="no row of the DP table can obey the rules"):
        targets_by_rows(4, rows[::2], schema, rng=public_rng(1))
