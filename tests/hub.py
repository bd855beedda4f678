"""A dataset hub on this machine: the part of Hugging Face's HTTP interface that uploads use."""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from huggingface_hub import constants

TOKEN = "hf_a-secret-of-the-test"
OWNER = "library"


@dataclass
class Hub:
    """The repositories by name, with their committed files, and every request so far.

    Requests with a path that matches `broken` are answered with status 400.
    """

    address: str = ""
    repositories: dict[str, dict[str, bytes]] = field(default_factory=dict)
    created: list[dict[str, Any]] = field(default_factory=list)
    uploads: dict[str, bytes] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    broken: str = "a^"
    commits: int = 0

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, Any]:
        if re.search(self.broken, path):
            return 400, {"error": f"broken, says the hub about {TOKEN}"}
        if path.startswith("/api/whoami"):
            return 200, {"name": "ann", "type": "user", "orgs": [{"name": OWNER}]}
        if path == "/api/repos/create":
            return self._create(json.loads(body))
        if path == "/api/validate-yaml":
            return 200, {"errors": [], "warnings": []}
        if path.startswith("/blobs/"):
            self.uploads[path.removeprefix("/blobs/")] = body
            return 200, {}
        if path.endswith("/info/lfs/objects/batch"):
            objects = [self._uploading(each) for each in json.loads(body)["objects"]]
            return 200, {"transfer": "basic", "objects": objects}
        if found := re.match(r"/api/datasets/([^/]+/[^/]+)/(tree|preupload|commit)/main", path):
            return self._of_repository(*found.groups(), body)
        return 404, {}

    def _create(self, fields: dict[str, Any]) -> tuple[int, Any]:
        name = f"{fields['organization']}/{fields['name']}"
        self.created.append(fields)
        self.repositories.setdefault(name, {".gitattributes": b""})
        return 200, {"url": f"{self.address}/datasets/{name}", "id": name, "name": name}

    def _uploading(self, fields: dict[str, Any]) -> dict[str, Any]:
        upload = {"href": f"{self.address}/blobs/{fields['oid']}"}
        return {"oid": fields["oid"], "size": fields["size"], "actions": {"upload": upload}}

    def _of_repository(self, name: str, action: str, body: bytes) -> tuple[int, Any]:
        if name not in self.repositories:
            return 404, {"error": "not found"}
        files = self.repositories[name]
        if action == "tree":
            return 200, [
                {"type": "file", "path": path, "size": len(content), "oid": "0" * 40}
                for path, content in files.items()
            ]
        if action == "preupload":
            paths = [each["path"] for each in json.loads(body)["files"]]
            return 200, {
                "files": [
                    {
                        "path": path,
                        "uploadMode": "lfs" if path.endswith(".parquet") else "regular",
                        "shouldIgnore": False,
                    }
                    for path in paths
                ]
            }
        for line in body.splitlines():
            operation = json.loads(line)
            value = operation["value"]
            if operation["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif operation["key"] == "lfsFile":
                files[value["path"]] = self.uploads[value["oid"]]
        self.commits += 1
        commit = {"success": True, "commitOid": "a" * 40}
        return 200, {**commit, "commitUrl": f"{self.address}/datasets/{name}/commit/{'a' * 40}"}


@contextmanager
def hub_server() -> Iterator[Hub]:
    """Serve an empty hub on the loopback interface. Requests without the token get status 401."""
    hub = Hub()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            hub.requests.append(f"{self.command} {self.path}")
            authorized = self.headers.get("Authorization") == f"Bearer {TOKEN}"
            is_blob = self.path.startswith("/blobs/")  # an upload address needs no token
            status, fields = (401, {"error": "no"})
            if authorized or is_blob:
                status, fields = hub.answer(self.command, self.path, body)
            content = json.dumps(fields).encode()
            self.send_response(status)
            if status == 404:
                self.send_header("X-Error-Code", "RepoNotFound")
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_HEAD = answer

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def hub_account(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """Serve an empty hub, and make it the hub of this process, with an account that may write."""
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    with hub_server() as hub:
        monkeypatch.setattr(constants, "ENDPOINT", hub.address)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        yield hub
