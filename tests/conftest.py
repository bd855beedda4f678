"""What must be set before anything is collected."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

# Prefect reads and makes its home when it is imported, and two workers must not make the same one.
_HOME = Path(os.environ.get("PREFECT_HOME") or tempfile.mkdtemp(prefix="prefect-"))
_OWN = _HOME / os.environ.get("PYTEST_XDIST_WORKER", "main")
_OWN.mkdir(parents=True, exist_ok=True)
os.environ["PREFECT_HOME"] = str(_OWN)
