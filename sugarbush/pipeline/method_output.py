"""Writes the results of a stage of a method: a released folder, or a private folder without a DP
guarantee.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from sugarbush.data.private_store import write_stamp
from sugarbush.evolution.population import save_population
from sugarbush.methods.interface import FinalSet, Initial, Method
from sugarbush.paths import atomic_directory
from sugarbush.pipeline.graph import stage_named
from sugarbush.privacy.key import random_id
from sugarbush.release.folders import method_folder, read_metadata, write_release, write_texts
from sugarbush.release.labelled import with_labels
from sugarbush.run.context import Project
from sugarbush.run.records import key_of, snapshots_of
from sugarbush.run.tools import label_reader


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
    """Yield a folder. After a block without an error, the folder gets a release.json and becomes
    the stage's result. Without a DP guarantee, the result is in the private root, where all stages
    of one method use the same folder. DVC then sees a random name instead of the result."""
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
            ledger=None if private else project.ledger(),
        )
        if private and stage != method.stages[0]:  # the first stage starts with an empty folder
            _keep_others(target, folder)
    if private:
        content = run + hashlib.sha256(b"".join(sorted(_contents(target)))).hexdigest()
        if stage == "finetune":  # the folder has no texts now, so generate must run again
            content += random_id()
        digest = hmac.new(key_of(project), content.encode(), "sha256").hexdigest()
        with atomic_directory(shown) as folder:
            named = snapshots_of(project).of(f"{stage}@{method.name}", digest=digest)
            write_stamp(folder / "private.json", named)


def write_first_candidates(project: Project, method: Method, first: Initial) -> None:
    """Write a method's first candidates, and the ids of the charged ledger entries."""
    stage = "initialise"
    with method_output(
        project,
        method,
        stage,
        drawn_by=f"{stage}@{method.name}",
        ledger_ids=first.ledger_ids,
        run=first.run,
    ) as folder:
        save_population(first.population, project.schema.names, folder / "candidates.parquet")
        (folder / "usage.json").write_text(json.dumps(asdict(first.usage)))


def write_final_set(project: Project, method: Method, stage: str, final: FinalSet) -> None:
    """Write a method's texts, its rounds, and the ids of the charged ledger entries.

    The last stage also reads the labels of the texts, and writes the file for users.
    """
    ids, drawn_by = final.lineage.ledger_ids, f"{stage}@{method.name}"
    labels = None
    if stage == method.stages[-1]:
        metadata = read_metadata(project.roots)
        final, labels = with_labels(final, label_reader(project, metadata, method))
        ids = tuple(dict.fromkeys((*ids, *metadata.ledger_ids)))
    with method_output(
        project, method, stage, drawn_by=drawn_by, ledger_ids=ids, run=final.run
    ) as folder:
        write_texts(final.lineage, project.schema, folder, labels=labels)


def _keep_others(old: Path, new: Path) -> None:
    """Copy the files of the method's earlier stages, except files that this stage wrote."""
    if old.is_dir():
        for path in old.iterdir():
            if not (new / path.name).exists() and not path.name.startswith(("round_", "scored")):
                (shutil.copytree if path.is_dir() else shutil.copy)(path, new / path.name)


def _contents(folder: Path) -> Iterator[bytes]:
    for path in folder.rglob("*"):
        if path.is_file():
            yield hashlib.sha256(path.read_bytes()).digest()
