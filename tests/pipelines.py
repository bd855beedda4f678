"""Runs complete pipelines in this process, and shares finished pipelines among tests and workers.

In a new process, the imports of a stage take seconds. So a test that is not about processes runs
its pipeline in the test's own process.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from sugarbush.methods.interface import Method
from sugarbush.pipeline.graph import STAGES
from sugarbush.pipeline.opening import open_project
from sugarbush.pipeline.run_stage import execute
from sugarbush.run.context import Project
from tests.integration.project import (
    SMALL_EVOLUTION,
    TINY_ENCODER,
    Checkout,
    as_lines,
    letters,
    make_project,
)

PERSON = "person-zq"  # too unusual to be in a text or a digest by chance
LABELLED = [
    {
        "text": f"Please call 555-010-{i:04d} soon",
        "spans": [{"start": 12, "end": 24, "label": "PHONE"}],
    }
    for i in range(40)
]


@contextmanager
def opened(checkout: Checkout) -> Iterator[Project]:
    """Open the project of a checkout with the state folder of the checkout."""
    with environment_of(checkout):
        yield open_project(checkout.path)


@contextmanager
def environment_of(checkout: Checkout) -> Iterator[None]:
    """Set the environment of the commands in a checkout."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("DVC_")]:
            patch.delenv(name)
        patch.setenv("SUGARBUSH_STATE", str(checkout.state))
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.syspath_prepend(TINY_ENCODER)
        yield


def run_pipeline(checkout: Checkout, *names: str) -> None:
    """Run all stages, or only those in `names`, in this process and in DVC's order.

    A name such as evolve@maple is a stage of one method. The name evolve is the stage of all
    methods.
    """
    for stage in STAGES:
        with opened(checkout) as project:
            methods: tuple[Method | None, ...] = (None,)
            if stage.by_method:
                methods = project.settings.chosen
            for method in methods:
                full = stage.name if method is None else f"{stage.name}@{method.name}"
                if not names or stage.name in names or full in names:
                    execute(stage, project, method)


@dataclass(frozen=True)
class Kind:
    """One kind of shared pipeline: its settings, changes of its files, and the stages that run.

    If `by_dvc` is true, `dvc repro` runs all stages.
    """

    settings: dict[str, Any]
    prepare: Callable[[Path], None] = lambda path: None
    stages: tuple[str, ...] = ()
    by_dvc: bool = False


def write_persons(path: Path) -> None:
    """Write letters of fifty users. One user has 22 letters, and the others have two or three."""
    rows = [
        {**row, "writer": f"{PERSON}{min(i % 60, 49)}"} for i, row in enumerate(letters(146)[6:])
    ]
    (path / "letters.jsonl").write_text(as_lines(rows))


def write_labelled(path: Path) -> None:
    """Write the labelled sample that CRT measures its policy on."""
    (path / "labelled.jsonl").write_text("".join(json.dumps(row) + "\n" for row in LABELLED))


# Fine-tuning and the texts need a DP count of at least 9. With 119 training records and these
# shares, the count has a stddev of 14, so it is below 9 with probability 1e-14. With the default
# shares, this probability is 3e-6.
_COUNTED = {"privacy__metadata_share": 0.3}
_NONPRIVATE = {f"methods__nonprivate__{name}": value for name, value in SMALL_EVOLUTION.items()}
KINDS = {
    "dvc": Kind(
        {"methods": ["dpft", "maple"], "prepare__id_column": "id", **_COUNTED}, by_dvc=True
    ),
    "maple": Kind({"methods": ["maple"]}),
    "dpft": Kind({"methods": ["dpft"], **_COUNTED}),
    "crt": Kind(
        {
            "methods": ["crt"],
            "methods__crt__detectors": ["regex"],  # the default also trains the redactor
            "methods__crt__labelled": "labelled.jsonl",
            "methods__crt__known": "labelled.jsonl",
            "methods__crt__max_length": 64,
            "methods__crt__batch_size": 32,
            "methods__crt__epochs": 1,
            "release__texts": 5,
            "methods__crt__epsilon": 1.0,
        },
        prepare=write_labelled,
    ),
    "nonprivate": Kind(
        {"methods": ["maple", "nonprivate"], "privacy__purpose": "benchmark", **_NONPRIVATE}
    ),
    # The number of records for `dpft` is a setting here, because a DP count of about a hundred
    # records is mostly noise. Stage `evolve@augpe` does not run, so augpe releases the counts of
    # its label but no votes.
    "persons": Kind(
        {
            "methods": ["maple", "augpe", "dpft"],
            "privacy__unit": "user",
            "privacy__records_per_user": 3,
            "prepare__user_column": "writer",
            "methods__dpft__records": 60,
        },
        prepare=write_persons,
        stages=(
            "fingerprint", "prepare", "look", "extract_metadata", "synthesize_metadata",
            "initialise@maple", "evolve@maple", "pretrain", "finetune@dpft",
        ),
    ),
}  # fmt: skip


class FinishedPipelines:
    """The shared pipelines.

    A pipeline runs once, when a test first requests its kind. Tests must not change them.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, name: str) -> Checkout:
        """Return the checkout of a kind, in which all its stages have run."""
        kind = KINDS[name]
        folder = self._folder / name
        checkout = Checkout(folder / "checkout", folder / "state")
        self._folder.mkdir(exist_ok=True)
        with FileLock(f"{folder}.lock"):
            if not (folder / "finished").exists():
                shutil.rmtree(folder, ignore_errors=True)
                settings = {"embedding__model": "tiny"} | kind.settings
                make_project(checkout.path, checkout.state, **settings)
                kind.prepare(checkout.path)
                if kind.by_dvc:
                    checkout.repro()
                else:
                    run_pipeline(checkout, *kind.stages)
                (folder / "finished").touch()
        return checkout


def copied(checkout: Checkout, folder: Path) -> Checkout:
    """Return a copy of a checkout and its state folder, which a test may change."""
    return Checkout(
        shutil.copytree(checkout.path, folder / "checkout", symlinks=True),
        shutil.copytree(checkout.state, folder / "state"),
    )
