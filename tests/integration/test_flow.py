"""The Prefect flow over DVC's stages, on a real server of Prefect's and a real pipeline."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prefect.client.orchestration import get_client
from prefect.testing.utilities import prefect_test_harness

from flows import pipeline as flow_module
from tests.integration.project import Project, make_project

# Prefect and DVC leave sockets and event loops to the garbage collector.
pytestmark = [
    pytest.mark.xdist_group("flow"),
    pytest.mark.slow,
    pytest.mark.filterwarnings("default"),
]
CANARY = "canary-7731"


@pytest.fixture(scope="module", autouse=True)
def server() -> Iterator[None]:
    with prefect_test_harness(server_startup_timeout=180):
        yield


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    folder = tmp_path_factory.mktemp("flow")
    return make_project(folder / "checkout", folder / "state")


@pytest.fixture(autouse=True)
def there(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project.path)
    for name, value in project.environment.items():
        monkeypatch.setenv(name, value)
    for name in [n for n in os.environ if n.startswith("DVC_") and n not in project.environment]:
        monkeypatch.delenv(name)


def change(project: Project, section: str, key: str, value: Any) -> None:
    path = project.path / "params.yaml"
    fields = yaml.safe_load(path.read_text())
    fields[section][key] = value
    path.write_text(yaml.safe_dump(fields, sort_keys=False))


def last_run() -> tuple[set[str], str, dict[str, Any]]:
    """Names of the last flow run's task runs, everything in the log, artifacts by key."""
    with get_client(sync_client=True) as client:
        runs = client.read_flow_runs()
        newest = max(runs, key=lambda run: run.created)
        names = {t.name for t in client.read_task_runs() if t.flow_run_id == newest.id}
        found = [a for a in client.read_artifacts() if a.flow_run_id == newest.id]
        artifacts = {a.key: a.data for a in found if a.key}  # without a key: a state
    return names, newest.name, artifacts


def test_a_first_run_runs_every_stage_and_shows_what_is_public(project: Project) -> None:
    flow_module.pipeline()
    names, _, artifacts = last_run()
    assert names == {*project_stages(), *flow_module.needed_by("fingerprint", *graph_and_order())}
    assert len(project.charges()) == 2
    assert set(artifacts) == {"stages", "figures", "release-card", "report"}
    card = (project.path / "reports/public/release_card.md").read_text()
    assert artifacts["release-card"] == card


def graph_and_order() -> tuple[Any, list[str]]:
    graph = flow_module.stages()
    return graph, list(graph)


def project_stages() -> set[str]:
    return set(flow_module.stages())


def test_what_is_up_to_date_is_skipped(project: Project) -> None:
    flow_module.pipeline()
    names, _, artifacts = last_run()
    assert names == {"make_example", "fingerprint"}
    told = {row["stage"]: row["this run"] for row in json.loads(artifacts["stages"])}
    assert set(told.values()) == {"up to date"}
    assert len(project.charges()) == 2


def test_a_failing_stage_is_run_once_and_told_outside_prefect(
    project: Project, capfd: pytest.CaptureFixture[str]
) -> None:
    whole = (project.path / "letters.jsonl").read_text()
    bad = {"id": "x", "text": CANARY * 100_000, "product": "lamp"}
    (project.path / "letters.jsonl").write_text(whole + json.dumps(bad) + "\n")
    try:
        with pytest.raises(flow_module.StageFailedError) as failure:
            flow_module.pipeline()
    finally:
        (project.path / "letters.jsonl").write_text(whole)
    shown = capfd.readouterr()
    assert "max_characters" in shown.err  # the operator's terminal
    names, _, artifacts = last_run()
    assert "evolve@maple" in names  # never started: its upstream failed
    assert not artifacts
    database = prefect_texts()
    for secret in ("max_characters", "row 141", CANARY):
        assert secret not in database + str(failure.value)
    assert (project.path / "reports/internal/errors.log").read_text().count("max_characters") == 1
    assert len(project.charges()) == 2


def prefect_texts() -> str:
    """Every log line and state message that Prefect keeps."""
    with get_client(sync_client=True) as client:
        states = [*client.read_flow_runs(), *client.read_task_runs()]
    messages = [str(run.state.message) for run in states if run.state is not None]
    return "\n".join(messages)


def test_a_setting_of_evaluate_reruns_no_stage_that_spends(project: Project) -> None:
    change(project, "evaluate", "seed", 7)
    flow_module.pipeline()
    names, _, _ = last_run()
    assert {"evaluate", "report"} <= names
    assert not {"synthesize_metadata", "initialise@maple", "evolve@maple"} & names
    assert len(project.charges()) == 2


def test_no_task_is_retried() -> None:
    assert flow_module.stage.retries == 0
    assert flow_module.pipeline.retries == 0


def test_the_weekly_deployment_names_the_flow() -> None:
    root = Path(flow_module.__file__).parents[1]
    (deployment,) = yaml.safe_load((root / "prefect.yaml").read_text())["deployments"]
    file, name = deployment["entrypoint"].split(":")
    assert (root / file).resolve() == Path(flow_module.__file__).resolve()
    assert getattr(flow_module, name) is flow_module.pipeline
    assert deployment["concurrency_limit"]["limit"] == 1
