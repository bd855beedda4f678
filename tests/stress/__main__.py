"""Disturb runs at random moments: `python -m tests.stress --kills 200`.

Prints a line for each fault: how often it happened, and how the runs after it ended. Any broken
promise ends the script with an error. The moments are random, and their seed is printed.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import psutil

from sugarbush.rehearsal.rehearse import require_good_rehearsal
from tests.integration.llm.server import KEY
from tests.integration.postgres import binaries, free_port
from tests.integration.prefect_service import Service, running_service
from tests.integration.project import TINY_ENCODER, Checkout
from tests.pipelines import opened, run_pipeline
from tests.settings import ROOT
from tests.stress.trial import Trial, copied, new_project, run_forked, start_forked

MOST_KILLS = 8  # of one project; then a run may finish
FLOW_TIMES = 25  # a flow imports everything in each stage: 28 to 70 times as long as a run here
FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1")
ENDPOINT = {
    "requests_per_minute": 1e6, "tokens_per_minute": 1e9, "model": "tiny", "max_retries": 2,
    "timeout_s": 10, "key_variable": "OPENAI_API_KEY",
}  # fmt: skip


HEAD = """\
| fault | tries | projects | finished by the same command | redrawn | charges without a result |
|---|---|---|---|---|---|"""


@dataclass
class Row:
    """One fault's line of the table."""

    fault: str
    tries: int = 0
    projects: int = 0
    lost: int = 0

    def add(self, trial: Trial) -> None:
        self.tries += trial.disturbed
        self.projects += 1
        self.lost += trial.check()
        print(".", end="", flush=True)

    def __str__(self) -> str:
        return f"| {self.fault} | {self.tries} | {self.projects} | all | 0 | {self.lost} |"


