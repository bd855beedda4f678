"""The release.json of every folder under data/released."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from sugarbush.pipeline.settings import ProjectSettings
from sugarbush.privacy.settings import Purpose

FILE = "release.json"


def write_release(
    folder: Path, *, stage: str, params: ProjectSettings, ledger_ids: tuple[str, ...], run: str
) -> None:
    """Write release.json: the stage, the promise, and the ledger entries."""
    fields = {
        "stage": stage,
        "dataset": params.privacy.dataset,
        "purpose": params.privacy.purpose.value,
        "publishable": params.privacy.purpose is Purpose.RELEASE,
        "unit": params.privacy.unit.value,
        "records_per_unit": params.privacy.records_per_user,
        "delta": params.privacy.delta,
        "ledger_ids": list(dict.fromkeys(ledger_ids)),
        "run": run,
    }
    (folder / FILE).write_text(json.dumps(fields, indent=1) + "\n")


def read_release(folder: Path) -> dict[str, Any]:
    """The release.json of a folder."""
    fields: dict[str, Any] = json.loads((folder / FILE).read_text())
    return fields


def copy_release(source: Path, target: Path) -> list[str]:
    """Copy the files of a stored result into a new release folder. Returns its ledger ids."""
    for path in source.iterdir():
        if path.name != "ledger_ids.json":
            shutil.copy(path, target / path.name)
    ids: list[str] = json.loads((source / "ledger_ids.json").read_text())
    return ids
