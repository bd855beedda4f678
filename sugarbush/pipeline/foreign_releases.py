"""Refuses a project with releases that its ledger does not count, before any charge.

Two places name releases: the folders of data/released, and dvc.lock, which git copies to other
machines. A folder of another dataset, purpose or unit would be published together with a card that
does not count it. A release in dvc.lock that another state folder made has charges that this
machine's ledger does not contain.

dvc.lock contains the hashes of the stamps that a stage read. A stamp is a random name that the
state folder gave to the private texts, and the state folder remembers every name. So a release is
known if the state folder gave one of its names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from sugarbush.data.private_store import stamp_content
from sugarbush.errors import LedgerError
from sugarbush.paths import Roots
from sugarbush.pipeline.dvc_lock import LOCK
from sugarbush.pipeline.graph import STAGES, STAMPS
from sugarbush.privacy.settings import PrivacySettings, Purpose
from sugarbush.privacy.snapshots import Snapshots
from sugarbush.release.folders import all_releases
from sugarbush.run.context import Project
from sugarbush.run.records import snapshots_of

_SETTINGS = f"{STAMPS}/settings.json"
_SPENDING = {stage.name for stage in STAGES if stage.spends}
_STAMPS = (f"{STAMPS}/train_texts.json", f"{STAMPS}/train_codes.json")


def refuse_foreign_releases(project: Project) -> None:
    """Raise LedgerError if data/released or dvc.lock names a release that the ledger of
    `privacy.dataset` does not count."""
    privacy = project.settings.privacy
    refuse_foreign_folders(project.roots, privacy)
    refuse_foreign_lock(project.base, privacy, snapshots=snapshots_of(project))


def refuse_foreign_folders(roots: Roots, privacy: PrivacySettings) -> None:
    """Raise LedgerError if data/released has a folder of another dataset, purpose or unit."""
    wanted = {
        "dataset": privacy.dataset,
        "purpose": privacy.purpose.value,
        "unit": privacy.unit.value,
    }
    for path, fields in all_releases(roots):
        found = {name: fields.get(name, value) for name, value in wanted.items()}
        if found != wanted:
            back = ", ".join(f"privacy.{n}: {found[n]}" for n in wanted if found[n] != wanted[n])
            folder = path.parent.relative_to(roots.base)
            raise LedgerError(
                f"{folder}: this release has other settings ({back}) than params.yaml. The card "
                "would not count its charges. Set these settings back, or move the old releases "
                "out of the project, for example: mv data/released ../old-releases"
            )


def refuse_foreign_lock(base: Path, privacy: PrivacySettings, *, snapshots: Snapshots) -> None:
    """Raise LedgerError if dvc.lock names a release of the dataset that another state folder made.
    The example and benchmarks are public, so anybody may make their releases again."""
    if privacy.purpose is not Purpose.RELEASE or not (base / LOCK).exists():
        return
    known = {_md5(stamp_content(name)) for name in snapshots.given()}
    for stage, entry in _charged_stages(_stages_of(base / LOCK), privacy):
        stamps = [d.get("md5") for d in entry.get("deps", ()) if d["path"] in _STAMPS]
        if not stamps and stage.startswith("generate@"):
            continue  # written before this stage could spend
        if known.isdisjoint(stamps):
            raise LedgerError(
                f"{LOCK}: names a release of dataset '{privacy.dataset}' (stage {stage}) that "
                "another state folder made, so the ledger on this machine may lack its charges. "
                "Set SUGARBUSH_STATE to the state folder of this release, or copy that folder to "
                f"this machine. If the ledger is complete, or if no person of {LOCK}'s release is "
                f"in your data, delete {LOCK}; other data also need another privacy.dataset"
            )


def _charged_stages(
    stages: Mapping[str, Any], privacy: PrivacySettings
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the stages of dvc.lock that spent budget of the dataset."""
    own = {
        "settings.privacy.dataset": privacy.dataset,
        "settings.privacy.purpose": privacy.purpose.value,
    }
    for name, entry in stages.items():
        if name.partition("@")[0] not in _SPENDING:
            continue
        settings = entry.get("params", {}).get(_SETTINGS, {})
        if any(settings.get(setting, value) != value for setting, value in own.items()):
            continue
        if not any(settings.get("plan.metadata", [""])) and name == "synthesize_metadata":
            continue  # no method needed the metadata
        # A skipped stage, and a method without a DP guarantee, leave one file.
        if any(out.get("nfiles") != 1 for out in entry["outs"]):
            yield name, entry


def _stages_of(path: Path) -> Mapping[str, Any]:
    try:
        stages = yaml.safe_load(path.read_text(encoding="utf-8"))["stages"]
        for name, entry in stages.items():
            _ = entry["outs"] if name.partition("@")[0] in _SPENDING else None
            _ = [each["path"] for kind in ("deps", "outs") for each in entry.get(kind, ())]
            _ = entry.get("params", {}).get(_SETTINGS, {}).items()
    except (OSError, UnicodeDecodeError, yaml.YAMLError, KeyError, TypeError, AttributeError):
        raise LedgerError(
            f"{path}: cannot be read, so its releases are unknown. Restore the file with git, or "
            "delete it if all of its releases were made on this machine"
        ) from None
    return dict(stages)


def _md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()
