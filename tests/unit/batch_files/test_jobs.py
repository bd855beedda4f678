"""Tests that submitted calls count against the caps, and that a damaged job file is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sugarbush.batch_files.jobs import BatchJob, jobs_with, save_job
from sugarbush.errors import StorageError
from sugarbush.generators.openai.cost import CapReachedError
from sugarbush.generators.openai.submitted_calls import folder_in
from tests.unit.generators.test_cost import meter


def a_batch(state: Path, *, account: str = "tickets", calls: int = 3, cost: float = 0.75) -> None:
    job = BatchJob(
        name=account, base_url="http://127.0.0.1", model="m", id="b", account=account,
        keys=tuple(f"{account}{number}" for number in range(calls)), worst_cost=cost,
    )  # fmt: skip
    save_job(folder_in(state), job)


@pytest.mark.parametrize(
    ("caps", "fits"),
    [
        ({"max_cost": 1.0}, 0.25), ({"max_cost": 0.75}, 0.0), ({"max_calls": 4}, 9.0),
    ],
)  # fmt: skip
def test_the_calls_of_submitted_batches_count_against_every_cap_of_their_account(
    caps: dict[str, float], fits: float, tmp_path: Path
) -> None:
    a_batch(tmp_path)
    a_batch(tmp_path, account="letters", calls=50, cost=99.0)
    one = meter(tmp_path, **caps)
    with one.alone(lambda said: None):
        if "max_cost" in caps:
            with pytest.raises(CapReachedError, match="3 calls are in batches"):
                one.admit(fits + 0.01)
        one.admit(fits)
        if "max_calls" in caps:
            with pytest.raises(CapReachedError, match="3 calls are in batches"):
                one.admit(0.0)


@pytest.mark.parametrize("cost", ["NaN", "Infinity", "-Infinity", "-0.5", "1e999", '"0.5"'])
def test_a_batch_whose_cost_is_no_amount_stops_every_call(cost: str, tmp_path: Path) -> None:
    """Otherwise no sum with it would exceed a cap, or every sum would."""
    a_batch(tmp_path, cost=0.5)
    (path,) = folder_in(tmp_path).glob("*.json")
    path.write_text(path.read_text().replace('"worst_cost": 0.5', f'"worst_cost": {cost}'))
    with (
        pytest.raises(StorageError, match="is not the file of a submitted batch"),
        meter(tmp_path, max_cost=1.0).alone(lambda said: None),
    ):
        pass


ODD_JOBS: list[Callable[[dict[str, Any]], Any]] = [
    lambda job: job | {"worst_cost": float("nan")},
    lambda job: job | {"worst_cost": "much"},
    lambda job: job | {"keys": 5},
    lambda job: [job],
]


@pytest.mark.parametrize("odd", ODD_JOBS)
def test_a_damaged_batch_file_is_refused(
    odd: Callable[[dict[str, Any]], Any], tmp_path: Path
) -> None:
    job = BatchJob(
        name="b", base_url="u", model="m", id=None, keys=("k",), account="a", worst_cost=1.0
    )
    save_job(tmp_path, job)
    assert jobs_with(tmp_path, ["k"]) == (job,)
    path = tmp_path / "b.json"
    path.write_text(json.dumps(odd(json.loads(path.read_text()))))
    with pytest.raises(StorageError, match="not the file of a submitted batch"):
        jobs_with(tmp_path, ["k"])
