"""The output folders of the stages of a method: in the released root, or in the private one without
a guarantee."""

from __future__ import annotations

import hashlib
import hmac
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sugarbush.data.private_store import write_digest
from sugarbush.methods.interface import FinalSet, Method
from sugarbush.paths import atomic_directory
from sugarbush.pipeline.graph import stage_named
from sugarbush.pipeline.project import Project
from sugarbush.pipeline.released import method_folder, write_release, write_texts


@contextmanager
def method_output(project: Project, method: Method, stage: str, *, run: str) -> Iterator[Path]:
    """A folder that becomes the stage's result when the block succeeds.

    Without a DP guarantee the result goes to the private root, where the stages of one method share
    a folder. DVC gets a keyed digest of the run instead.
    """
    (output,) = stage_named(stage).outputs
    shown = project.base / output.path.format(method=method.name)
    if not method.stays_private:
        with atomic_directory(shown) as folder:
            yield folder
        return
    target = method_folder(project.roots, method, stage)
    with atomic_directory(target, private=True) as folder:
        yield folder
        if stage != method.stages[0]:  # the first stage starts an empty folder
            _keep_others(target, folder)
    content = run + hashlib.sha256(b"".join(sorted(_contents(target)))).hexdigest()
    digest = hmac.new(project.key, content.encode(), "sha256").hexdigest()
    with atomic_directory(shown) as folder:
        write_digest(folder / "private.json", digest)


def write_final_set(project: Project, method: Method, stage: str, final: FinalSet) -> None:
    """Write a method's texts, its rounds, their cost, and the ids of their ledger entries."""
    with method_output(project, method, stage, run=final.run) as folder:
        write_texts(final.evolution, project.schema, folder)
        write_release(
            folder,
            stage=f"{stage}@{method.name}",
            privacy=project.settings.privacy,
            ledger_ids=final.evolution.ledger_ids,
            run=final.run,
            has_guarantee=not method.stays_private,
        )


def _keep_others(old: Path, new: Path) -> None:
    """Copy the files of earlier stages of the method that this stage did not write."""
    if old.is_dir():
        for path in old.iterdir():
            if not (new / path.name).exists() and not path.name.startswith("round_"):
                (shutil.copytree if path.is_dir() else shutil.copy)(path, new / path.name)


def _contents(folder: Path) -> Iterator[bytes]:
    for path in folder.rglob("*"):
        if path.is_file():
            yield hashlib.sha256(path.read_bytes()).digest()
