"""Tells which receivers of tracked runs the environment names, and requires their packages."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from sugarbush.extras import require_extra

MLFLOW: Final = "MLFLOW_TRACKING_URI"
_LINEAGE: Final = ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG", "OPENLINEAGE__TRANSPORT")
_FILE: Final = "openlineage.yml"


def uses_lineage(base: Path) -> bool:
    """Return whether the environment or a file names a receiver of OpenLineage events."""
    home = os.environ.get("HOME", base)  # a container may have no home
    files = (base / _FILE, Path(home) / ".openlineage" / _FILE)
    named = any(name.startswith(_LINEAGE) and value for name, value in os.environ.items())
    return named or any(map(Path.is_file, files))


def uses_mlflow() -> bool:
    """Return whether the environment names an MLflow store or server."""
    return bool(os.environ.get(MLFLOW))


def require_packages(base: Path) -> None:
    """Raise ParamsError if a receiver is named and its package of the extra `track` is missing."""
    if uses_lineage(base):
        require_extra("track", "openlineage")
    if uses_mlflow():
        require_extra("track", "mlflow")
