"""One project that is disturbed again and again until a run finishes, and what must be true then.

Whatever happened in between: a result that was complete on disk is never drawn again, every result
names its own charges, and a charge without a result belongs to a run that was disturbed.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.integration.project import LOOK, SMALL_EVOLUTION, Checkout, make_project
from tests.pipelines import run_pipeline

ROUNDS = 3
DRAWS = len(LOOK) + 1 + ROUNDS  # the table is one


@dataclass
class Trial:
    """A project under one fault, and what was complete on disk at each disturbance."""

    project: Checkout
    disturbed: int = 0
    seen: dict[str, str] = field(default_factory=dict)

    def results(self) -> dict[str, str]:
        """The digest of every file of a complete result."""
        files = (self.project.state / "draws").rglob("generation-*/[!.]*/*")
        return {str(f): _digest(f) for f in files if not f.parent.name.endswith(".old")}

    def ledger_ids(self) -> list[str]:
        """The charges that results name."""
        files = (self.project.state / "draws").rglob("generation-*/[!.]*/ledger_ids.json")
        return [str(i) for file in files for i in json.loads(file.read_text())]

    def disturb(self) -> None:
        """Note what is complete after a disturbance."""
        self.disturbed += 1
        self.compare()
        self.seen |= self.results()

    def compare(self) -> None:
        now = self.results()
        changed = [name for name, digest in self.seen.items() if now.get(name) != digest]
        assert not changed, f"drawn or written again: {changed}"

    def check(self) -> int:
        """Check everything after the run that finished; how many charges have no result."""
        self.compare()
        charged = [entry.id for entry in self.project.charges()]
        named = self.ledger_ids()
        assert len(set(charged)) == len(charged), "a charge is twice in the ledger"
        assert len(set(named)) == len(named) == DRAWS, "a draw is missing or has no own charge"
        assert set(named) <= set(charged), "a result was not charged"
        lost = len(charged) - len(named)
        assert lost <= self.disturbed, "a run that nobody disturbed charged twice"
        left = list(self.project.path.glob("data/released/**/.*"))
        assert not left, left
        metadata = self.project.path / "data/released/metadata/rows.parquet"
        (drawn,) = (self.project.state / "draws").rglob("generation-*/metadata/rows.parquet")
        assert _digest(metadata) == _digest(drawn), "the released metadata are not the drawn ones"
        assert (self.project.path / "reports/public/release_card.md").exists()
        return lost


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def new_project(folder: Path, **changes: Any) -> Checkout:
    """A small project of `maple` with several rounds of votes."""
    made = make_project(
        folder / "checkout", folder / "state", records=60,
        methods=["maple"], embedding__model="tiny", prepare__id_column="id", **changes,
    )  # fmt: skip
    made.change("methods.maple", **SMALL_EVOLUTION | {"rounds": ROUNDS})
    made.git("commit", "--quiet", "--all", "--message=rounds")
    return made


def copied(source: Checkout, folder: Path) -> Checkout:
    """A copy of a project without its code, which a run in this process does not read."""
    shutil.rmtree(folder, ignore_errors=True)
    skipped = shutil.ignore_patterns(".git", ".dvc", "sugarbush", "tasks", "flows", "research")
    path = shutil.copytree(source.path, folder / "checkout", ignore=skipped)
    if source.state.exists():
        shutil.copytree(source.state, folder / "state")
    return Checkout(path, folder / "state")


def start_forked(project: Checkout) -> int:
    """Start every stage in a copy of this process; its pid."""
    log = project.path / "run.log"
    pid = os.fork()
    if pid == 0:
        _child(project, log)
    return pid


def run_forked(project: Checkout, *, kill_when: Callable[[], bool] = lambda: False) -> int | None:
    """The exit code of every stage in a copy of this process, or None where it was killed."""
    pid = start_forked(project)
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if kill_when():
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return None
        time.sleep(0.001)


def _child(project: Checkout, log: Path) -> None:
    code = 1
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        with log.open("ab", buffering=0) as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        run_pipeline(project)
        code = 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)