class Stress:
    """Every fault, with the folder, the random moments and an undisturbed project."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.random = folder, random.Random(seed)
        self.fresh = new_project(folder / "fresh")
        self.numbers = iter(range(10**6))
        self.open = contextlib.ExitStack()
        # In this process, so that the forked ones need not import anything.
        with contextlib.redirect_stdout(io.StringIO()):
            run_pipeline(copied(self.fresh, folder / "warm"))
        assert threading.active_count() == 1, "a fork would copy no other thread"
        started = time.monotonic()
        self.finished = copied(self.fresh, folder / "finished")
        assert run_forked(self.finished) == 0
        self.run_s = time.monotonic() - started
        print(f"an undisturbed run takes {self.run_s:.1f} s")

    def place(self) -> Path:
        return self.folder / f"trial-{next(self.numbers)}"

    def moment(self) -> float:
        return self.random.uniform(0, self.run_s)

    def any_moment(self) -> Callable[[], bool]:
        """Whether a random moment of a run, which starts now, is reached."""
        end = time.monotonic() + self.moment()
        return lambda: time.monotonic() >= end

    def after_a_charge(self, project: Checkout) -> Callable[[], bool]:
        """Whether one of the next charges has been on disk for some milliseconds. A random moment
        is rarely one of these, and here budget could be lost."""
        ledger = project.ledger.path
        size = _size(ledger) + self.random.randrange(1, 1200)
        delay, reached = self.random.uniform(0, 0.03), math.inf

        def passed() -> bool:
            nonlocal reached
            if reached == math.inf and _size(ledger) >= size:
                reached = time.monotonic() + delay
            return time.monotonic() >= reached

        return passed

    def stage(self, kills: int) -> Iterator[Row]:
        """kill -9 of the stages: of a first release, and of one that only restores results."""
        row = Row("stage, first release")
        while row.tries < kills // 2:
            trial = Trial(copied(self.fresh, self.place()))
            self._kill_until_finished(trial, near_charges=0.5)
            row.add(trial)
            shutil.rmtree(trial.project.path.parent)
        yield row
        row = Row("stage, restored release")
        released = files_of(self.finished)
        while row.tries < kills // 2:
            trial = Trial(copied(self.finished, self.place()))
            for name in ("data/released", "data/private", "reports"):
                shutil.rmtree(trial.project.path / name)
            before = trial.project.charges()
            self._kill_until_finished(trial)
            row.add(trial)
            assert trial.project.charges() == before
            assert files_of(trial.project) == released, "a restored release differs"
            shutil.rmtree(trial.project.path.parent)
        yield row

    def _kill_until_finished(self, trial: Trial, *, near_charges: float = 0) -> None:
        for _ in range(MOST_KILLS):
            near = self.random.random() < near_charges
            moment = self.after_a_charge(trial.project) if near else self.any_moment()
            code = run_forked(trial.project, kill_when=moment)
            if code is not None:
                assert code == 0, (trial.project.path / "run.log").read_text()[-3000:]
                return
            trial.disturb()
        finish(trial)

    def disk(self, kills: int) -> Iterator[Row]:
        """A small file system that is full at a random moment, and later has space again."""
        row = Row("full disk (tmpfs)")
        if os.geteuid() != 0:
            print("full disk: needs root for a small tmpfs; not run")
            return
        mounted = self.folder / "small"
        mounted.mkdir(exist_ok=True)
        while row.tries < kills:
            command = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(mounted)]
            subprocess.run(command, check=True)
            try:
                trial = Trial(copied(self.fresh, mounted / "trial"))
                filler = mounted / "filler"
                usage = shutil.disk_usage(mounted)
                space = self.random.randrange(0, 1_200_000)
                with filler.open("wb") as file:
                    file.write(bytes(max(0, usage.free - space)))
                if run_forked(trial.project) != 0:
                    trial.disturb()
                filler.unlink()
                finish(trial)
                row.add(trial)
            finally:
                subprocess.run(["umount", str(mounted)], check=True)
        yield row

    def llm(self, kills: int) -> Iterator[Row]:
        """kill -9 of the server of the language model, and no server at all."""
        row = Row("LLM server")
        while row.tries < kills:
            trial, server = self._with_server()
            with server:
                server.start()
                pid = start_forked(trial.project)
                time.sleep(self.moment())
                server.kill()
                time.sleep(self.random.uniform(0, 1))
                server.start()
                os.waitpid(pid, 0)
                trial.disturb()
                finish(trial)
            row.add(trial)
        yield row
        row = Row("no network")
        for _ in range(max(1, kills // 4)):
            trial, server = self._with_server()
            assert run_forked(trial.project) != 0
            trial.disturb()
            assert not trial.project.charges(), "charged although nobody answers"
            with server:
                server.start()
                finish(trial)
            row.add(trial)
        yield row

    def _with_server(self) -> tuple[Trial, LlmServer]:
        trial = Trial(copied(self.fresh, self.place()))
        server = LlmServer(trial.project.path / "port", free_port())
        trial.project.change(
            "generator",
            provider="openai",
            openai=ENDPOINT | {"base_url": f"http://127.0.0.1:{server.port}/v1"},
        )
        with (
            server
        ):  # its random words are poor first texts, and a run needs somebody to accept them
            server.start()
            with opened(trial.project) as project:
                require_good_rehearsal(project, accept=True)
        return trial, server

    def dask(self, kills: int) -> Iterator[Row]:
        """kill -9 of a Dask worker with its nanny, and of the scheduler with everything."""
        log = self.folder / "dask.log"
        for fault in ("Dask worker", "Dask scheduler"):
            row = Row(fault)
            with DaskCluster(free_port(), log) as cluster:
                length = 0.0
                while row.tries < kills:
                    trial = Trial(copied(self.fresh, self.place()))
                    trial.project.change("run", cluster=cluster.address)
                    if not length:
                        started = time.monotonic()
                        finish(Trial(copied(trial.project, self.place())))
                        length = time.monotonic() - started
                    pid = start_forked(trial.project)
                    time.sleep(self.random.uniform(0, length))
                    killed = ("worker 0",) if fault == "Dask worker" else tuple(cluster.commands)
                    cluster.kill(*killed)
                    time.sleep(self.random.uniform(0, 1))
                    cluster.start(*killed)
                    os.waitpid(pid, 0)
                    trial.disturb()
                    finish(trial)
                    row.add(trial)
            yield row

    def clock(self, kills: int) -> Iterator[Row]:
        """The clock goes back by up to 400 days at a random moment; then the run is killed."""
        row = Row("clock set back, and a kill")
        if not FAKETIME.exists():
            print("clock: needs Debian's package libfaketime; not run")
            return
        while row.tries < kills:
            trial = Trial(copied(self.fresh, self.place()))
            clock = trial.project.path / "clock"
            clock.write_text("+0")
            process = self._with_clock(trial.project, clock)
            time.sleep(self.random.uniform(2, 4) + self.moment())
            clock.write_text(f"-{self.random.randrange(1, 400)}d")
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(self.moment())
            process.kill()
            process.wait()
            trial.disturb()
            assert self._with_clock(trial.project, clock).wait() == 0
            row.add(trial)
        yield row

    def _with_clock(self, project: Checkout, clock: Path) -> subprocess.Popen[bytes]:
        code = (
            "import sys; from pathlib import Path; from tests.pipelines import *; "
            "run_pipeline(Checkout(Path(sys.argv[1]), Path(sys.argv[2])))"
        )
        faked = {
            "LD_PRELOAD": str(FAKETIME),
            "FAKETIME_TIMESTAMP_FILE": str(clock),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
        return subprocess.Popen(
            [sys.executable, "-c", code, str(project.path), str(project.state)],
            cwd=ROOT,
            env=os.environ | faked,
            stdout=(project.path / "run.log").open("ab"),
            stderr=subprocess.STDOUT,
        )

    @cached_property
    def service(self) -> Service:
        """The weekly service, which runs until the script ends."""
        home = self.folder / "prefect"
        home.mkdir()
        return self.open.enter_context(running_service(self.fresh, home))

    def prefect(self, kills: int, *, fault: str) -> Iterator[Row]:
        """kill -9 of the flow with its DVC and stages, of Prefect's server or of PostgreSQL."""
        if binaries() is None:
            print(f"{fault}: needs Debian's package postgresql; not run")
            return
        row, service = Row(fault), self.service
        while row.tries < kills:
            trial = Trial(self._clone())
            most = min(MOST_KILLS, kills - row.tries) if fault == "flow" else 1
            for _ in range(most):
                if not self._disturbed_flow(service, fault, trial):
                    break
            flow = start_flow(service, trial.project)
            assert flow.wait() == 0, (trial.project.path / "run.log").read_text()[-3000:]
            row.add(trial)
            shutil.rmtree(trial.project.path.parent)
        yield row

    def _clone(self) -> Checkout:
        place = self.place()
        path = shutil.copytree(self.fresh.path, place / "checkout", symlinks=True)
        return Checkout(path, place / "state")

    def _disturbed_flow(self, service: Service, fault: str, trial: Trial) -> bool:
        """Run the flow and disturb it. Returns whether it was disturbed before it ended."""
        flow = start_flow(service, trial.project)
        try:
            flow.wait(self.moment() * FLOW_TIMES)
        except subprocess.TimeoutExpired:
            pass
        else:
            assert flow.returncode == 0
            return False
        match fault:
            case "flow":
                flow.kill()
            case "Prefect server":
                service.stop("server", kill=True)
                service.start("server")
            case "PostgreSQL":
                service.postgres.kill()
                service.postgres.start()
        flow.wait()
        trial.disturb()
        return True


