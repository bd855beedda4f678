"""What a check says of an endpoint."""

from __future__ import annotations

import pytest

from sugarbush.cli.checks import goes_in_the_clear


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
def test_what_can_be_read_on_the_way(base_url: str, clear: bool) -> None:
    assert goes_in_the_clear(base_url) is clear
