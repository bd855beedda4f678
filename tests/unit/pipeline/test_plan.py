"""The stored plan decides which stages are stale, and never the noise."""

import json
from pathlib import Path

import pytest

from sugarbush.pipeline import plan
from sugarbush.pipeline.opening import open_project
from sugarbush.privacy.budget import BudgetPlan
from sugarbush.privacy.entries import NOT_AN_ENTRY
from sugarbush.run.settings import ProjectSettings
from tests.settings import params
from tests.unit.pipeline.test_graph import SCHEMA


def planned(base: Path, settings: ProjectSettings) -> BudgetPlan:
    return open_project(base, settings=settings, schema=SCHEMA).plan


DAMAGED = (None, "x", [], {}, True, -1, float("nan"), float("inf"), {"kind": "x"}, [1])


def stored(base: Path, settings: ProjectSettings) -> BudgetPlan:
    return plan.store_plan(open_project(base, settings=settings, schema=SCHEMA))


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path / "state"))


@pytest.mark.parametrize("method", ["maple", "augpe", "dpft"])
def test_the_stored_plan_is_the_computed_plan(tmp_path: Path, method: str) -> None:
    settings = params(methods=[method])
    first = stored(tmp_path, settings)
    assert (tmp_path / plan.FILE).exists()
    assert (
        planned(tmp_path, settings)
        == first
        == plan.plan_of(open_project(tmp_path, settings=settings, schema=SCHEMA))
    )


def test_only_a_run_stores_its_plan(tmp_path: Path) -> None:
    """A check and the form leave no file."""
    planned(tmp_path, params(methods=["maple"]))
    assert not list(tmp_path.iterdir())


def test_an_edited_plan_changes_no_noise(tmp_path: Path) -> None:
    settings = params(methods=["maple"])
    first = stored(tmp_path, settings)
    file = tmp_path / plan.FILE
    fields = json.loads(file.read_text())
    for row in fields["plan"]["allocations"]:
        row["mu"] *= 2
    file.write_text(json.dumps(fields))
    assert stored(tmp_path, settings) != first
    assert planned(tmp_path, settings) == first


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes", [{"privacy__epsilon": 2.0}, {"methods__maple__rounds": 3}, {"evaluate__public": 0.2}]
)
def test_other_settings_have_another_plan(tmp_path: Path, changes: dict[str, object]) -> None:
    first = stored(tmp_path, params(methods=["maple"]))
    assert planned(tmp_path, params(methods=["maple"], **changes)) != first


def test_a_damaged_or_foreign_file_is_computed_again(tmp_path: Path) -> None:
    settings = params(methods=["maple"])
    first = stored(tmp_path, settings)
    file = tmp_path / plan.FILE
    fields = json.loads(file.read_text())
    for content in ("", "{}", json.dumps(fields | {"plan": {}}), json.dumps(fields | {"key": "x"})):
        file.write_text(content)
        assert planned(tmp_path, settings) == first
        assert stored(tmp_path, settings) == first


@pytest.mark.parametrize("method", ["maple", "dpft"])
def test_a_plan_with_a_damaged_value_is_computed_again(tmp_path: Path, method: str) -> None:
    settings = params(methods=[method])
    first = stored(tmp_path, settings)
    file = tmp_path / plan.FILE
    fields = json.loads(file.read_text())
    rows = fields["plan"]["allocations"]
    plans = [fields["plan"] | {name: bad} for name in fields["plan"] for bad in DAMAGED]
    plans += [fields["plan"] | {"allocations": [*rows, rows[0]]}]
    plans += [
        fields["plan"] | {"allocations": [*rows[:i], row | {name: bad}, *rows[i + 1 :]]}
        for i, row in enumerate(rows)
        for name in row
        for bad in DAMAGED
        if not (name == "subsampled" and bad is None) and (name, bad) != ("name", "x")
    ]
    for damaged in plans:
        with pytest.raises(NOT_AN_ENTRY):
            BudgetPlan.from_dict(json.loads(json.dumps(damaged)))
    for damaged in plans[::40]:
        file.write_text(json.dumps(fields | {"plan": damaged}))
        assert stored(tmp_path, settings) == first