class DaskCluster:
    """A Dask scheduler and two workers on loopback, as processes that read this checkout's code."""

    def __init__(self, port: int, log: Path) -> None:
        self.address, self.log = f"tcp://127.0.0.1:{port}", log
        scheduler = ("scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard")
        worker = ("worker", self.address, "--nthreads", "1", "--no-dashboard")
        self.commands = {"scheduler": scheduler, "worker 0": worker, "worker 1": worker}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> DaskCluster:
        self.start(*self.commands)
        return self

    def __exit__(self, *_: object) -> None:
        self.kill(*self.commands)

    def start(self, *names: str) -> None:
        for name in names:
            with self.log.open("ab") as log:
                self.processes[name] = subprocess.Popen(
                    [sys.executable, "-m", "dask", *self.commands[name]],
                    cwd=ROOT,
                    env=os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{TINY_ENCODER}"},
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )

    def kill(self, *names: str) -> None:
        for name in names:
            process = self.processes.pop(name)
            for each in (*psutil.Process(process.pid).children(recursive=True), process):
                each.kill()
            process.wait()


class LlmServer:
    """An OpenAI-compatible server in a process of its own, at a fixed port."""

    def __init__(self, file: Path, port: int) -> None:
        self.file, self.port = file, port
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> LlmServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        self.file.unlink(missing_ok=True)
        module = "tests.integration.llm.server"
        command = [sys.executable, "-m", module, str(self.file), "0.02", "0", str(self.port)]
        self.process = subprocess.Popen(command, cwd=ROOT)
        while not self.file.exists():
            time.sleep(0.01)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def finish(trial: Trial) -> None:
    """The same command again; it must succeed."""
    code = run_forked(trial.project)
    assert code == 0, (trial.project.path / "run.log").read_text()[-3000:]


def files_of(project: Checkout) -> dict[str, bytes]:
    """Everything that was released."""
    root = project.path / "data/released"
    return {str(f.relative_to(root)): f.read_bytes() for f in root.rglob("*") if f.is_file()}


def start_flow(service: Service, project: Checkout) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "flows.pipeline"],
        cwd=project.path,
        env=service.environment | project.environment,
        stdout=(project.path / "run.log").open("ab"),
        stderr=subprocess.STDOUT,
    )


FAULTS = {
    "stage": Stress.stage,
    "disk": Stress.disk,
    "llm": Stress.llm,
    "dask": Stress.dask,
    "clock": Stress.clock,
    "flow": partial(Stress.prefect, fault="flow"),
    "server": partial(Stress.prefect, fault="Prefect server"),
    "database": partial(Stress.prefect, fault="PostgreSQL"),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.stress", description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="of the stages")
    parser.add_argument("--others", type=int, default=10, help="of each other fault")
    parser.add_argument("--only", nargs="*", choices=FAULTS, default=list(FAULTS))
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # so that servers end too
    os.environ |= {"OPENAI_API_KEY": KEY, "NO_PROXY": "127.0.0.1"}
    print(f"seed {options.seed}")
    with tempfile.TemporaryDirectory(prefix="stress-") as folder:
        stress = Stress(Path(folder), options.seed)
        print(HEAD)
        with stress.open:
            for name in options.only:
                kills = options.kills if name == "stage" else options.others
                for row in FAULTS[name](stress, kills):
                    print(f"\n{row}", flush=True)


if __name__ == "__main__":
    main()
