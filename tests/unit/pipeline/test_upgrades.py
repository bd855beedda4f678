"""Tests that no output of a stage that spends nothing stays after a change of the code."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from sugarbush.pipeline.code import code_digest
from sugarbush.pipeline.dvc import parameter_keys
from sugarbush.pipeline.dvc_lock import code_of_last_run
from sugarbush.pipeline.graph import STAGES
from sugarbush.pipeline.opening import open_project
from sugarbush.pipeline.stages import fingerprint, make_example
from sugarbush.run.context import Project
from tests.settings import ROOT

PACKAGE = ROOT / "sugarbush"
# Changes each file of a copy of the package, and prints the files that leave the digest as it is.
CHANGE_EACH = """
import json, sys
from pathlib import Path
from sugarbush.pipeline.code import code_digest

root, names = Path(sys.argv[1]), json.loads(sys.argv[2])
before, same = code_digest(), []
for name in names:
    content = (root / name).read_bytes()
    (root / name).write_bytes(content + b" ")
    if code_digest() == before:
        same.append(name)
    (root / name).write_bytes(content)
assert code_digest() == before
print(json.dumps(same))
"""


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in PACKAGE.rglob("*.py")}


@cache
def imported_by(module: str) -> frozenset[str]:
    """Return the modules of the package that a module imports itself, anywhere in its code."""
    named: set[str] = set()
    for node in ast.walk(ast.parse(MODULES[module].read_text())):
        if isinstance(node, ast.Import):
            named |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            named |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    parents = {
        ".".join(name.split(".")[:i]) for name in named for i in range(1, name.count(".") + 1)
    }
    return frozenset((named | parents) & set(MODULES))


def all_imports(module: str) -> set[str]:
    """Return the modules that run for `module`, through any number of imports."""
    found, waiting = set[str](), [module]
    while waiting:
        if (each := waiting.pop()) not in found:
            found.add(each)
            waiting += imported_by(each)
    return found


def in_another_process(code: str, *arguments: str, path: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=os.environ | {"PYTHONPATH": str(path), "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=path,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.mark.slow
def test_a_change_of_any_module_that_a_stage_imports_makes_the_stage_stale(tmp_path: Path) -> None:
    copy = tmp_path / "sugarbush"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    files = {path.relative_to(copy).as_posix(): path for path in copy.rglob("*") if path.is_file()}
    names = json.dumps(sorted(files))
    same = json.loads(in_another_process(CHANGE_EACH, str(copy), names, path=tmp_path))
    assert same == []
    for stage in STAGES:
        needed = all_imports(stage.module)
        paths = {MODULES[module].relative_to(PACKAGE).as_posix() for module in needed}
        assert stage.module in needed and paths <= set(files), stage.name
        follows_code = "code" in parameter_keys(stage) or stage.always
        assert follows_code != stage.spends, stage.name
    # the modules that a list by hand forgot
    enlarge = all_imports("sugarbush.pipeline.stages.enlarge")
    assert {f"sugarbush.{name}" for name in (
        "attributes.released_values", "attributes.class_reader", "evolution.enlargers",
        "release.labelled", "release.folders",
    )} <= enlarge  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    "group",
    [
        "sugarbush.generators",
        "sugarbush.methods",
        "sugarbush.encoders",
        "sugarbush.metrics",
        "sugarbush.formats",
    ],
)
def test_a_changed_plug_in_makes_every_stage_that_spends_nothing_stale(
    tmp_path: Path, group: str
) -> None:
    (tmp_path / "sugarbush").symlink_to(PACKAGE)
    info = tmp_path / "guest-1.0.dist-info"
    info.mkdir()
    (tmp_path / "guest").mkdir()
    code = tmp_path / "guest/own.py"
    code.write_text("class Own: ...\n")

    def digest(version: str = "1.0") -> str:
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: guest\nVersion: {version}\n")
        return in_another_process(
            "from sugarbush.pipeline.code import code_digest; print(code_digest())",
            path=tmp_path,
        )

    without = digest()
    (info / "entry_points.txt").write_text(f"[{group}]\nguest = guest.own:Own\n")
    installed = digest()
    code.write_text("class Own: pass\n")
    (tmp_path / "guest/words.txt").write_text("one\n")
    changed = digest()
    (tmp_path / "guest/words.txt").write_text("two\n")
    assert len({without, installed, changed, digest(), digest("1.1")}) == 5
    assert digest() == digest()


def test_files_that_python_writes_change_nothing(tmp_path: Path) -> None:
    (tmp_path / "sugarbush").mkdir()
    for path in PACKAGE.iterdir():
        if path.name != "__pycache__":
            (tmp_path / "sugarbush" / path.name).symlink_to(path)
    code = "from sugarbush.pipeline.code import code_digest; print(code_digest())"
    before = in_another_process(code, path=tmp_path)
    (tmp_path / "sugarbush/__pycache__").mkdir()
    (tmp_path / "sugarbush/__pycache__/errors.cpython-311.pyc").write_bytes(b"1")
    (tmp_path / "sugarbush/.errors.py.swp").write_bytes(b"1")
    assert in_another_process(code, path=tmp_path) == before


def test_the_example_of_an_older_version_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path / "state"))
    shutil.copy(ROOT / "params.yaml", tmp_path)
    project = open_project(tmp_path)
    corpus = tmp_path / "data/public/example/corpus.jsonl"
    make_example.run(project)
    written = corpus.read_bytes()
    corpus.write_text("old\n")
    make_example.run(project)
    assert corpus.read_text() == "old\n"  # the code is the same
    monkeypatch.setattr(make_example, "code_digest", lambda: "a newer version")
    make_example.run(project)
    assert corpus.read_bytes() == written


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path / "state"))
    shutil.copy(ROOT / "params.yaml", tmp_path)
    project = open_project(tmp_path)
    make_example.run(project)
    return project


LOCKED = "stages:\n  prepare:\n    params:\n      data/stamps/settings.json:\n        code: {}\n"


def test_the_first_run_after_an_upgrade_says_what_runs_again(
    example: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    lock = example.base / "dvc.lock"

    def said(*, only_look: bool = False) -> bool:
        fingerprint.run(example, only_look=only_look)
        return "has changed since the last run" in capsys.readouterr().out

    assert not said()
    for damaged in ("", "[", "stages: 1\n", LOCKED.format("[1]")):
        lock.write_text(damaged)
        assert code_of_last_run(example.base) is None and not said()
    lock.write_text(LOCKED.format("'" + code_digest() + "'"))
    assert not said()
    lock.write_text(LOCKED.format("an older version"))
    assert not said(only_look=True)
    assert said()


def test_the_first_run_after_an_upgrade_names_the_mechanisms_of_a_new_version(
    example: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    """They draw and charge again, also if their inputs are the same."""
    lock = example.base / "dvc.lock"
    now = {stage.name: stage.version for stage in STAGES if stage.spends}

    def said(**versions: int) -> str:
        stages = {"prepare": {"code": "an older version"}} | {
            f"{name}@maple" if name == "evolve" else name: {f"versions.{name}": version}
            for name, version in versions.items()
        }
        entries = {name: {"params": {"data/stamps/settings.json": s}} for name, s in stages.items()}
        lock.write_text(json.dumps({"stages": entries}))
        fingerprint.run(example)
        return capsys.readouterr().out

    metadata, evolve = now["synthesize_metadata"], now["evolve"]
    assert metadata is not None and evolve is not None
    assert "charge again:" not in said(synthesize_metadata=metadata, evolve=evolve)
    assert "charge again: synthesize_metadata. Other" in said(synthesize_metadata=metadata - 1)
    both = said(synthesize_metadata=metadata - 1, evolve=evolve + 1)
    assert "charge again: synthesize_metadata, evolve. Other" in both
