"""An S3-compatible server on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import boto3
import pytest
from moto.server import ThreadedMotoServer

BUCKET = "releases"
SECRET = "a-secret-of-the-test"
KEYS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": SECRET,
    "AWS_DEFAULT_REGION": "us-east-1",
    "NO_PROXY": "127.0.0.1",
}


@contextmanager
def s3_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a server with an empty bucket."""
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    try:
        host, port = server.get_host_and_port()
        address = f"http://{host}:{port}"
        boto3.client("s3", endpoint_url=address).create_bucket(Bucket=BUCKET)
        yield address
    finally:
        server.stop()
