"""One Prefect server for all tests of a test worker."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

# Prefect is imported before any test, because its logging closes all existing handlers. One of them
# is the handler of absl, which dp-accounting imports, and closing that also closes the stream that
# pytest captures.
for _name in ("flows", "prefect.main"):  # Prefect's variables, then Prefect
    importlib.import_module(_name)


@pytest.fixture(scope="session")
def prefect_database() -> Iterator[Path]:
    """Start a server and yield the path of its database.

    Tests that use it are in the xdist group `flow`, so they run on one worker.
    """
    from prefect.settings import get_current_settings
    from prefect.testing.utilities import prefect_test_harness

    with prefect_test_harness(server_startup_timeout=900):
        url = get_current_settings().server.database.connection_url
        assert url is not None
        yield Path(url.get_secret_value().partition("///")[2])
