"""Tests that a killed and restarted sweep keeps its finished points and its drawn results."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
import yaml
from prefect.settings import get_current_settings

from sugarbush.pipeline.artifacts import Artifacts
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.unit import Unit
from tests.integration.project import LOOK, Checkout, make_project

pytestmark = [
    pytest.mark.xdist_group("flow"),  # these tests share one Prefect server
    pytest.mark.slow,
    pytest.mark.filterwarnings("default"),
]
COMMAND = (sys.executable, "-m", "research.sweep", "sweep.yaml", "--jobs", "1")
SWEEP = {
    "kind": "pipelines",
    "sets": {"letters": {"file": "set.yaml"}},
    "epsilons": [1.0],
    "seeds": [1],
    "settings": {"evaluate": {"bootstrap": 2}},
    "evolution": {"candidates": 16, "rounds": 1, "variations": 2},
    "arms": {
        "full": {"method": "maple"},
        "weak": {
            "method": "maple",
            "settings": {"synthesize_metadata": {"attributes": ["product"]}},
        },
    },
}


@pytest.fixture
def project(tmp_path: Path) -> Checkout:
    made = make_project(tmp_path / "checkout", tmp_path / "state", embedding__model="tiny")
    public = {"privacy": {"purpose": "benchmark", "dataset": "letters"}}
    (made.path / "set.yaml").write_text(yaml.safe_dump(public))
    (made.path / "sweep.yaml").write_text(yaml.safe_dump(SWEEP))
    return made


def ledger(project: Checkout, purpose: str) -> Ledger:
    return Ledger(
        project.state, dataset="letters", purpose=purpose, unit=Unit.RECORD, cap=50.0, delta=1e-6
    )


def variables(project: Checkout) -> dict[str, str]:
    """Return environment variables with which stages run in DVC's process, and flows use the
    running Prefect server.
    """
    address = get_current_settings().api.url
    assert address is not None
    return project.environment | project.one_process | {"PREFECT_API_URL": address}


def killed_after(project: Checkout, charges: int) -> None:
    """Run the sweep, and kill all its processes as soon as the ledger has `charges` entries."""
    with subprocess.Popen(
        COMMAND, cwd=project.path, env=variables(project), start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        try:
            while len(ledger(project, "benchmark").entries()) < charges:
                assert process.poll() is None, "the sweep ended before it was killed"
                time.sleep(0.05)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.usefixtures("prefect_database")
def test_a_killed_sweep_resumes(project: Checkout) -> None:
    """Each method of the sweep charges its look, its table and its votes once.

    Only if the process is killed between a charge and its result, this charge is made again.
    """
    # The next charge is the first one of the second method, so the first method is finished.
    killed_after(project, len(LOOK) + 3)
    before = ledger(project, "benchmark").entries()
    sweep = project.path / "data/private/sweeps/sweep/letters"
    first = sweep / "full-epsilon-1-seed-1/reports/internal/figures.csv"
    finished = first.stat().st_mtime_ns
    project.run(*COMMAND, **variables(project))
    after = ledger(project, "benchmark").entries()
    assert after[: len(before)] == before
    # If the kill prevented the result of a charge, the draw is charged again.
    assert [e.stage for e in after[len(before) :]][-1] == "evolve@maple"
    assert len(after) - len(before) <= len(LOOK) + 2
    assert first.stat().st_mtime_ns == finished

    reports = project.path / "reports/internal/sweeps/sweep"
    table = pd.read_csv(reports / "table.csv")
    assert set(table["arm"]) == {"full", "weak", "real"}
    assert (table["texts"] == 8).all()
    drawn = table[table["arm"] != "real"]
    assert (drawn["mauve_low"] <= drawn["mauve"]).all()
    assert (drawn["calls"] == 16).all()  # 8 first candidates, and one variation of each
    assert "weak, ε 1" in (reports / "index.html").read_text(encoding="utf-8")
    assert {"product", "wish"} <= set(pd.read_csv(reports / "figures.csv")["metric"])

    weak = Artifacts(sweep / "weak-epsilon-1-seed-1")
    rows = weak.metadata().rows
    assert rows is not None
    assert rows["product"].notna().all()
    assert rows["wish"].isna().all()
    assert weak.initial("maple").candidates["wish"].isna().all()

    assert not ledger(project, "release").entries()
    for folder in ("full", "weak"):
        point = Artifacts(sweep / f"{folder}-epsilon-1-seed-1")
        assert point.lineage("maple").note.publishable is False
        assert not point.roots.published.exists()
    for closed in ("reports/internal", "data/private"):
        assert (project.path / closed).stat().st_mode & 0o077 == 0
