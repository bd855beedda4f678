"""OpenLineage and MLflow receive nothing private: a search finds no mark of the private texts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from tests.integration.canary import files_with, unpacked
from tests.integration.project import Checkout, as_lines, letters, make_project

needs_packages = pytest.mark.skipif(
    find_spec("mlflow") is None or find_spec("openlineage") is None,
    reason="the extra `track` is not installed",
)
MARK = "canary7731x"
RECORDS = 120


def marked_project(folder: Path, **changes: object) -> Checkout:
    """Make a project with a mark in each private text, id, column name and in the file's name."""
    project = make_project(
        folder / "checkout", folder / "state", records=RECORDS,
        prepare__file=f"{MARK}.jsonl", prepare__id_column="id", embedding__model="tiny",
        generator={"provider": "simulator", "simulator": {"any_texts": True}},
        methods={"mosaic": {"candidates": 24}}, **changes,
    )  # fmt: skip
    private = letters(RECORDS + 6)[6:]
    for i, record in enumerate(private):
        record["id"] = f"{MARK}id{i}"
        record["text"] = record["text"].replace("Dear shop", f"Dear {MARK}{i}")
        record[f"{MARK}column"] = f"{MARK}value{i}"
    (project.path / f"{MARK}.jsonl").write_text(as_lines(private))
    return project


def receivers(folder: Path) -> dict[str, str]:
    """Return the variables of an event file and of a store of MLflow in `folder`."""
    config = folder / "openlineage.yml"
    transport = {"type": "file", "log_file_path": str(folder / "events.jsonl"), "append": True}
    config.write_text(yaml.safe_dump({"transport": transport}))
    return {
        "OPENLINEAGE_CONFIG": str(config),
        "MLFLOW_TRACKING_URI": (folder / "store").as_uri(),
        "MLFLOW_ALLOW_FILE_STORE": "true",
    }


def events(folder: Path) -> list[dict[str, object]]:
    lines = (folder / "events.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


@pytest.fixture(scope="module")
def tracked_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Checkout, Path, str]]:
    """Run the whole pipeline once. Yield the project, the folder of the stores, and the output."""
    folder = tmp_path_factory.mktemp("tracked")
    stores = folder / "stores"
    stores.mkdir()
    project = marked_project(folder)
    printed = project.dvc_in_one_process("repro", **receivers(stores))
    yield project, stores, printed


@needs_packages
@pytest.mark.slow
def test_nothing_private_is_sent(tracked_run: tuple[Checkout, Path, str]) -> None:
    project, stores, printed = tracked_run
    assert files_with(MARK, [project.path / "data" / "private"])  # the search finds the mark
    assert files_with(MARK, [stores]) == []
    assert files_with(str(project.path), [stores]) == []
    assert "did not receive" not in printed
    exact = {f'"{name}": {RECORDS}' for name in ("records", "rows")}
    assert not any(text in unpacked(file) for text in exact for file in stores.rglob("*.json*"))


@needs_packages
@pytest.mark.slow
def test_each_stage_has_a_start_and_an_end(tracked_run: tuple[Checkout, Path, str]) -> None:
    _, stores, printed = tracked_run
    found = events(stores)
    states: dict[tuple[str, str], list[str]] = {}
    for event in found:
        name, run = event["job"]["name"], event["run"]["runId"]  # type: ignore[index]
        states.setdefault((name, run), []).append(str(event["eventType"]))
    assert set(map(tuple, states.values())) == {("START", "COMPLETE")}, printed
    assert {"prepare", "evolve@mosaic", "enlarge@mosaic", "report"} <= {name for name, _ in states}
    named = {
        dataset["name"]
        for event in found
        for dataset in (*event["inputs"], *event["outputs"])  # type: ignore[misc]
    }
    assert "data/released/evolve/mosaic" in named
    public = ("data/released", "data/public", "reports/public")
    assert all(name.startswith(public) for name in named)


@needs_packages
@pytest.mark.slow
def test_mlflow_has_the_public_figures_of_the_card(
    tracked_run: tuple[Checkout, Path, str],
) -> None:
    project, stores, _ = tracked_run
    published = project.path / "reports" / "public"
    (run,) = (stores / "store").glob("[0-9]*/*/meta.yaml")
    metrics = {f.name: float(f.read_text().split()[1]) for f in (run.parent / "metrics").iterdir()}
    card = json.loads((published / "release_card.json").read_text())
    assert metrics["epsilon"] == card["promise"]["epsilon"]
    assert metrics["dataset_total_epsilon"] == card["budget"]["dataset_total_epsilon"]
    params = {f.name: f.read_text() for f in (run.parent / "params").iterdir()}
    assert params["methods"] == "mosaic"
    assert params["unit"] == "record"
    sent = {f.relative_to(run.parent / "artifacts") for f in run.parent.rglob("artifacts/**/*")}
    assert {p.relative_to(published) for p in published.rglob("*")} == sent
    tags = {f.name for f in (run.parent / "tags").iterdir()}
    assert not tags & {"mlflow.user", "mlflow.source.name", "mlflow.source.git.commit"}


@needs_packages
@pytest.mark.slow
def test_a_failure_is_an_event_without_its_message(tmp_path: Path) -> None:
    project = marked_project(tmp_path, prepare__min_records=5000)
    variables = receivers(tmp_path)
    printed = project.dvc("repro", code=None, **variables)
    assert "5,000" in printed or "5000" in printed
    last = events(tmp_path)[-1]
    assert last["eventType"] == "FAIL"
    assert last["job"]["name"] == "prepare"  # type: ignore[index]
    text = (tmp_path / "events.jsonl").read_text()
    for random in (last["eventTime"], last["run"]["runId"]):  # type: ignore[index]
        text = text.replace(str(random), "")
    assert "5000" not in text
    assert str(RECORDS) not in text
    assert not (tmp_path / "store").exists()


@needs_packages
@pytest.mark.slow
def test_a_receiver_that_is_away_ends_no_stage(tmp_path: Path) -> None:
    project = marked_project(tmp_path)
    away = "http://user:secret-key@127.0.0.1:9"
    printed = project.dvc("repro", "fingerprint", OPENLINEAGE_URL=away, MLFLOW_TRACKING_URI=away)
    assert "OpenLineage did not receive an event of stage fingerprint" in printed
    assert "secret-key" not in printed


@pytest.mark.slow
def test_a_missing_package_is_named_before_any_charge(tmp_path: Path) -> None:
    project = marked_project(tmp_path)
    hide = "import sys; sys.modules['openlineage'] = None; sys.argv = ['tasks.fingerprint']; "
    program = f"{hide}from sugarbush.pipeline.run_stage import run_stage; run_stage('fingerprint')"
    finished = project.run(
        "python", "-c", program, code=2, variables={"OPENLINEAGE_URL": "http://127.0.0.1:9"}
    )
    assert "needs the package openlineage. In a clone: pip install '.[track]'" in finished.stderr
    assert not project.charges()
