"""Tests that a wrong argument of the API is refused with a message before any charge."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import sugarbush as sb

FRAME = pd.DataFrame({"message": [f"Order {i} arrived late" for i in range(200)]})
SCHEMA: dict[str, Any] = {
    "subject": "letters",
    "attributes": [{"name": "topic", "values": ["late"], "keywords": {"late": ["late"]}}],
}
COLUMN = {"subject": "x", "attributes": [{"name": "stars", "column": "stars", "bins": [2]}]}
CODES = pd.DataFrame({"stars": [0, 1, 2, 2] * 50})


def synthesize(state: Path, **changed: Any) -> None:
    arguments: dict[str, Any] = {
        "corpus": FRAME,
        "text": "message",
        "schema": SCHEMA,
        "generator": sb.Simulator(any_texts=True),
        "privacy": sb.Privacy(dataset="letters"),
        "state": state,
    }
    arguments |= changed
    sb.synthesize(arguments.pop("corpus"), **arguments)


def table(state: Path, **changed: Any) -> None:
    arguments: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "dataset": "letters"} | changed
    sb.dp_table(CODES, state=state, **{"domain": {"stars": 3}} | arguments)


def histogram(state: Path | str, **changed: Any) -> None:
    arguments: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "dataset": "letters"} | changed
    values = arguments.pop("values", ["a"])
    sb.private_histogram(values, categories=["a", "b"], state=state, **arguments)


def train(state: Path, **changed: Any) -> None:
    arguments: dict[str, Any] = {"texts": ["a"], "epsilon": 1.0, "delta": 1e-6} | changed
    arguments.setdefault("dataset", "letters")
    sb.train_dpsgd(
        arguments.pop("texts"),
        model="none",
        output=state / "model",
        records=100,
        state=state,
        **arguments,
    )


@pytest.mark.parametrize(
    ("call", "changed", "message"),
    [
        (synthesize, {"corpus": ["a"]}, "the corpus: .* got list"),
        (synthesize, {"method": "maple"}, r"method: .* sb\.Mosaic\(\), got str"),
        (synthesize, {"method": sb.Maple}, "method: .* got the class Maple"),
        (synthesize, {"generator": "simulator"}, "generator: .* got str"),
        (synthesize, {"privacy": {"epsilon": 1}}, "privacy: .* got dict"),
        (synthesize, {"donated": "one text"}, "donated: expected a list of texts"),
        (synthesize, {"schema": 3}, "the schema: .* got int"),
        (synthesize, {"schema": {"subject": "x"}}, "the schema: attributes: Field required"),
        (synthesize, {"text": "mesage"}, r"text: .* no column 'mesage'; did you mean 'message'\?"),
        (synthesize, {"text": "mesage"}, "The columns are message$"),
        (synthesize, {"record_id": "id"}, r"record_id: the frame has no column 'id'\."),
        (synthesize, {"schema": COLUMN}, r"attribute 'stars': the frame has no column 'stars'"),
        (synthesize, {"donated": CODES}, "text: the donated frame has no column 'message'"),
        (table, {"domain": {"start": 3}}, "domain: .* no column 'start'; did you mean 'stars'"),
        (table, {"epsilon": 0}, "epsilon must be"),
        (table, {"epsilon": -1}, "epsilon must be"),
        (table, {"delta": 2}, "delta must be"),
        (table, {"engine": "x"}, "engine: expected one of sugarbush, "),
        (table, {"domain": {"stars": 2.5}}, "the size of 'stars' must be a whole number"),
        (table, {"domain": {"stars": 2**40}}, "the size of 'stars' must be a whole number"),
        (histogram, {"epsilon": 0}, "epsilon must be"),
        (histogram, {"delta": 0}, "delta must be"),
        (histogram, {"values": "abc"}, "a list of values, not one text"),
        (train, {"texts": "one text"}, "texts: expected a list of texts"),
        (train, {"epsilon": float("nan")}, "epsilon must be"),
    ],
)
def test_a_wrong_argument_is_refused_and_charges_nothing(
    tmp_path: Path, call: Callable[..., None], changed: dict[str, Any], message: str
) -> None:
    with pytest.raises(sb.SugarbushError, match=message):
        call(tmp_path, **changed)
    assert not list(tmp_path.rglob("*.jsonl"))


def test_one_text_in_place_of_several_is_refused() -> None:
    with pytest.raises(sb.InputError, match="texts: expected a list of texts, got str"):
        sb.redact("Call 555-010-1234 today")
    with pytest.raises(sb.InputError, match="detectors: expected a list of texts, got str"):
        sb.redact(["Call 555-010-1234 today"], detectors="regex")
    tables: list[Any] = [{"Ada": 1}, pd.DataFrame({"text": ["Ada"]})]
    for texts in tables:  # their names would count as texts
        with pytest.raises(sb.InputError, match="texts: expected a list of texts, got"):
            sb.redact(texts)
    with pytest.raises(sb.InputError, match="real: expected a list of texts, got str"):
        sb.evaluate(["a"], real="ab")


@pytest.mark.parametrize("missing", [None, float("nan"), b"Ada"])
def test_a_missing_text_is_named_by_its_place_and_not_quoted(missing: Any) -> None:
    texts: Any = iter(["Call 555-010-1234 today", missing])
    with pytest.raises(sb.InputError, match="texts: item 1 is not a text") as refused:
        sb.redact(texts, detectors=["regex"])
    assert "Ada" not in str(refused.value)


def test_half_a_character_is_named_by_its_place_and_not_quoted() -> None:
    with pytest.raises(sb.InputError, match="texts: item 1 has half a character") as refused:
        sb.redact(["a", "Ada \ud800"], detectors=["regex"])
    assert "Ada" not in str(refused.value)


def test_cells_of_a_record_that_became_column_names_are_not_listed(tmp_path: Path) -> None:
    frame = pd.DataFrame({"Ada": [1] * 50, "my lamp is broken": ["x"] * 50})
    with pytest.raises(sb.InputError, match=r"text: the frame has no column 'message'$"):
        synthesize(tmp_path, corpus=frame)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sb.Privacy(epsilon=0), "epsilon: must be greater than or equal to 0.001"),
        (lambda: sb.Privacy(delta=0.5), r"PrivacySettings: delta=0\.5 is above"),
        (lambda: sb.Maple(round=2), r"round: is not an argument of Maple; did you mean rounds\?"),
    ],
)
def test_a_wrong_argument_of_a_class_is_one_line(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(sb.ParamsError, match=f"^{message}") as refused:
        make()
    assert isinstance(refused.value, ValueError)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("names", [["regexx"], ["learned", "regexx"]])
def test_an_unknown_detector_is_refused_at_once(
    names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sugarbush.training.crt.policies._detectors", None)  # nothing is loaded
    with pytest.raises(sb.ParamsError, match=r"detectors: 'regexx' .* did you mean 'regex'"):
        sb.redact(["Call 555-010-1234 today"], detectors=names)


def test_detectors_may_be_paths_and_the_threshold_is_a_number(tmp_path: Path) -> None:
    folder: Any = tmp_path
    with pytest.raises(sb.ParamsError, match="cannot be loaded"):
        sb.redact(["a"], detectors=[folder])
    threshold: Any = "0.3"
    with pytest.raises(sb.ParamsError, match=r"'0\.3' is not between 0 and 1"):
        sb.redact(["a"], detectors=["regex"], threshold=threshold)


def test_a_state_folder_may_be_a_string(tmp_path: Path) -> None:
    histogram(str(tmp_path))
    assert sb.open_ledger("letters", state=str(tmp_path)).total() > 0


def test_a_ledger_has_a_known_unit(tmp_path: Path) -> None:
    with pytest.raises(sb.ParamsError, match="unit: expected record or user"):
        sb.open_ledger("letters", unit="person", state=tmp_path)


def test_a_dataset_cannot_name_a_path(tmp_path: Path) -> None:
    state, name = tmp_path / "state", "../../letters"
    with pytest.raises(sb.ParamsError, match="dataset"):
        synthesize(state, privacy=sb.Privacy(dataset=name))
    for call in (table, histogram, train):
        with pytest.raises(sb.ParamsError, match="must be a short name of a-z"):
            call(state, dataset=name)
    with pytest.raises(sb.ParamsError, match="a ledger's purpose"):
        sb.open_ledger("letters", purpose="release/other", state=state)
    assert not list(tmp_path.rglob("*"))
