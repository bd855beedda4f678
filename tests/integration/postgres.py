"""A private PostgreSQL server on loopback, from Debian's package `postgresql`.

As root it runs as an unprivileged user, as PostgreSQL demands. `.ci/run` installs the
package where it is missing.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


def binaries() -> Path | None:
    """The folder of initdb and postgres, or None. Debian has them outside the PATH."""
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((each for each in folders if (each / "postgres").exists()), None)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Postgres:
    """A cluster with the database `postgres` and the user `prefect`, who has no password."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        """As Prefect's setting PREFECT_SERVER_DATABASE_CONNECTION_URL."""
        return f"postgresql+asyncpg://prefect@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Start the server and wait until it accepts connections, also after a kill."""
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *(_tool("postgres"), "-D", str(self.folder / "data"), "-h", "127.0.0.1"),
                    *("-p", str(self.port), "-k", "", "-c", "max_connections=200"),
                ],
                stdout=subprocess.DEVNULL,
                stderr=log,
                **_unprivileged(),
            )
        probe = [_tool("pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        while subprocess.run(probe, check=False).returncode != 0:
            assert self.process.poll() is None, (self.folder / "log").read_text()
            time.sleep(0.1)

    def kill(self) -> None:
        """kill -9 of every process of the server."""
        assert self.process is not None
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        for pid in (self.process.pid, *map(int, children.split())):
            os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def dump(self) -> str:
        """The whole database as text."""
        command = [_tool("pg_dump"), f"postgresql://prefect@127.0.0.1:{self.port}/postgres"]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@contextmanager
def running_postgres() -> Iterator[Postgres]:
    """A new cluster that is deleted afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, _account())
        subprocess.run(
            [_tool("initdb"), "-D", str(folder / "data"), "-U", "prefect", "--no-sync"],
            check=True, capture_output=True, cwd=folder, **_unprivileged(),
        )  # fmt: skip
        server = Postgres(folder, free_port())
        server.start()
        try:
            yield server
        finally:
            if server.process is not None and server.process.poll() is None:
                server.process.send_signal(signal.SIGINT)
                server.process.wait(timeout=60)
    finally:
        shutil.rmtree(folder)


def _tool(name: str) -> str:
    folder = binaries()
    assert folder is not None
    return str(folder / name)


def _account() -> str:
    known = {user.pw_name for user in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"


def _unprivileged() -> dict[str, Any]:
    """Arguments of subprocess for another user, where this one is root."""
    if os.geteuid() != 0:
        return {}
    user = pwd.getpwnam(_account())
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
