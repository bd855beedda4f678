"""Runs commands of `sugarbush` in a child process, one job at a time, and shows what they print.

A page that is loaded again shows the same job, because the server has its output. The output is
the operator's terminal. It may contain exact counts, so it stays in this process's memory.
"""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path

from sugarbush.errors import FailureError, PoorReleaseError, RefusedReleaseError, printable
from sugarbush.pipeline import run_with_parent
from sugarbush.progress import read_line

_MOST_LINES = 2000
_STAGE = re.compile(r"stage (\d+) of (\d+)  .*")
_WIDTH = "88"  # characters of a line of tables


class BusyError(FailureError):
    """Raised while another job runs."""


class JobState(StrEnum):
    """How far a job is."""

    RUNNING = "running"
    FINISHED = "finished"
    POOR = "poor"  # finished with a release that is poor
    REFUSED = "refused"  # finished with a release that breaks a rule of release.accept_if
    FAILED = "failed"
    STOPPED = "stopped"


class Job:
    """Commands that run one after the other, until one fails. `step` is the page that started it.

    `charges` returns a sentence about what was charged since the start of the job.
    """

    def __init__(
        self,
        base: Path,
        commands: Sequence[Sequence[str]],
        *,
        step: str,
        charges: Callable[[], str],
    ) -> None:
        self.step, self.title = step, commands[0][0]
        self.charges = charges
        self.state = JobState.RUNNING
        self.done, self.total = 0, 0
        self._lines: deque[str] = deque(maxlen=_MOST_LINES)
        self._base, self._commands = base, commands
        self._process: subprocess.Popen[str] | None = None
        self._stopped = False
        self._lock = threading.Lock()
        # The kernel ends the child with the thread that started it, so this thread waits for it.
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def lines(self) -> list[str]:
        """The last lines that the commands printed."""
        with self._lock:
            return list(self._lines)

    def stop(self) -> None:
        """End the process and its children. Finished results and charges stay."""
        with self._lock:
            if self.state is not JobState.RUNNING:
                return
            self._stopped = True
            process = self._process
        if process is not None:
            run_with_parent.end_with_children(process.pid)
        self._thread.join(timeout=30)

    def join(self) -> None:
        """Wait until the job has ended."""
        self._thread.join()

    def _run(self) -> None:
        code = 1
        try:
            for command in self._commands:
                if (code := self._run_command(command)) != 0:
                    break
        finally:
            ended = {
                0: JobState.FINISHED,
                PoorReleaseError.exit_code: JobState.POOR,
                RefusedReleaseError.exit_code: JobState.REFUSED,
            }
            with self._lock:
                self.state = JobState.STOPPED if self._stopped else ended.get(code, JobState.FAILED)

    def _run_command(self, command: Sequence[str]) -> int:
        """Run a command, and return its exit code."""
        self._hear(f"$ sugarbush {' '.join(command)}")
        with self._lock:
            if self._stopped:
                return 1
            self._process = subprocess.Popen(
                run_with_parent.command("sugarbush", *command),
                cwd=self._base,
                env=os.environ | {"PYTHONUNBUFFERED": "1", "COLUMNS": _WIDTH},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            )
        with self._process as process:
            assert process.stdout is not None
            for line in process.stdout:
                self._hear(line.rstrip())
        return process.returncode

    def _hear(self, line: str) -> None:
        with self._lock:
            if match := _STAGE.fullmatch(line):
                self.done, self.total = int(match[1]) - 1, int(match[2])
            previous = read_line(self._lines[-1]) if self._lines else None
            step = read_line(line)
            if step is not None and previous is not None and step[0] == previous[0]:
                self._lines.pop()  # a later line of the same step
            self._lines.append(printable(line))


class Jobs:
    """The last job of a server."""

    def __init__(self) -> None:
        self.last: Job | None = None
        self._lock = threading.Lock()

    @property
    def is_running(self) -> bool:
        return self.last is not None and self.last.state is JobState.RUNNING

    def require_none(self) -> None:
        """Raise BusyError while a job runs, because the job reads the settings."""
        if self.last is not None and self.is_running:
            raise BusyError(
                f"`sugarbush {self.last.title}` has not ended. Wait, or stop it on the page "
                f"{self.last.step}. Nothing was changed or started"
            )

    def start(
        self,
        base: Path,
        commands: Sequence[Sequence[str]],
        *,
        step: str,
        charges: Callable[[], str] = lambda: "",
    ) -> None:
        """Start a job. Raises BusyError while another one runs."""
        with self._lock:
            self.require_none()
            self.last = Job(base, commands, step=step, charges=charges)

    def stop(self) -> None:
        """Stop the job that runs, if there is one."""
        if self.last is not None:
            self.last.stop()
