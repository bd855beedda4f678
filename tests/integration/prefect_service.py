"""A Prefect server on PostgreSQL, a worker and the weekly deployment of a project, as processes."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import httpx
import psutil

from tests.integration.postgres import Postgres, free_port, running_postgres
from tests.integration.project import Checkout

PREFECT = (sys.executable, "-m", "prefect")


@dataclass
class Service:
    """The processes by name (`server`, `worker`), each of which may be killed and started."""

    project: Checkout
    postgres: Postgres
    home: Path
    port: int
    variables: dict[str, str] = field(default_factory=dict)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def api(self) -> str:
        return f"http://127.0.0.1:{self.port}/api"

    @property
    def environment(self) -> dict[str, str]:
        return self.project.environment | {
            "PREFECT_API_URL": self.api,
            "PREFECT_HOME": str(self.home),
            "PREFECT_SERVER_DATABASE_CONNECTION_URL": self.postgres.url,
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            # In memory, a restart would keep the slot of a run for ever.
            "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": (
                "prefect.server.concurrency.lease_storage.filesystem"
            ),
            "SUGARBUSH_PROJECT": str(self.project.path),
            **self.variables,
        }

    def start(self, name: str) -> None:
        """Start the server, and wait until it answers, or the worker."""
        arguments = {
            "server": ("server", "start", "--host", "127.0.0.1", "--port", str(self.port)),
            "worker": ("worker", "start", "--pool", "sugarbush", "--type", "process"),
        }
        with (self.home / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [*PREFECT, *arguments[name]],
                cwd=self.project.path,
                env=self.environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        if name == "server":
            self._wait_for_server()

    def stop(self, name: str, *, kill: bool = False) -> None:
        """Stop a process; kill -9 it with its children, if so asked or if it does not stop."""
        process = self.processes.pop(name)
        if not kill:
            process.terminate()
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:  # Prefect's worker hangs after a cancelled run
                kill = True
        if kill:
            for each in (*psutil.Process(process.pid).children(recursive=True), process):
                each.kill()
        process.wait()

    def prefect(self, *arguments: str) -> str:
        """Run a command of Prefect in the project; its output."""
        finished = self.project.run(*PREFECT, *arguments, variables=self.environment)
        return finished.stdout + finished.stderr

    def _wait_for_server(self) -> None:
        while True:
            assert self.processes["server"].poll() is None, (self.home / "server.log").read_text()
            try:
                if httpx.get(f"{self.api}/health", timeout=5, trust_env=False).is_success:
                    return
            except httpx.HTTPError:
                pass
            time.sleep(0.2)


@contextmanager
def running_service(project: Checkout, home: Path, **variables: str) -> Iterator[Service]:
    """Everything that a weekly release needs, deployed as docs/operations.md says."""
    with ExitStack() as stack:
        service = Service(
            project, stack.enter_context(running_postgres()), home, free_port(), variables
        )
        try:
            service.start("server")
            service.start("worker")
            service.prefect("--no-prompt", "work-pool", "create", "--type", "process", "sugarbush")
            service.prefect("--no-prompt", "deploy", "--all")
            yield service
        finally:
            for name in reversed(list(service.processes)):
                service.stop(name)


@contextmanager
def webhook() -> Iterator[tuple[str, list[str]]]:
    """The address of a server on loopback, and the bodies that it got."""
    got: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(self.rfile.read(int(self.headers["content-length"])).decode())
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", got
    finally:
        server.shutdown()
        server.server_close()
