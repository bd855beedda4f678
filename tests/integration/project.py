"""Makes a separate checkout for a test: a git repository of a project with a tiny corpus.

Its stages import the package from this tree: a copy would be compiled again for each checkout.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from sugarbush.privacy.entries import Entry
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.unit import Unit
from sugarbush.run.settings import value_at
from tests.one_process import forked
from tests.settings import ROOT, settings

PARTS = [
    "flows", "tasks", "research", "examples", "prefect.yaml", "prefect.toml",
    "params.yaml", "dvc.yaml", ".dvc", ".dvcignore", ".gitignore", "pyproject.toml",
]  # fmt: skip
TINY_ENCODER = ROOT / "tests" / "plugins"  # on PYTHONPATH, it adds the encoder `tiny`
ONE_PROCESS = ROOT / "tests" / "one_process"  # on PYTHONPATH: DVC and its stages in one process
PRODUCTS = ("lamp", "chair", "kettle")
WORDS = ("arrived late", "came in pieces", "does not start", "is the wrong colour", "went missing")
SCHEMA = {
    "subject": "letters to a shop",
    "attributes": [
        {"name": "product", "column": "product", "values": list(PRODUCTS)},
        {
            "name": "wish",
            "values": ["refund", "replacement"],
            "keywords": {"refund": ["money back"], "replacement": ["another one"]},
        },
    ],
}
# The charges of a first look with donated texts: the centre, the fit, and the fit by value.
LOOK = ["look"] * 3

# With these settings, a whole pipeline takes only slightly longer than the imports of its stages.
SMALL: dict[str, Any] = {
    "privacy__dataset": "letters",
    "privacy__purpose": "release",
    "privacy__cap": 50.0,
    "prepare__file": "letters.jsonl",
    "prepare__donated": "donated.jsonl",
    "prepare__schema": "letters.schema.yaml",
    "prepare__min_records": 20,
    "synthesize_metadata__degree": 1,
    "initialise__length": {"words": 30, "attribute": None, "words_by_value": None},
    "evaluate__bootstrap": 0,
    "release__texts": 8,
    "pretrain__texts": 60,
    "pretrain__vocabulary": 400,
    "pretrain__layers": 1,
    "pretrain__width": 32,
    "pretrain__max_length": 64,
}
SMALL_TRAINING = {"batch_size": 20, "epochs": 2, "max_length": 64, "repeatable_steps": 10}
SMALL_EVOLUTION = {"candidates": 16, "rounds": 1, "variations": 2, "examples": 2}
SMALL_METHODS = {"maple": SMALL_EVOLUTION, "augpe": SMALL_EVOLUTION, "dpft": SMALL_TRAINING}


def letters(count: int) -> list[dict[str, str]]:
    """Return `count` invented letters, all different."""
    return [
        {
            "id": f"letter-{i}",
            "text": f"Dear shop, my {PRODUCTS[i % 3]} of order {1000 + i} {WORDS[i % 5]}. I would "
            f"like {'my money back' if i % 2 else 'another one'}. Yours, a customer.",
            "product": PRODUCTS[i % 3],
        }
        for i in range(count)
    ]


def as_lines(records: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


@dataclass(frozen=True)
class Checkout:
    """A checkout at `path`. Its state folder `state` is outside the checkout."""

    path: Path
    state: Path

    @property
    def environment(self) -> dict[str, str]:
        fresh = {k: v for k, v in os.environ.items() if not k.startswith(("DVC_", "GIT_"))}
        return fresh | {
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "SUGARBUSH_STATE": str(self.state),
            "HF_HUB_OFFLINE": "1",
            "DO_NOT_TRACK": "1",
            "DVC_NO_ANALYTICS": "1",
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join(map(str, [self.path, TINY_ENCODER, ROOT])),
        }

    @property
    def one_process(self) -> dict[str, str]:
        """Return environment variables that make DVC run its stages in its own process."""
        return {"PYTHONPATH": os.pathsep.join([str(ONE_PROCESS), self.environment["PYTHONPATH"]])}

    def run(
        self,
        *command: str,
        code: int | None = 0,
        variables: dict[str, str] | None = None,
        stdin: str | None = None,
        **named: str,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in the checkout.

        The test fails if the exit code is not `code`. None allows any exit code.
        """
        finished = subprocess.run(
            command, cwd=self.path, env=self.environment | (variables or {}) | named, text=True,
            input=stdin, capture_output=True, check=False,
        )  # fmt: skip
        if code is not None:
            assert finished.returncode == code, finished.stdout + finished.stderr
        return finished

    def dvc(self, *arguments: str, code: int | None = 0, **named: str) -> str:
        """Run DVC and return its output."""
        finished = self.run(sys.executable, "-m", "dvc", *arguments, code=code, variables=named)
        return finished.stdout + finished.stderr

    def repro(self, *arguments: str) -> list[str]:
        """Run `dvc repro` and its stages in one process. Return the stages that ran."""
        return self.stages_run(self.dvc_in_one_process("repro", *arguments))

    def dvc_in_one_process(self, *arguments: str, **named: str) -> str:
        """Run DVC and its stages in one process, which is a fork. Return what they printed."""
        command = (sys.executable, "-m", "dvc", *arguments)
        variables = self.environment | self.one_process | named
        with forked.Popen(command, cwd=self.path, env=variables) as process:
            printed = process.stdout.read()
        assert process.returncode == 0, printed
        return printed

    def git(self, *arguments: str) -> str:
        return self.run("git", *arguments).stdout

    def change(self, section: str | None = None, /, **changes: Any) -> None:
        """Change settings in params.yaml: in `section`, such as methods.maple, or at the top level
        if it is None."""
        path = self.path / "params.yaml"
        fields = yaml.safe_load(path.read_text())
        (fields if section is None else value_at(fields, section)).update(changes)
        path.write_text(yaml.safe_dump(fields, sort_keys=False))

    @property
    def ledger(self) -> Ledger:
        return Ledger(
            self.state, dataset="letters", purpose="release", unit=Unit.RECORD, cap=50.0,
            delta=1e-6,
        )  # fmt: skip

    def charges(self) -> tuple[Entry, ...]:
        return self.ledger.entries()

    def stages_run(self, output: str) -> list[str]:
        """Return the stages that DVC ran, as read from its output."""
        mark = "Running stage '"
        return [line.split("'")[1] for line in output.splitlines() if line.startswith(mark)]


