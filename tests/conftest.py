"""What must be set before anything is collected."""

from __future__ import annotations

import importlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

# There are as many workers as cores, and small tensors are slowed by threads; stages inherit it.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Prefect reads and makes its home when it is imported, and two workers must not make the same one.
_HOME = Path(os.environ.get("PREFECT_HOME") or tempfile.mkdtemp(prefix="prefect-"))
_OWN = _HOME / os.environ.get("PYTEST_XDIST_WORKER", "main")
_OWN.mkdir(parents=True, exist_ok=True)
os.environ["PREFECT_HOME"] = str(_OWN)

# Prefect's logging closes the handlers that it finds, and that of absl, which dp-accounting brings,
# closes the stream that pytest captures: so it is imported first.
for _name in ("flows", "prefect.main"):  # Prefect's variables, and Prefect
    importlib.import_module(_name)

if TYPE_CHECKING:
    from tests.pipelines import FinishedPipelines


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> FinishedPipelines:
    """Finished pipelines by kind, such as `finished("maple")`, for tests that only read them."""
    from tests.pipelines import FinishedPipelines

    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    return FinishedPipelines(shared / "finished")
