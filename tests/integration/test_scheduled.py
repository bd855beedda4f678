"""The weekly release as it is operated: a Prefect server on PostgreSQL, a work pool and a worker.

A mark is in every private record; it must not reach the database. Skipped where PostgreSQL is not
installed (Debian's package `postgresql`; `.ci/run` installs it).
"""

from __future__ import annotations

import json
import sys
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
RUN = ("deployment", "run", "sugarbush/weekly", "--watch")


@dataclass(frozen=True)
class Operated:
    """Two runs of the deployment: one that the cap refused, one with a lower epsilon."""

    service: Service
    refused: str
    charged_by_refused: int
    completed: str
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
        prepare__id_column="id", privacy__cap=1.2,
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
            project.run(sys.executable, "-m", "flows.notify", address, variables=variables)
            refused = project.run(*PREFECT, *RUN, code=1, variables=variables).stdout
            spent = len(project.charges())
            lower = ("--param", "epsilon=0.4")
            completed = project.run(*PREFECT, *RUN, *lower, variables=variables).stdout
            dump = service.postgres.dump()
        yield Operated(service, refused, spent, completed, notified, dump)


def test_a_run_that_would_pass_the_cap_fails_with_the_reason_and_draws_nothing(
    operated: Operated,
) -> None:
    assert "Flow run finished in state 'Failed'" in operated.refused
    assert "BudgetExceededError: this run would bring epsilon of dataset" in operated.dump
    assert operated.charged_by_refused == 1  # the earlier one


def test_the_webhook_gets_the_reason(operated: Operated) -> None:
    (body,) = operated.notified
    fields = json.loads(body)
    assert fields["state"] == "Failed"
    assert "cap 1.2" in fields["message"]


def test_a_lower_epsilon_as_parameter_completes_the_release(operated: Operated) -> None:
    assert "Completed" in operated.completed
    settings = yaml.safe_load((operated.project.path / "params.yaml").read_text())
    assert settings["privacy"]["epsilon"] == 0.4
    assert len(operated.project.charges()) == 3
    assert operated.project.ledger.total() <= 1.2


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
