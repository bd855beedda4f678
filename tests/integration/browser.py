"""Controls a headless Chromium by its DevTools protocol, to load, use and read a page."""

from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
)
_START_TIMEOUT_S = 600
_ANSWER_TIMEOUT_S = 600


def chromium() -> str | None:
    """Return the path of Chromium or Chrome, or None if neither is installed."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chrome")


class Page:
    """One tab. `problems` contains all console errors, exceptions and refused requests so far."""

    def __init__(self, connection: ClientConnection, session: str) -> None:
        self._connection, self._session = connection, session
        self._numbers = itertools.count(100)
        self.problems: list[str] = []
        self.requests: list[str] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params, "sessionId": self._session}
        self._connection.send(json.dumps(message))
        while True:
            answer = self._next()
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]

    def load(self, path: Path) -> None:
        self.call("Page.navigate", url=path.absolute().as_uri())
        while self.evaluate("document.readyState") != "complete":
            time.sleep(0.05)

    def evaluate(self, expression: str) -> Any:
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, key: str, *, text: str = "") -> None:
        codes = {"Tab": 9, "Enter": 13, "Escape": 27, "PageUp": 33, "PageDown": 34, "End": 35}
        codes |= {"Home": 36, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
        codes |= {"Space": 32}
        code = codes.get(key, ord(key.upper()) if len(key) == 1 else 0)
        fields = {
            "key": text if key == "Space" else key,
            "code": key,
            "windowsVirtualKeyCode": code,
        }
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **fields)
        self.call("Input.dispatchKeyEvent", type="keyUp", **fields)

    def view(self, *, width: int, dark: bool = False, mobile: bool = False) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1,
            mobile=mobile,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def screenshot(self, path: Path) -> None:
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(shot["data"]))

    def _next(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self._connection.recv(timeout=_ANSWER_TIMEOUT_S))
        params = answer.get("params", {})
        match answer.get("method"):
            case "Runtime.exceptionThrown":
                self.problems.append(json.dumps(params["exceptionDetails"]))
            case "Log.entryAdded":
                self.problems.append(json.dumps(params["entry"]))
            case "Runtime.consoleAPICalled" if params["type"] in {"error", "warning", "assert"}:
                self.problems.append(json.dumps(params["args"]))
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])
        return answer


@contextmanager
def open_page(profile: Path) -> Iterator[Page]:
    """Start a browser with the empty profile folder `profile`, and open a tab."""
    executable = chromium()
    assert executable is not None
    process = subprocess.Popen(
        [executable, *_FLAGS, f"--user-data-dir={profile}", "about:blank"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={k: v for k, v in os.environ.items() if k != "DBUS_SESSION_BUS_ADDRESS"},
        start_new_session=True,
    )
    try:
        address = _address(profile / "DevToolsActivePort", process)
        with connect(address, max_size=2**28, open_timeout=_START_TIMEOUT_S) as connection:
            target = _first(connection, "Target.createTarget", url="about:blank")["targetId"]
            attached = _first(connection, "Target.attachToTarget", targetId=target, flatten=True)
            yield Page(connection, attached["sessionId"])
    finally:
        process.terminate()
        process.wait(timeout=20)


def _address(path: Path, process: subprocess.Popen[bytes]) -> str:
    deadline = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        if path.exists() and len(lines := path.read_text().splitlines()) >= 2:
            return f"ws://127.0.0.1:{lines[0]}{lines[1]}"
        time.sleep(0.05)
    raise RuntimeError("chromium did not start")


def _first(connection: ClientConnection, method: str, **params: Any) -> dict[str, Any]:
    connection.send(json.dumps({"id": 1, "method": method, "params": params}))
    while True:
        answer = json.loads(connection.recv(timeout=_ANSWER_TIMEOUT_S))
        if answer.get("id") == 1:
            result: dict[str, Any] = answer["result"]
            return result
