"""The plan of a run is computed once, and every process reads it."""

import json
from pathlib import Path

import pytest

from sugarbush.pipeline import plan
from sugarbush.pipeline.opening import open_project
from sugarbush.privacy.budget import BudgetPlan
from sugarbush.run.settings import ProjectSettings
from tests.settings import params
from tests.unit.pipeline.test_graph import SCHEMA


def planned(base: Path, settings: ProjectSettings) -> BudgetPlan:
    return open_project(base, settings=settings, schema=SCHEMA).plan


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


def test_a_second_process_computes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = params(methods=["maple"])
    first = stored(tmp_path, settings)
    monkeypatch.setattr(plan, "plan_of", lambda project: pytest.fail("computed again"))
    assert planned(tmp_path, settings) == first


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
