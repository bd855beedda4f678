"""Reports stages to OpenLineage and releases to MLflow, if the user's environment names a receiver.

OPENLINEAGE_URL, OPENLINEAGE_CONFIG, OPENLINEAGE__TRANSPORT... or openlineage.yml, and
MLFLOW_TRACKING_URI are the variables and the file of these tools. No setting is needed.

Guarantee: what is sent is public. An event contains names of stages and of public folders, and the
time. MLflow receives numbers and settings of the release card, the figures in
reports/public/metrics.json, and the files in reports/public. No message of an error is sent,
because it may contain an exact count. An error of a receiver ends no stage, because the stage may
have spent budget.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Protocol

from sugarbush.tracking.receivers import require_packages, uses_lineage, uses_mlflow

_PRODUCER: Final = "https://sugarbush.invalid"  # OpenLineage needs a URI; this one names no host
_PUBLIC: Final = ("data/released", "data/public", "reports/public")
_BATCH: Final = 100  # values in a request to MLflow
_LONGEST: Final = 500  # characters of a parameter
_NO_NAME: Final = re.compile(r"[^\w./ -]+")
# MLflow would send its own statistics of use, and would wait minutes for a server that is away.
_QUIET: Final = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
}


class Execution(Protocol):
    """One execution of a stage: names, declared paths, the folder of the published files."""

    @property
    def stage(self) -> str: ...
    @property
    def method(self) -> str | None: ...
    @property
    def dataset(self) -> str: ...
    @property
    def base(self) -> Path: ...
    @property
    def inputs(self) -> tuple[str, ...]: ...
    @property
    def outputs(self) -> tuple[str, ...]: ...
    @property
    def published(self) -> Path: ...


class Tracking:
    """The observer of stages: the entry point `tracking` of the group `sugarbush.stage_observers`.

    It does nothing if the environment names no receiver.
    """

    def require_packages(self, base: Path) -> None:
        require_packages(base)

    def observing(self, execution: Execution) -> AbstractContextManager[None]:
        return tracked(execution)


@contextmanager
def tracked(execution: Execution) -> Iterator[None]:
    """Report the start and the end of a stage, and a finished release after stage `report`.

    The packages of the extra `track` are installed (`receivers.require_packages`).
    """
    lineage, mlflow = uses_lineage(execution.base), uses_mlflow()
    events = _Events(execution) if lineage else None
    if events is not None:
        events.send("START")
    try:
        yield
    except BaseException as error:
        if events is not None:
            events.send("FAIL" if isinstance(error, Exception) else "ABORT")
        raise
    if events is not None:
        events.send("COMPLETE")
    if mlflow and execution.stage == "report":
        with _never_fails("MLflow", "the release"):
            _log_release(execution.published)


class _Events:
    """Sends the OpenLineage events of one execution of a stage."""

    def __init__(self, execution: Execution) -> None:
        stage, method = execution.stage, execution.method
        self._name = stage if method is None else f"{stage}@{method}"
        self._dataset = execution.dataset
        self._inputs = _public(execution.inputs)
        self._outputs = _public(execution.outputs)
        self._run_id = str(uuid.uuid4())

    def send(self, state: str) -> None:
        with _never_fails("OpenLineage", f"an event of stage {self._name}"):
            from openlineage.client import OpenLineageClient
            from openlineage.client.event_v2 import (
                InputDataset,
                Job,
                OutputDataset,
                Run,
                RunEvent,
                RunState,
            )

            space = f"sugarbush://{self._dataset}"
            event = RunEvent(
                eventType=RunState[state],
                eventTime=datetime.now(UTC).isoformat(),
                run=Run(runId=self._run_id),
                job=Job(namespace=space, name=self._name),
                producer=_PRODUCER,
                inputs=[InputDataset(namespace=space, name=name) for name in self._inputs],
                outputs=[OutputDataset(namespace=space, name=name) for name in self._outputs],
            )
            client = OpenLineageClient()
            client.emit(event)
            client.close()


def _public(paths: Iterable[str]) -> list[str]:
    """Return the declared paths below the public folders. No path depends on data."""
    return [path for path in paths if path.startswith(_PUBLIC)]


def _log_release(published: Path) -> None:
    """Log the release card's parameters and figures, and the public report, as one MLflow run."""
    card_file = published / "release_card.json"
    if not card_file.exists():  # nothing is released
        return
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    from mlflow.entities import Metric, Param
    from mlflow.tracking import MlflowClient

    card = json.loads(card_file.read_text(encoding="utf-8"))
    metrics_file = published / "metrics.json"
    figures = json.loads(metrics_file.read_text("utf-8")) if metrics_file.exists() else {}
    client = MlflowClient()
    # Without the high-level functions, MLflow adds no user, no path and no command of this machine.
    experiment = client.get_experiment_by_name(card["dataset"])
    experiment_id = (
        client.create_experiment(card["dataset"])
        if experiment is None
        else experiment.experiment_id
    )
    run_id = client.create_run(experiment_id).info.run_id
    now = int(time.time() * 1000)
    params = [Param(name, value[:_LONGEST]) for name, value in parameters_of(card).items()]
    metrics = [Metric(name, value, now, 0) for name, value in figures_of(card, figures).items()]
    for start in range(0, len(params), _BATCH):
        client.log_batch(run_id, params=params[start : start + _BATCH])
    for start in range(0, len(metrics), _BATCH):
        client.log_batch(run_id, metrics=metrics[start : start + _BATCH])
    client.log_artifacts(run_id, str(published))
    client.set_terminated(run_id)


def parameters_of(card: Mapping[str, Any]) -> dict[str, str]:
    """Return the public parameters of a release: what its card states about its making.

    >>> parameters_of({"promise": {"unit": "record"}, "made_by": {"methods": ["mosaic"]}})
    {'unit': 'record', 'methods': 'mosaic'}
    """
    shown = {"unit": card["promise"]["unit"], **card["made_by"]}
    return {
        name: ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        for name, value in _flat(shown)
    }


def figures_of(card: Mapping[str, Any], figures: Mapping[str, Any]) -> dict[str, float]:
    """Return the public numbers of a release: of its card and of reports/public/metrics.json."""
    promise, budget = card["promise"], card["budget"]
    numbers = {
        "epsilon": promise["epsilon"],
        "epsilon_of_this_run": promise["epsilon_of_this_run"],
        "delta": promise["delta"],
        "dataset_total_epsilon": budget["dataset_total_epsilon"],
        "dataset_cap_epsilon": budget["dataset_cap_epsilon"],
        **dict(_flat(figures)),
    }
    return {
        name: float(value)
        for name, value in numbers.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


def _flat(fields: Mapping[str, Any], *above: str) -> Iterator[tuple[str, Any]]:
    for name, value in fields.items():
        if isinstance(value, Mapping):
            yield from _flat(value, *above, str(name))
        else:
            yield _NO_NAME.sub("_", ".".join([*above, str(name)])), value


@contextmanager
def _never_fails(receiver: str, what: str) -> Iterator[None]:
    """Print the type of an error alone, because its message may contain an address with a key."""
    try:
        yield
    except Exception as error:
        print(
            f"sugarbush: {receiver} did not receive {what} ({type(error).__name__}). The stage "
            "goes on",
            file=sys.stderr,
            flush=True,
        )
