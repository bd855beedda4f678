"""Serves the page for labelling texts to this machine alone.

The server listens on 127.0.0.1. Every request needs the random token of this start in its path, and
the Host header of this server. So no other web page and no other user of the machine can read a
text. The page loads nothing from other servers.
"""

from __future__ import annotations

import hmac
import json
import os
import sys
import tempfile
import webbrowser
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any

from filelock import FileLock, Timeout

from sugarbush.errors import ParamsError, SugarbushError
from sugarbush.training.redactor.labels import LabelFile
from sugarbush.training.redactor.values import SECRET_KINDS

_LONGEST = 8 * 2**20  # largest size of a request, in bytes
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; img-src data:; script-src 'self'; "
    "style-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_FILES = {"": ("page.html", "text/html"), "page.js": ("page.js", "text/javascript")}


class LabelServer(ThreadingHTTPServer):
    """Serves one file of labels until the page sends `stop`.

    Raises ParamsError if another server has this file, because each would overwrite the labels of
    the other.
    """

    daemon_threads = True

    def __init__(self, labels: LabelFile, *, port: int = 0) -> None:
        self._file_lock = FileLock(labels.path.with_name(f".{labels.path.name}.lock"), timeout=0)
        try:
            self._file_lock.acquire()
        except Timeout:
            raise ParamsError(
                f"{labels.path}: is open in another label page. Press Finish on that page"
            ) from None
        super().__init__(("127.0.0.1", port), _Handler)
        self.labels, self.lock = labels, Lock()
        self.token = os.urandom(24).hex()
        self._redirect: Path | None = None

    @property
    def url(self) -> str:
        """The address of the page, with the token."""
        return f"http://127.0.0.1:{self.server_port}/{self.token}/"

    def open_in_browser(self) -> None:
        """Open the page in a browser.

        All users of the machine can read the browser's command line. So the command line contains
        the path of a file instead of the token. Only the owner can read the file. The first request
        of the page deletes the file.
        """
        folder = self.labels.path.parent.absolute()
        descriptor, name = tempfile.mkstemp(prefix="open-", suffix=".html", dir=folder)
        with os.fdopen(descriptor, "w") as file:
            file.write(f'<meta http-equiv="refresh" content="0; url={self.url}">')
        self._redirect = Path(name)
        webbrowser.open(self._redirect.as_uri())

    def forget_redirect(self) -> None:
        if self._redirect is not None:
            self._redirect.unlink(missing_ok=True)

    def server_close(self) -> None:
        super().server_close()
        self.forget_redirect()
        self._file_lock.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print the type of an error alone, because its message may contain a text.

        A connection that the browser closes too early is not an error.
        """
        if not isinstance(error := sys.exc_info()[1], ConnectionError):
            print(f"label page: {type(error).__name__}", file=sys.stderr)


class _Handler(BaseHTTPRequestHandler):
    server: LabelServer
    timeout = 60  # seconds; then an unfinished request is closed
    server_version, sys_version = "sugarbush", ""

    def do_GET(self) -> None:
        path = self._allowed()
        if path in _FILES:
            self.server.forget_redirect()
            name, kind = _FILES[path]
            self._answer((Path(__file__).parent / name).read_bytes(), kind=kind)
        elif path is not None and path.startswith("texts/"):
            self._guarded(lambda: self.server.labels.page_entry(self._number(path)))
        elif path is not None:
            self._refuse(HTTPStatus.NOT_FOUND)

    def do_POST(self) -> None:
        path = self._allowed()
        if path is None:
            return
        length = self.headers.get("Content-Length", "0")
        size = int(length) if length.isdecimal() and len(length) < 10 else _LONGEST + 1
        if self.headers.get("Content-Type") != "application/json" or size > _LONGEST:
            self._refuse(HTTPStatus.BAD_REQUEST)
        elif path == "stop":
            self._answer(b"{}")
            self.server.shutdown()
        elif path.startswith("texts/"):
            body = self.rfile.read(size)
            self._guarded(lambda: self._label(self._number(path), body))
        else:
            self._refuse(HTTPStatus.NOT_FOUND)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing, because a path contains the token."""

    def _allowed(self) -> str | None:
        """Return the path after the token, or None after refusing a wrong token, host or origin."""
        address = f"127.0.0.1:{self.server.server_port}"
        _, token, *rest = self.path.split("/", 2) if self.path.count("/") > 1 else ("", "")
        right = (
            self.headers.get("Host") == address
            and self.headers.get("Origin", f"http://{address}") == f"http://{address}"
            and hmac.compare_digest(token.encode(), self.server.token.encode())
        )
        if not right:
            self._refuse(HTTPStatus.FORBIDDEN)
            return None
        return rest[0] if rest else ""

    def _number(self, path: str) -> int:
        number = path.removeprefix("texts/")
        if not number.isdecimal() or int(number) >= len(self.server.labels.texts):
            raise ValueError("no such text")
        return int(number)

    def _label(self, number: int, body: bytes) -> dict[str, Any]:
        self.server.labels.label(number, json.loads(body)["spans"])
        return {"done": len(self.server.labels.spans)}

    def _guarded(self, work: Any) -> None:
        try:
            with self.server.lock:
                answer = {**work(), "kinds": SECRET_KINDS}
        except (SugarbushError, ValueError, KeyError, TypeError, RecursionError) as error:
            message = str(error) if isinstance(error, SugarbushError) else "not understood"
            self._answer(json.dumps({"error": message}).encode(), status=HTTPStatus.BAD_REQUEST)
            return
        self._answer(json.dumps(answer).encode())

    def _refuse(self, status: HTTPStatus) -> None:
        self._answer(b"{}", status=status)

    def _answer(
        self, body: bytes, *, kind: str = "application/json", status: HTTPStatus = HTTPStatus.OK
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
