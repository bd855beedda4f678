"""Runs the pipeline as a flow on a real Prefect server, with a mark in every private record.

The marks must not be found outside of data/private and reports/internal. The endpoint that writes
texts gets released text only. The endpoint that labels is trusted and gets the private texts.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pandas as pd
import pytest
import yaml
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.responses import DeploymentResponse
from prefect.client.schemas.schedules import CronSchedule, IntervalSchedule
from prefect.exceptions import ObjectNotFound
from prefect.settings import get_current_settings

from flows import pipeline as flow_module
from sugarbush.pipeline.flow import StageFailedError, read_stages, stale_stages
from tests.integration.canary import files_with, unpacked
from tests.integration.llm.server import (
    KEY,
    Body,
    FaultServer,
    Reply,
    completion,
    letter,
    running,
)
from tests.integration.project import LOOK, PRODUCTS, Checkout, as_lines, letters, make_project
from tests.pipelines import FinishedPipelines, copied

# Prefect and DVC do not close all sockets and event loops, which would be errors here.
pytestmark = [
    pytest.mark.xdist_group("flow"),
    pytest.mark.slow,
    pytest.mark.filterwarnings("default"),
]
MARK = "canary7731x"
RECORDS = 120
DONATED = 6
STAGES = {
    "fingerprint", "prepare", "look", "extract_metadata", "synthesize_metadata", "initialise@maple",
    "evolve@maple", "enlarge@maple", "evaluate", "report",
}  # fmt: skip


def labelled(number: int, body: Body) -> Reply:
    text = str(body["messages"][0]["content"]).partition("Text:\n")[2]
    return completion(json.dumps({"mood": "calm" if "another one" in text else "angry"}))


@dataclass(frozen=True)
class Finished:
    """The results of the flow: its files, the requests to both endpoints, and its output."""

    project: Checkout
    writer: FaultServer
    reader: FaultServer
    database: Path
    printed: str
    tasks: set[str]
    artifacts: dict[str, Any]

    @property
    def released(self) -> list[Path]:
        """Return all files that the run wrote, without private data and internal reports."""
        base = self.project.path
        own = {base / "letters.jsonl", base / "data", base / "reports", base / ".git"}
        data = {base / "data" / name for name in ("released", "public", "stamps")}
        return [*(set(base.iterdir()) - own), *data, base / "reports/public", self.project.state]


@pytest.fixture(scope="module")
def finished_flow(
    tmp_path_factory: pytest.TempPathFactory, prefect_database: Path
) -> Iterator[Finished]:
    """Run the flow once on a small corpus of marked records. Tests only read the results."""
    folder = tmp_path_factory.mktemp("flow")
    with contextlib.ExitStack() as stack:
        writer = stack.enter_context(running(FaultServer(behave=letter)))
        reader = stack.enter_context(running(FaultServer(behave=labelled)))
        project = marked_project(folder, writer, reader)
        address = get_current_settings().api.url
        assert address is not None
        run = project.run(
            # The encoder `tiny` finds every text of the server unlike the donated texts.
            sys.executable, "-c", "from flows.pipeline import pipeline; pipeline(yes=True)",
            OPENAI_API_KEY=KEY, PREFECT_API_URL=address, variables=project.one_process,
        )  # fmt: skip
        tasks, artifacts = last_run()
        printed = run.stdout + run.stderr
        yield Finished(project, writer, reader, prefect_database, printed, tasks, artifacts)


def test_the_log_of_a_run_ends_with_its_verdict_its_epsilon_and_its_card(
    finished_flow: Finished,
) -> None:
    """Prefect's page of a run shows the log first."""
    lines = finished_flow.printed.splitlines()
    card = finished_flow.project.path / "reports/public/release_card.md"
    for expected in (
        r"verdict \(maple\): (good|fair|unknown|poor)",
        r"epsilon: \S+ at delta 1e-6, per record",
        r"dataset total: \S+ of a cap of 50",
        r"release card: \S*release_card\.md, and the artifact release-card",
    ):
        matching = [line for line in lines if re.search(expected, line)]
        assert len(matching) == 1, [line for line in lines if "INFO" in line][-8:]
        (found,) = matching
        assert "INFO" in found
        assert MARK not in found
    assert card.exists()


