"""Measures the time that DVC and Prefect add to a run: wall seconds, and CPU seconds with children.

    python -m benchmarks.overheads

The project has 140 invented letters, the method `maple` and the tiny encoder of the tests. The
project runs once before the measurement. Then each line shows one run. In some runs no stage is
stale. In other runs a new value of `evaluate.bootstrap` makes two stages stale. `flow` is
`python -m flows.pipeline`; its Prefect server (SQLite) is already running.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.integration.postgres import free_port
from tests.integration.project import Checkout, make_project


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--repeats", type=int, default=3)
    repeats = parser.parse_args().repeats
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        project = make_project(
            base / "project", base / "state", methods=["maple"], embedding__model="tiny"
        )
        project.repro()
        with _server(project, base) as api:
            runs = {
                "dvc repro": (["-m", "dvc", "repro", "--quiet"], {}),
                "flow": (["-m", "flows.pipeline"], api),
            }
            for number in range(repeats):
                for name, (command, variables) in runs.items():
                    _timed(project, f"{name}, nothing stale", command, variables)
                    project.change("evaluate", bootstrap=2 + 2 * number + (name == "flow"))
                    _timed(project, f"{name}, two stages stale", command, variables)


def _timed(project: Checkout, name: str, command: list[str], variables: dict[str, str]) -> None:
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    project.run(sys.executable, *command, variables=variables)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{name:30}{time.perf_counter() - start:8.1f} s{cpu:8.1f} CPU-s", flush=True)


@contextmanager
def _server(project: Checkout, base: Path) -> Iterator[dict[str, str]]:
    port = free_port()
    api = {"PREFECT_API_URL": f"http://127.0.0.1:{port}/api", "PREFECT_HOME": str(base / "prefect")}
    (base / "prefect").mkdir()
    command = ["-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    with (base / "server.log").open("wb") as log:
        server = subprocess.Popen(
            [sys.executable, *command],
            env=project.environment | api | {"PREFECT_SERVER_ANALYTICS_ENABLED": "false"},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        while True:
            try:
                httpx.get(f"{api['PREFECT_API_URL']}/health", trust_env=False, timeout=5)
                break
            except httpx.HTTPError:
                time.sleep(0.5)
        yield api
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
