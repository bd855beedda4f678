"""Serves the page for labelling texts to this machine alone."""

from __future__ import annotations

import json
from http import HTTPStatus
from pathlib import Path
from typing import Any, ClassVar

from filelock import FileLock, Timeout

from sugarbush.errors import ParamsError, SugarbushError
from sugarbush.loopback import LoopbackHandler, LoopbackServer
from sugarbush.redactor.labels import LabelFile
from sugarbush.redactor.values import SECRET_KINDS

_FILES = {"": ("page.html", "text/html"), "page.js": ("page.js", "text/javascript")}


class LabelServer(LoopbackServer):
    """Serves one file of labels until the page sends `stop`.

    Raises ParamsError if another server has this file, because each would overwrite the labels of
    the other.
    """

    name: ClassVar[str] = "label page"

    def __init__(self, labels: LabelFile, *, port: int = 0) -> None:
        self._file_lock = FileLock(labels.path.with_name(f".{labels.path.name}.lock"), timeout=0)
        try:
            self._file_lock.acquire()
        except Timeout:
            raise ParamsError(
                f"{labels.path}: is open in another label page. Press Finish on that page"
            ) from None
        super().__init__(_LabelHandler, folder=labels.path.parent, port=port)
        self.labels = labels

    def server_close(self) -> None:
        super().server_close()
        self._file_lock.release()


class _LabelHandler(LoopbackHandler):
    server: LabelServer
    body_type: ClassVar[str] = "application/json"
    policy: ClassVar[str] = (
        "default-src 'none'; img-src data:; script-src 'self'; style-src 'unsafe-inline'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )

    def get(self, path: str) -> None:
        if path in _FILES:
            name, kind = _FILES[path]
            self.answer((Path(__file__).parent / name).read_bytes(), kind=kind)
        elif path.startswith("texts/"):
            self._guarded(lambda: self.server.labels.page_entry(self._number(path)))
        else:
            self.refuse(HTTPStatus.NOT_FOUND)

    def post(self, path: str, body: bytes) -> None:
        if path == "stop":
            self._answer_json({})
            self.server.shutdown()
        elif path.startswith("texts/"):
            self._guarded(lambda: self._label(self._number(path), body))
        else:
            self.refuse(HTTPStatus.NOT_FOUND)

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
            self._answer_json({"error": message}, status=HTTPStatus.BAD_REQUEST)
            return
        self._answer_json(answer)

    def _answer_json(self, fields: dict[str, Any], *, status: HTTPStatus = HTTPStatus.OK) -> None:
        self.answer(json.dumps(fields).encode(), kind="application/json", status=status)
