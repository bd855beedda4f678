"""Tests that a wrong argument of the API is refused with a message before any charge."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import sugarbush as sb
from sugarbush.arguments import in_python
from tests.synthesized import synthesize_frame

FRAME = pd.DataFrame({"message": [f"Order {i} arrived late" for i in range(200)]})
SCHEMA: dict[str, Any] = {
    "subject": "letters",
    "attributes": [{"name": "topic", "values": ["late"], "keywords": {"late": ["late"]}}],
}
COLUMN = {"subject": "x", "attributes": [{"name": "stars", "column": "stars", "bins": [2]}]}
LAMPS = {"subject": "x", "attributes": [{"name": "lamp", "column": "stars", "values": ["lamp"]}]}
STARS = pd.DataFrame({"stars": [0, 1, 2, 2] * 50})
OTHER = {"subject": "x", "attributes": [{"name": "start", "column": "start", "bins": [2]}]}
EMPTY = FRAME.assign(message=["Order"] * 7 + [" "] + ["Lamp"] * 192)
PRIVACY = sb.Privacy(epsilon=1, delta=1e-6, dataset="letters")
USERS = sb.Privacy(dataset="letters", unit="user")


def changed_privacy(**changes: Any) -> sb.Privacy:
    """Return settings that no check has seen, as after `model_copy`."""
    return PRIVACY.model_copy(update=changes)


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
    synthesize_frame(arguments.pop("corpus"), **arguments)


def table(state: Path, **changed: Any) -> None:
    arguments: dict[str, Any] = {"schema": COLUMN, "privacy": PRIVACY} | changed
    sb.dp_table(STARS, state=state, **arguments)


def histogram(state: Path | str, **changed: Any) -> None:
    arguments: dict[str, Any] = {"values": ["a"], "privacy": PRIVACY} | changed
    sb.private_histogram(arguments.pop("values"), categories=["a", "b"], state=state, **arguments)


def train(state: Path, **changed: Any) -> None:
    training = sb.FineTuning(model="none", records=100)
    arguments: dict[str, Any] = {"texts": ["a"], "training": training, "privacy": PRIVACY} | changed
    sb.train_dpsgd(
        arguments.pop("texts"), arguments.pop("training"), output=state / "model", state=state,
        **arguments,
    )  # fmt: skip


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
        (synthesize, {"donated": STARS}, "text: the donated frame has no column 'message'"),
        (synthesize, {"texts": 0}, r"^texts: must be greater than or equal to 1 \(got 0\)\.$"),
        (synthesize, {"seed": "a"}, "^seed: must be a valid integer.*$"),
        (synthesize, {"user": "who"}, "^user: the frame has no column 'who'"),
        (synthesize, {"user": "message"}, r'Set `sb.Privacy\(unit="user"\)` or `user=None`'),
        (synthesize, {"privacy": USERS}, "needs user, the column that names the user"),
        (synthesize, {"privacy": sb.Privacy()}, "^privacy: sb.Privacy needs dataset="),
        (synthesize, {"generator": sb.Pool()}, r"^sb\.Pool\(sources\) is empty"),
        (synthesize, {"corpus": FRAME.head(3)}, "settings={.prepare.: {.min_records.: 100}}"),
        (
            synthesize,
            {"corpus": EMPTY},
            r"row 8: the text is empty\. Fix the frame, or set ",
        ),
        (table, {"schema": SCHEMA}, "schema: attribute 'topic' is read from texts by keywords"),
        (table, {"schema": OTHER}, "attribute 'start': the frame has no column 'start'; did you"),
        (table, {"schema": LAMPS}, "no row of column 'stars' has one of its values"),
        (table, {"privacy": changed_privacy(epsilon=0)}, "epsilon: must be"),
        (table, {"privacy": changed_privacy(epsilon=-1)}, "epsilon: must be"),
        (table, {"privacy": changed_privacy(delta=2)}, "delta: must be"),
        (table, {"engine": "x"}, "engine: expected one of sugarbush, "),
        (table, {"privacy": changed_privacy(epsilon="x")}, "epsilon: must be a valid number"),
        (table, {"privacy": changed_privacy(cap=-1)}, "cap: must be greater than 0"),
        (table, {"privacy": USERS}, "this function protects each row"),
        (table, {"privacy": {"epsilon": 1}}, "privacy: .* got dict"),
        (histogram, {"privacy": changed_privacy(epsilon=0)}, "epsilon: must be"),
        (histogram, {"privacy": changed_privacy(delta=0)}, "delta: must be"),
        (histogram, {"privacy": USERS}, "needs both"),
        (histogram, {"values": "abc"}, "a list of values, got str"),
        (train, {"texts": "one text"}, "texts: expected a list of texts"),
        (train, {"privacy": changed_privacy(epsilon=float("nan"))}, "epsilon: must be"),
        (train, {"privacy": USERS}, "this function protects each text"),
        (train, {"training": "gpt2"}, "training: .* got str"),
    ],
)
def test_a_wrong_argument_is_refused_and_charges_nothing(
    tmp_path: Path, call: Callable[..., None], changed: dict[str, Any], message: str
) -> None:
    with pytest.raises(sb.SugarbushError, match=message) as refused:
        call(tmp_path, **changed)
    assert "params.yaml" not in str(refused.value) and "\n" not in str(refused.value)
    assert not list(tmp_path.rglob("*.jsonl"))


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("params.yaml: release.texts: is wrong", "texts: is wrong"),
        ("generator.pool.sources: x.csv is", "sb.Pool(sources): x.csv is"),
        ("Set methods.mosaic.candidates: 9", "Set sb.Mosaic(candidates=9)"),
        ("settings: embedding.speed is unknown", "settings: embedding.speed is unknown"),
        ("/a/release.json and release.json: wrong", "/a/release.json and release.json: wrong"),
        ("Lower privacy.epsilon", "Lower sb.Privacy(epsilon)"),
        ("settings: a.\nsettings: a.", "a."),
    ],
)
def test_settings_in_messages_become_arguments(message: str, expected: str) -> None:
    assert in_python(message) == expected
    assert in_python("Lower privacy.epsilon", {"privacy.epsilon": "epsilon"}) == "Lower epsilon"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: sb.Schema(subject="x", attributes=[{"name": "a", "valuess": ["b"]}]),
            "Schema: attribute 'a'.valuess: is not a known setting; did you mean values?",
        ),
        (lambda: sb.Schema(subject="x"), "Schema: attributes: Field required"),
        (
            lambda: sb.Attribute(name="a", column="c", values=["x", "x"]),
            "Attribute: values repeats x",
        ),
    ],
)
def test_a_wrong_schema_in_python_is_one_line(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(sb.SchemaError) as refused:
        make()
    assert str(refused.value) == message


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
        sb.Privacy(dataset=name)
    for call in (synthesize, table, histogram, train):
        with pytest.raises(sb.ParamsError, match="dataset"):
            call(state, privacy=changed_privacy(dataset=name))
    with pytest.raises(sb.ParamsError, match="a ledger's purpose"):
        sb.open_ledger("letters", purpose="release/other", state=state)
    assert not list(tmp_path.rglob("*"))


@pytest.mark.parametrize("schedule", [{"when_spent": "reuse"}, {"days_between_draws": 28}])
def test_a_schedule_of_runs_is_refused_because_a_call_always_draws(
    schedule: dict[str, Any], tmp_path: Path
) -> None:
    privacy = sb.Privacy(dataset="tickets", delta=1e-6, **schedule)
    schema = {"subject": "s", "attributes": [{"name": "a", "column": "a", "values": ["x"]}]}
    with pytest.raises(sb.ParamsError, match="draws each time"):
        sb.dp_table(pd.DataFrame({"a": ["x"]}), schema=schema, privacy=privacy, state=tmp_path)
    assert not list(tmp_path.iterdir())


def test_days_between_draws_have_a_date() -> None:
    with pytest.raises(ValueError, match="less than or equal to 3660"):
        sb.Privacy(dataset="tickets", days_between_draws=3661)
