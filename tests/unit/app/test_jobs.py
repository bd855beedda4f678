"""The state of a job follows from the exit code of its command."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sugarbush.app.jobs import Job, JobState
from sugarbush.errors import PoorReleaseError, RefusedReleaseError
from sugarbush.pipeline import run_with_parent


@pytest.mark.parametrize(
    ("code", "state"),
    [
        (0, JobState.FINISHED),
        (1, JobState.FAILED),
        (PoorReleaseError.exit_code, JobState.POOR),
        (RefusedReleaseError.exit_code, JobState.REFUSED),
    ],
)
def test_a_job_ends_in_the_state_of_its_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, state: JobState
) -> None:
    exits = [sys.executable, "-c", f"raise SystemExit({code})"]
    monkeypatch.setattr(run_with_parent, "command", lambda *_: exits)
    job = Job(tmp_path, [["run"], ["never"]] if code else [["run"]], step="run", charges=lambda: "")
    job.join()
    assert job.state is state
    assert job.lines == ["$ sugarbush run"]
