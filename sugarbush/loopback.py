"""Serves pages with private content to the user of this machine alone.

The server listens on 127.0.0.1. Every request needs the random token of this start in its path, and
the Host header of this server. A request that changes something also needs the Origin header of
this server, which every browser sends. So no other web page and no other user of the machine can
read or change anything. The pages load nothing from other servers.
"""

from __future__ import annotations

import hmac
import os
import sys
import tempfile
import webbrowser
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar

_LONGEST = 8 * 2**20  # largest size of a request, in bytes
_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",  # with no-referrer, a form would send `Origin: null`
    "X-Content-Type-Options": "nosniff",
}


class LoopbackServer(ThreadingHTTPServer):
    """Serves pages on this machine until `shutdown`. `lock` is for the handlers.

    `name` is the name of the page in messages. `folder` receives the file that opens the page.
    """

    daemon_threads = True
    name: ClassVar[str]

    def __init__(self, handler: type[LoopbackHandler], *, folder: Path, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), handler)
        self.lock = Lock()
        self.token = os.urandom(24).hex()
        self._folder = folder
        self._redirect: Path | None = None

    @property
    def address(self) -> str:
        """The Host header of a request to this server."""
        return f"127.0.0.1:{self.server_port}"

    @property
    def url(self) -> str:
        """The address of the first page, with the token."""
        return f"http://{self.address}/{self.token}/"

    def open_in_browser(self) -> None:
        """Open the first page in a browser.

        All users of the machine can read the browser's command line. So the command line contains
        the path of a file instead of the token. Only the owner can read the file. The first request
        of the page deletes the file.
        """
        descriptor, name = tempfile.mkstemp(
            prefix="open-", suffix=".html", dir=self._folder.absolute()
        )
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

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print the type of an error alone, because its message may contain a text.

        A connection that the browser closes too early is not an error.
        """
        if not isinstance(error := sys.exc_info()[1], ConnectionError):
            print(f"{self.name}: {type(error).__name__}", file=sys.stderr)


class LoopbackHandler(BaseHTTPRequestHandler):
    """Answers one request. A subclass defines `get` and `post`, which receive the path after the
    token. `policy` is the content security policy, and `body_type` the type of the body of POST."""

    server: LoopbackServer
    timeout = 60  # seconds; then an unfinished request is closed
    server_version, sys_version = "sugarbush", ""
    policy: ClassVar[str]
    body_type: ClassVar[str]

    def get(self, path: str) -> None:
        raise NotImplementedError

    def post(self, path: str, body: bytes) -> None:
        raise NotImplementedError

    def do_GET(self) -> None:
        if (path := self._allowed()) is not None:
            self.server.forget_redirect()
            self.get(path)

    def do_POST(self) -> None:
        if (path := self._allowed()) is None:
            return
        length = self.headers.get("Content-Length", "0")
        size = int(length) if length.isdecimal() and len(length) < 10 else _LONGEST + 1
        if self.headers.get("Content-Type") != self.body_type or size > _LONGEST:
            self.refuse(HTTPStatus.BAD_REQUEST)
        else:
            self.post(path, self.rfile.read(size))

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing, because a path contains the token."""

    def refuse(self, status: HTTPStatus) -> None:
        self.answer(b"{}", kind="application/json", status=status)

    def answer(
        self,
        body: bytes,
        *,
        kind: str,
        status: HTTPStatus = HTTPStatus.OK,
        policy: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Send an answer with headers such as `Location`."""
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", policy or self.policy)
        for name, value in (_HEADERS | dict(headers or {})).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _allowed(self) -> str | None:
        """Return the path after the token, or None after refusing a wrong token, host or origin."""
        address = self.server.address
        _, token, *rest = self.path.split("/", 2) if self.path.count("/") > 1 else ("", "")
        needed = "" if self.command == "POST" else f"http://{address}"
        right = (
            self.headers.get("Host") == address
            and self.headers.get("Origin", needed) == f"http://{address}"
            and hmac.compare_digest(token.encode(), self.server.token.encode())
        )
        if not right:
            self.refuse(HTTPStatus.FORBIDDEN)
            return None
        return rest[0] if rest else ""