@pytest.fixture
def own(finished_flow: Finished, tmp_path: Path) -> Iterator[Checkout]:
    """Return a copy of the finished project, which a test may change. It is the current folder."""
    project = copied(finished_flow.project, tmp_path)
    with inside(project):
        yield project


@contextlib.contextmanager
def inside(project: Checkout) -> Iterator[None]:
    """Make the checkout the current folder, and set its environment variables."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(project.path)
        for name, value in (project.environment | {"OPENAI_API_KEY": KEY}).items():
            patch.setenv(name, value)
        for name in [name for name in os.environ if name.startswith("DVC_")]:
            if name not in project.environment:
                patch.delenv(name)
        yield


def marked_project(folder: Path, writer: FaultServer, reader: FaultServer) -> Checkout:
    endpoint = {"requests_per_minute": 1e6, "tokens_per_minute": 1e9, "model": "tiny"}
    project = make_project(
        folder / "checkout", folder / "state", records=RECORDS,
        prepare__id_column="id",
        embedding__model="tiny",
        generator__provider="openai",
        **{f"generator__openai__{k}": v for k, v in endpoint.items()},
        generator__openai__base_url=writer.base_url,
        generator__openai__key_variable="OPENAI_API_KEY",
        extract_metadata__llm={
            "base_url": reader.base_url, "model": "tiny", "key_variable": "OPENAI_API_KEY",
            "trusted": True,
        },
    )  # fmt: skip
    schema = project.path / "letters.schema.yaml"
    fields = yaml.safe_load(schema.read_text())
    fields["attributes"].append({"name": "mood", "values": ["angry", "calm"], "source": "llm"})
    schema.write_text(yaml.safe_dump(fields))
    donated, private = letters(RECORDS + DONATED)[:DONATED], letters(RECORDS + DONATED)[DONATED:]
    for i, record in enumerate(private):
        record["id"] = f"{MARK}id{i}"
        record["text"] = record["text"].replace("Dear shop", f"Dear {MARK}{i}")
        record[f"{MARK}column"] = f"{MARK}value{i}"  # a value that is not in the schema
        if i % 10 == 0:
            record["product"] = f"{MARK}product{i}"
    for i, record in enumerate(donated):
        record["mood"] = "angry" if i % 2 else "calm"
    (project.path / "letters.jsonl").write_text(as_lines(private))
    (project.path / "donated.jsonl").write_text(as_lines(donated))
    project.git("commit", "--quiet", "--all", "--message=marked")
    return project


def last_run() -> tuple[set[str], dict[str, Any]]:
    """Return the names of the task runs of the last flow run, and its artifacts by key."""
    with get_client(sync_client=True) as client:
        newest = max(client.read_flow_runs(), key=lambda run: run.created)
        names = {t.name for t in client.read_task_runs() if t.flow_run_id == newest.id}
        found = [a for a in client.read_artifacts() if a.flow_run_id == newest.id]
    # Artifacts without a key are the states of runs.
    return names, {a.key: a.data for a in found if a.key}


def shown_stages(artifacts: dict[str, Any]) -> dict[str, str]:
    return {row["stage"]: row["this run"] for row in json.loads(artifacts["stages"])}


def test_parameters_have_a_form_in_the_user_interface() -> None:
    form = flow_module.pipeline.parameters.model_dump()["properties"]
    assert set(form) == {"force", "epsilon", "yes"}
    assert "charge" in form["force"]["description"]
    assert {"exclusiveMinimum": 0, "type": "number"} in form["epsilon"]["anyOf"]


def test_a_first_run_runs_the_needed_stages_and_shows_what_is_public(
    finished_flow: Finished,
) -> None:
    project, artifacts = finished_flow.project, finished_flow.artifacts
    assert finished_flow.tasks == STAGES
    assert set(artifacts) == {"stages", "figures", "release-card", "report", "progress"}
    assert float(artifacts["progress"]) == 100
    shown = shown_stages(artifacts)
    assert set(shown) == STAGES
    assert {name for name, what in shown.items() if what == "ran"} == STAGES - {"fingerprint"}
    card = (project.path / "reports/public/release_card.md").read_text()
    assert artifacts["release-card"] == card
    assert len(project.charges()) == len(LOOK) + 2


def test_what_is_up_to_date_is_skipped(own: Checkout) -> None:
    flow_module.pipeline()
    names, artifacts = last_run()
    assert names == {"fingerprint"}
    assert set(shown_stages(artifacts).values()) == {"up to date"}
    assert len(own.charges()) == len(LOOK) + 2


def test_a_schedule_of_the_served_flow_starts_a_run_that_completes(
    own: Checkout, tmp_path: Path
) -> None:
    with served(own, tmp_path / "weekly.log") as (client, deployment):
        (weekly,) = deployment.schedules
        assert isinstance(weekly.schedule, CronSchedule) and weekly.active
        assert weekly.schedule.cron == "0 3 * * 1"
        soon = datetime.now(UTC) + timedelta(seconds=3)
        once = IntervalSchedule(interval=timedelta(hours=1), anchor_date=soon)
        client.create_deployment_schedules(deployment.id, [(once, True)])
        # The server of the tests has no service that reads schedules. This request replaces it.
        client._client.post(f"/deployments/{deployment.id}/schedule", json={}).raise_for_status()
        run = finished_run(client, deployment)
    assert run.state is not None
    assert run.state.is_completed(), run.state.message
    assert run.auto_scheduled
    assert len(own.charges()) == len(LOOK) + 2


@contextlib.contextmanager
def served(project: Checkout, log: Path) -> Iterator[tuple[SyncPrefectClient, DeploymentResponse]]:
    """Run `python -m flows.weekly` in the project, and wait for its deployment."""
    address = str(get_current_settings().api.url)
    with log.open("wb") as output, get_client(sync_client=True) as client:
        process = subprocess.Popen(
            [sys.executable, "-m", "flows.weekly"], cwd=project.path, stdout=output, stderr=output,
            env=project.environment | {"OPENAI_API_KEY": KEY, "PREFECT_API_URL": address},
        )  # fmt: skip
        try:
            while True:
                assert process.poll() is None, log.read_text()
                with contextlib.suppress(ObjectNotFound):
                    deployment = client.read_deployment_by_name("sugarbush/weekly")
                    break
                time.sleep(0.5)
            yield client, deployment
        finally:
            process.terminate()
            process.wait()


def finished_run(client: SyncPrefectClient, deployment: DeploymentResponse) -> FlowRun:
    """Wait for the first run of a deployment that ends."""
    while True:
        for run in client.read_flow_runs():
            ended = run.state is not None and run.state.is_final()
            if run.deployment_id == deployment.id and ended:
                return run
        time.sleep(0.5)


def test_a_failing_stage_runs_once_and_is_explained_outside_prefect(
    own: Checkout, capfd: pytest.CaptureFixture[str]
) -> None:
    whole = (own.path / "letters.jsonl").read_text()
    bad = {"id": "x", "text": MARK * 100_000, "product": "lamp"}
    (own.path / "letters.jsonl").write_text(whole + json.dumps(bad) + "\n")
    with pytest.raises(StageFailedError) as failure:
        flow_module.pipeline()
    shown = capfd.readouterr()
    assert "max_characters" in shown.err  # the operator's terminal shows the error
    names, artifacts = last_run()
    # This stage has a task run, but it never started, because `prepare` failed.
    assert "evolve@maple" in names
    assert set(artifacts) == {"progress"}
    for secret in ("max_characters", "row 121", MARK):
        assert secret not in prefect_states() + str(failure.value)
    assert (own.path / "reports/internal/errors.log").read_text().count("max_characters") == 1
    assert len(own.charges()) == len(LOOK) + 2


def prefect_states() -> str:
    """Return the state messages of all runs that Prefect stores."""
    with get_client(sync_client=True) as client:
        states = [*client.read_flow_runs(), *client.read_task_runs()]
    messages = [str(run.state.message) for run in states if run.state is not None]
    return "\n".join(messages)


def test_a_seed_of_evaluate_makes_no_stage_stale_that_spends(
    finished: FinishedPipelines, tmp_path: Path
) -> None:
    own = copied(finished("dvc"), tmp_path)
    own.change("evaluate", bootstrap=7)
    stages = read_stages(own.path)
    own.dvc("repro", "--single-item", *stages.with_markers("fingerprint"))
    assert stale_stages(stages, own.path) == {"evaluate", "report"}


def test_stages_that_no_method_needs_run_with_the_next_needed_one(
    finished: FinishedPipelines,
) -> None:
    stages = read_stages(finished("dvc").path)
    assert stages.first == ("fingerprint",)
    assert stages.with_markers("fingerprint") == ("make_example", "fingerprint")
    assert stages.with_markers("evolve@maple") == ("evolve@maple",)
    markers = {
        "initialise@dpft", "evolve@dpft", "enlarge@dpft", "finetune@maple", "generate@maple"
    }  # fmt: skip
    assert not markers & set(stages.needed)
    *before, last = stages.with_markers("evaluate")
    assert set(before) == markers
    assert last == "evaluate"
    assert before.index("initialise@dpft") < before.index("evolve@dpft")
    assert {"enlarge@maple", "generate@dpft"} <= set(stages.inputs("evaluate"))
    assert "pretrain" in stages.needed


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


def test_the_endpoint_for_labels_gets_every_private_text(finished_flow: Finished) -> None:
    """The marks must be in the private texts.

    Otherwise the searches for marks would prove nothing.
    """
    sent = finished_flow.reader.raw.decode()
    assert all(f"{MARK}{i}," in sent for i in range(RECORDS))
    private = finished_flow.project.path / "data" / "private"
    assert files_with(MARK, [private / "prepared"])
    assert len(finished_flow.writer.answered) > 10


def test_no_request_to_the_writing_endpoint_contains_a_mark(finished_flow: Finished) -> None:
    assert MARK.encode() not in finished_flow.writer.raw
    assert KEY.encode() in finished_flow.writer.raw  # requests are recorded completely


def test_no_file_outside_the_private_root_contains_a_mark(finished_flow: Finished) -> None:
    assert files_with(MARK, finished_flow.released) == []


@pytest.mark.parametrize(
    "place", [".dvc/cache", "dvc.lock", "data/released", "reports/public", "data/stamps"]
)
def test_what_was_searched_is_there(finished_flow: Finished, place: str) -> None:
    path = finished_flow.project.path / place
    assert path.exists()
    assert any(path == one or one in path.parents for one in finished_flow.released)
    assert files_with("", [path])


def test_released_tables_and_cached_answers_were_searched_unpacked(
    finished_flow: Finished,
) -> None:
    final = finished_flow.project.path / "data/released/evolve/maple/lineage.parquet"
    text = pd.read_parquet(final)["text"][0]
    assert final.name in {Path(f).name for f in files_with(text, finished_flow.released)}
    assert any("answers" in f for f in files_with(text, [finished_flow.project.state]))


def test_prefects_database_and_the_terminal_contain_no_mark(finished_flow: Finished) -> None:
    while "Running stage 'extract_metadata'" not in (
        stored := unpacked(finished_flow.database)
    ):  # Prefect sends its log in the background
        time.sleep(0.5)
    assert MARK not in stored
    places = [finished_flow.database.parent, Path(os.environ["PREFECT_HOME"])]
    assert files_with(MARK, places) == []
    assert "extract_metadata" in finished_flow.printed
    assert MARK not in finished_flow.printed


def test_private_answers_are_cached_under_the_private_root_alone(finished_flow: Finished) -> None:
    labels = finished_flow.project.path / "data/private/labels"
    assert labels.stat().st_mode & 0o077 == 0
    assert files_with("mood", [labels / "answers"])
    assert not files_with("mood", [finished_flow.project.state / "answers"])
    assert len(finished_flow.reader.asked) >= RECORDS


def test_the_report_says_which_endpoint_got_what_and_how_labels_agree(
    finished_flow: Finished,
) -> None:
    base = finished_flow.project.path
    public = base / "reports/public"
    found = json.loads((base / "data/public/donated/agreement.json").read_text())
    rows = {row["attribute"]: row for row in found}
    assert (rows["mood"]["texts"], rows["mood"]["share"]) == (DONATED, 1.0)
    assert "How well attributes are read from texts" in (public / "index.html").read_text()
    card = (public / "release_card.md").read_text()
    assert "EVERY PRIVATE TEXT was sent to it" in card
    address = finished_flow.reader.base_url
    assert str(urlsplit(address).hostname) in card and address not in card
    assert set(PRODUCTS) <= set(card.replace(",", " ").split())
