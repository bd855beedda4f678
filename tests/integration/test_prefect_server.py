"""A Prefect server that is started in a project sends nothing, and its pages work on every port."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from sugarbush.project.template import project_files
from tests.integration.browser import chromium, open_page
from tests.integration.postgres import free_port

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]

# Notes each name of another machine that the process looks up, and finds none.
_NO_NETWORK = """
import os, socket

_real = socket.getaddrinfo

def getaddrinfo(host, *arguments, **named):
    text = host.decode() if isinstance(host, bytes) else host
    if text not in (None, "", "localhost", "127.0.0.1", "::1", "0.0.0.0"):
        with open(os.environ["LOOKED_UP"], "a") as file:
            file.write(f"{text}\\n")
        raise socket.gaierror("no network here")
    return _real(host, *arguments, **named)

socket.getaddrinfo = getaddrinfo
"""
_QUIET = ("DO_NOT_TRACK", "CI", "PREFECT_", "PYTHON")


@dataclass(frozen=True)
class Server:
    address: str
    looked_up: Path


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server as docs/operations.md starts it, on another port, after an earlier `export` of the
    usual address."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "prefect.toml").write_text(project_files()["prefect.toml"])
    (folder / "sitecustomize.py").write_text(_NO_NETWORK)
    looked_up, port = folder / "looked_up", free_port()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_QUIET)}
    own = {
        "PREFECT_HOME": str(folder / "home"),
        "PREFECT_API_URL": "http://127.0.0.1:4200/api",
        "PYTHONPATH": str(folder),
        "LOOKED_UP": str(looked_up),
    }
    command = [sys.executable, "-m", "prefect", "server", "start", "--port", str(port)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=kept | own, stdout=log, stderr=subprocess.STDOUT
        )
    try:
        address = f"http://127.0.0.1:{port}"
        while True:
            assert process.poll() is None, (folder / "log").read_text()
            try:
                if httpx.get(f"{address}/api/health", timeout=5, trust_env=False).is_success:
                    break
            except httpx.HTTPError:
                pass
            time.sleep(0.2)
        yield Server(address, looked_up)
    finally:
        process.terminate()
        process.wait(timeout=60)


def test_the_server_looks_up_no_other_machine(server: Server) -> None:
    settings = httpx.get(f"{server.address}/api/admin/settings", trust_env=False, timeout=60).json()
    assert settings["server"]["analytics_enabled"] is False
    time.sleep(3)  # the services have started, and send their first message at once
    assert not server.looked_up.exists(), server.looked_up.read_text()


def test_the_pages_ask_the_server_that_sent_them(server: Server) -> None:
    settings = httpx.get(f"{server.address}/ui-settings", trust_env=False, timeout=60).json()
    assert settings["api_url"] == "/api"


@pytest.mark.skipif(
    chromium() is None, reason="no chromium on this machine (Debian: apt-get install chromium)"
)
def test_a_page_loads_on_another_port(server: Server, tmp_path: Path) -> None:
    with open_page(tmp_path / "profile") as page:
        page.call("Page.navigate", url=f"{server.address}/runs")
        for _ in range(600):
            if any("/api/flow_runs" in url for url in page.requests):
                break
            page.evaluate("document.title")
            time.sleep(0.2)
        asked = [url for url in page.requests if "/api/" in url]
        assert asked
        assert all(url.startswith(server.address) for url in asked), asked
        assert not [text for text in page.problems if "ERR_CONNECTION_REFUSED" in text]
