"""Where the stages of a method write: the released root, or the private one without a guarantee."""

from __future__ import annotations

import hashlib
import hmac
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sugarbush.data.private_store import write_digest
from sugarbush.methods.interface import FinalSet, Method
from sugarbush.paths import atomic_directory
from sugarbush.pipeline.graph import stage_named
from sugarbush.pipeline.project import Project
from sugarbush.pipeline.released import method_folder, write_release, write_texts


@contextmanager
def method_output(
    project: Project,
    method: Method,
    stage: str,
    *,
    drawn_by: str,
    ledger_ids: Iterable[str],
    run: str,
) -> Iterator[Path]:
    """A folder that becomes the stage's result, with its release.json, when the block ends well.

    Without a DP guarantee the result lies in the private root, where stages of one method share a
    folder; DVC gets a keyed digest of the run in its place.
    """
    (output,) = stage_named(stage).outputs
    shown, private = project.base / output.path.format(method=method.name), method.stays_private
    target = method_folder(project.roots, method, stage) if private else shown
    with atomic_directory(target, private=private) as folder:
        yield folder
        write_release(
            folder,
            stage=drawn_by,
            privacy=project.settings.privacy,
            ledger_ids=ledger_ids,
            run=run,
            has_guarantee=not private,
        )
        if private and stage != method.stages[0]:  # the first stage starts an empty folder
            _keep_others(target, folder)
    if private:
        content = run + hashlib.sha256(b"".join(sorted(_contents(target)))).hexdigest()
        digest = hmac.new(project.key, content.encode(), "sha256").hexdigest()
        with atomic_directory(shown) as folder:
            write_digest(folder / "private.json", digest)


def write_final_set(project: Project, method: Method, stage: str, final: FinalSet) -> None:
    """Write a method's texts, its rounds, and what paid for them."""
    ids, drawn_by = final.evolution.ledger_ids, f"{stage}@{method.name}"
    with method_output(
        project, method, stage, drawn_by=drawn_by, ledger_ids=ids, run=final.run
    ) as folder:
        write_texts(final.evolution, project.schema, folder)


def _keep_others(old: Path, new: Path) -> None:
    """Copy what earlier stages of the method wrote and this one did not."""
    if old.is_dir():
        for path in old.iterdir():
            if not (new / path.name).exists() and not path.name.startswith("round_"):
                (shutil.copytree if path.is_dir() else shutil.copy)(path, new / path.name)


def _contents(folder: Path) -> Iterator[bytes]:
    for path in folder.rglob("*"):
        if path.is_file():
            yield hashlib.sha256(path.read_bytes()).digest()
