"""One server of Prefect for all tests of a worker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from prefect.settings import get_current_settings
from prefect.testing.utilities import prefect_test_harness


@pytest.fixture(scope="session")
def prefect_database() -> Iterator[Path]:
    """Starts a server and yields the path of its database.

    Tests that use it are in the xdist group `flow`.
    """
    with prefect_test_harness(server_startup_timeout=900):
        url = get_current_settings().server.database.connection_url
        assert url is not None
        yield Path(url.get_secret_value().partition("///")[2])
