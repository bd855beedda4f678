"""The messages of a check about an endpoint."""

from __future__ import annotations

import pytest

from sugarbush.cli.checks import is_unencrypted


@pytest.mark.parametrize(
    ("base_url", "clear"),
    [
        ("http://10.0.0.5:8000/v1", True),
        ("http://models.internal/v1", True),
        ("http://[2001:db8::1]:8000/v1", True),
        ("https://models.internal/v1", False),
        ("http://localhost:8000/v1", False),
        ("http://127.0.0.1:8000/v1", False),
        ("http://[::1]:8000/v1", False),
    ],
)
def test_http_to_another_machine_is_unencrypted(base_url: str, clear: bool) -> None:
    assert is_unencrypted(base_url) is clear
