"""Writes the random names that DVC compares in place of private files."""

from __future__ import annotations

from pathlib import Path

from sugarbush.data.private_store import read_stamp, write_stamp
from sugarbush.pipeline.graph import stage_named
from sugarbush.privacy.key import random_id
from sugarbush.privacy.results import digest_of
from sugarbush.run.context import Project
from sugarbush.run.records import snapshots_of
from sugarbush.versions import EXTRACTION

PUBLIC_STAMPS = ("schema", "donated", "pool")  # stamp files with digests of public files


def write_private_stamp(
    project: Project, name: str, *, digest: str, within: str, stage: str
) -> None:
    """Write the random name of a private file to data/stamps. DVC compares this name.

    `digest` is the keyed digest of the file. `stage` computed the file from another private file.
    `within` names the stamp of that other file. If a stage is run by hand, that stamp may be
    missing.
    """
    parent = _stamp_if_written(project, within)
    public = _public_inputs(project, stage)
    named = snapshots_of(project).of(name, digest=digest, within=parent, public=public)
    write_stamp(project.roots.stamps / f"{name}.json", named)


def keep_private_stamp(project: Project, name: str, *, within: str, stage: str) -> bool:
    """Write the present name of a private file to data/stamps again, without its content.

    Return False, and write nothing, if the settings or public files of `stage` changed since.
    """
    parent, public = _stamp_if_written(project, within), _public_inputs(project, stage)
    named = snapshots_of(project).kept(name, public=public, within=parent)
    if named is not None:
        write_stamp(project.roots.stamps / f"{name}.json", named)
    return named is not None


def renew_stamp(project: Project, name: str) -> None:
    """Write a new random name for an internal file. Every run of its stage changes the name. So
    the name does not show whether other settings changed the file."""
    write_stamp(project.roots.stamps / f"{name}.json", random_id())


def _stamp_if_written(project: Project, name: str) -> str:
    path = project.roots.stamps / f"{name}.json"
    return read_stamp(path, left_by=name) if path.exists() else ""


def _public_inputs(project: Project, stage: str) -> str:
    """Return a digest of the settings and public files that the output of a stage depends on.
    The digest does not depend on code, so that an edited comment costs no budget."""
    declared = stage_named(stage)
    files = [Path(path).stem for path in declared.inputs if Path(path).stem in PUBLIC_STAMPS]
    return digest_of(
        version=EXTRACTION,
        settings=project.settings.changed_output_settings(declared.settings),
        files={name: _stamp_if_written(project, name) for name in files},
    )