def small_settings(**changes: Any) -> dict[str, Any]:
    """Return the settings of a small project. `section__key=value` changes a setting."""
    fields = settings(**(SMALL | changes))
    for name, section in fields["methods"].items():
        section.update(SMALL_METHODS.get(name, {}))
    return fields


def make_project(path: Path, state: Path, *, records: int = 140, **changes: Any) -> Checkout:
    """Make a checkout and commit all its files to git. `section__key=value` changes a setting."""
    path.mkdir(parents=True)
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", *PARTS],
        cwd=ROOT, text=True, capture_output=True, check=True,
    )  # fmt: skip
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes((ROOT / name).read_bytes())
    fields = small_settings(**changes)
    (path / "params.yaml").write_text(yaml.safe_dump(fields, sort_keys=False))
    (path / "letters.schema.yaml").write_text(yaml.safe_dump(SCHEMA))
    corpus = letters(records + 6)
    (path / "letters.jsonl").write_text(as_lines(corpus[6:]))
    (path / "donated.jsonl").write_text(as_lines(corpus[:6]))
    checkout = Checkout(path, state)
    checkout.git("init", "--quiet", "--initial-branch=main")
    checkout.git("config", "user.name", "test")
    checkout.git("config", "user.email", "test@example.org")
    (path / ".git" / "info" / "exclude").write_text("letters.jsonl\ndonated.jsonl\n")
    checkout.git("add", "--all")
    checkout.git("commit", "--quiet", "--message=start")
    return checkout
