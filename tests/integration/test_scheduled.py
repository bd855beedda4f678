"""The weekly release as it is operated: a Prefect server on PostgreSQL, a work pool and a worker.

A mark is in every private record; it must not reach the database. Skipped where PostgreSQL is not
installed (Debian's package `postgresql`; `.ci/run` installs it).
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import yaml

from sugarbush.errors import FailureError
from sugarbush.pipeline.flow import only_run
from sugarbush.privacy.events import DiscreteGaussian
from tests.integration.postgres import binaries
from tests.integration.prefect_service import PREFECT, Service, running_service, webhook
from tests.integration.project import Checkout, as_lines, letters, make_project
from tests.pipelines import opened

pytestmark = [
    pytest.mark.xdist_group("scheduled"),
    pytest.mark.slow,
    pytest.mark.skipif(binaries() is None, reason="PostgreSQL is not installed"),
]
MARK = "canary4402y"
RUN = ("deployment", "run", "sugarbush/weekly", "--watch", "--param", "epsilon=0.9")


@dataclass(frozen=True)
class Operated:
    """A run of the deployment with another epsilon, which the cap refuses."""

    service: Service
    printed: str
    notified: list[str]
    dump: str

    @property
    def project(self) -> Checkout:
        return self.service.project


@pytest.fixture(scope="module")
def operated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operated]:
    folder = tmp_path_factory.mktemp("scheduled")
    project = make_project(
        folder / "checkout", folder / "state", methods=["maple"], embedding__model="tiny",
        prepare__id_column="id", privacy__cap=1.1,
    )  # fmt: skip
    marked = [
        row | {"id": f"{MARK}{i}", "text": row["text"].replace("shop", f"{MARK}{i}"), MARK: MARK}
        for i, row in enumerate(letters(100)[6:])
    ]
    (project.path / "letters.jsonl").write_text(as_lines(marked))
    project.ledger.charge(DiscreteGaussian(stddev=6.0), stage="evolve@maple", run="earlier")
    with webhook() as (address, notified):
        with running_service(project, folder, **project.one_process) as service:
            variables = service.environment
            notify = (sys.executable, "-m", "flows.notify")
            project.run(*notify, variables=variables, stdin=f"{address}\n")
            run = project.run(*PREFECT, *RUN, code=1, variables=variables)
            while not notified:  # an automation runs after the event; the test's limit ends it
                time.sleep(0.2)
            dump = service.postgres.dump()
        yield Operated(service, run.stdout + run.stderr, notified, dump)


def test_a_run_that_would_pass_the_cap_fails_with_the_reason_and_draws_nothing(
    operated: Operated,
) -> None:
    assert "Flow run finished in state 'Failed'" in operated.printed
    assert "BudgetExceededError: this run would bring epsilon of dataset" in operated.dump
    assert [entry.run for entry in operated.project.charges()] == ["earlier"]


def test_the_webhook_gets_the_reason(operated: Operated) -> None:
    (body,) = operated.notified
    fields = json.loads(body)
    assert fields["state"] == "Failed"
    assert "cap 1.1" in fields["message"]


def test_a_parameter_of_the_run_is_written_to_the_settings(operated: Operated) -> None:
    settings = yaml.safe_load((operated.project.path / "params.yaml").read_text())
    assert settings["privacy"]["epsilon"] == 0.9


def test_the_database_contains_the_log_and_no_mark(operated: Operated) -> None:
    assert "Running stage 'extract_metadata'" in operated.dump
    assert MARK in (operated.project.path / "letters.jsonl").read_text()
    assert MARK not in operated.dump


def test_one_run_on_a_dataset_at_a_time_in_whatever_checkout(operated: Operated) -> None:
    second = pytest.raises(FailureError, match="another run on dataset 'letters'")
    with opened(operated.project) as project, only_run(project.base), second:
        only_run(project.base).__enter__()
    with opened(operated.project) as project, only_run(project.base):
        pass  # the lock ended with the run
