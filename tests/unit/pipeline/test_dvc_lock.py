"""Tests that a dvc.lock which a kill cut off does not stop the next run."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from dvc.lock import make_lock
from dvc.repo import Repo

from sugarbush.errors import LedgerError
from sugarbush.pipeline.dvc_lock import COPY, LOCK, RUNNING, copy_lock, restore_lock
from sugarbush.pipeline.flow import run_dvc
from sugarbush.pipeline.foreign_releases import refuse_foreign_releases
from sugarbush.run.records import snapshots_of
from tests.unit.pipeline.small_project import write_project
from tests.unit.pipeline.test_foreign_releases import write_lock

STAGES = {"stages": {
    "first": {"cmd": "echo 1 > first.txt", "outs": [{"first.txt": {"cache": False}}]},
    "second": {
        "cmd": "cp first.txt second.txt", "deps": ["first.txt"],
        "outs": [{"second.txt": {"cache": False}}],
    },
}}  # fmt: skip


@pytest.fixture
def base(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    Repo.init(str(tmp_path)).close()
    (tmp_path / "dvc.yaml").write_text(yaml.safe_dump(STAGES))
    return tmp_path


def run(base: Path) -> list[str]:
    lines: list[str] = []
    run_dvc("repro", say=lines.append, folder=base)
    return [line for line in lines if line.startswith("Running")]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:dvc.lock was cut off")
def test_after_each_cut_dvc_reads_the_lock_again(base: Path) -> None:
    write_lock(base, "name")
    whole = (base / LOCK).read_bytes()
    copy_lock(base)
    restored = 0
    for size in range(0, len(whole), 11):
        (base / LOCK).write_bytes(whole[:size])
        restore_lock(base)
        restored += (base / LOCK).read_bytes() == whole
        with Repo(str(base)) as repo:
            repo.stage.load_all()
    assert restored > len(whole) // 11 // 4  # at the other cuts, DVC reads the file as it is


@pytest.mark.slow
def test_a_run_continues_after_a_kill_while_dvc_wrote_its_lock(base: Path) -> None:
    assert len(run(base)) == 2
    copy_lock(base)
    whole = (base / LOCK).read_bytes()
    (base / LOCK).write_bytes(whole[:30])
    with pytest.warns(UserWarning, match="cut off"):
        assert run(base) == []
    assert (base / LOCK).read_bytes() == whole


def test_an_empty_first_lock_is_deleted(base: Path) -> None:
    (base / LOCK).touch()
    read_lock(base)
    assert not (base / LOCK).exists()
    assert len(run(base)) == 2


def test_a_first_lock_without_a_copy_is_deleted_if_it_names_no_release(base: Path) -> None:
    for cut in ("sche", "schema: '2.0'\n", "schema: '2.0'\nstages:\n  fi"):
        (base / LOCK).write_text(cut)
        read_lock(base)
        assert not (base / LOCK).exists()
    release = "schema: '2.0'\nstages:\n  evolve@maple:\n    de"
    (base / LOCK).write_text(release)
    restore_lock(base)
    assert (base / LOCK).read_text() == release


def test_a_copy_that_is_cut_off_replaces_nothing(base: Path) -> None:
    release = "schema: '2.0'\nstages:\n  evolve@maple:\n    de"
    (base / LOCK).write_text(release)
    copy_lock(base)
    (base / LOCK).write_text(release[:-2])
    restore_lock(base)
    assert (base / LOCK).read_text() == release[:-2]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:dvc.lock was cut off")
def test_no_cut_of_the_lock_makes_a_release_of_this_machine_look_foreign(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part of the file may be valid, but lack the name of the texts that a stage read."""
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path / "state"))
    project = write_project(base)
    name = snapshots_of(project).of("train_texts", digest="1")
    write_lock(base, name)
    grown = yaml.safe_load((base / LOCK).read_text())
    entry = grown["stages"]["evolve@maple"]  # DVC writes the outputs last
    grown["stages"]["evolve@maple"] = {k: entry[k] for k in ("cmd", "deps", "params", "outs")}
    (base / LOCK).write_text(yaml.safe_dump(grown, sort_keys=False))
    first = (base / LOCK).read_bytes()
    restore_lock(base)  # as every run does: copies the lock
    for again in ("measure", "synthesize_metadata"):
        entry = grown["stages"]["evolve@maple"]
        grown["stages"][again] = entry | {"outs": [entry["outs"][0] | {"nfiles": 2}]}
    (base / LOCK).write_text(yaml.safe_dump(grown, sort_keys=False))
    whole = (base / LOCK).read_bytes()
    refuse_foreign_releases(project)
    foreign = 0
    lines = itertools.accumulate(map(len, whole.splitlines(keepends=True)))
    for size in sorted({*lines, *range(0, len(whole), 17)}):
        (base / LOCK).write_bytes(whole[:size])
        try:
            refuse_foreign_releases(project)
        except LedgerError:
            foreign += 1
            restore_lock(base)
            refuse_foreign_releases(project)
            assert (base / LOCK).read_bytes() == first
    assert foreign > 10  # cuts that the next run would refuse without the copy
    (base / LOCK).write_bytes(whole)
    restore_lock(base)
    assert (base / LOCK).read_bytes() == whole == (base / COPY).read_bytes()


def test_a_merge_conflict_stays(base: Path) -> None:
    run(base)
    copy_lock(base)
    conflict = f"<<<<<<< ours\n{(base / LOCK).read_text()}=======\n>>>>>>> theirs\n"
    (base / LOCK).write_text(conflict)
    restore_lock(base)
    assert (base / LOCK).read_text() == conflict


@pytest.mark.slow
def test_a_deleted_lock_does_not_come_back(base: Path) -> None:
    run(base)
    copy_lock(base)
    (base / LOCK).unlink()
    restore_lock(base)
    assert not (base / LOCK).exists()
    assert len(run(base)) == 2


@pytest.mark.slow
def test_a_lock_that_dvc_is_writing_stays(base: Path) -> None:
    run(base)
    copy_lock(base)
    (base / LOCK).write_text("")
    hold = (
        "from dvc.repo import Repo\nwith Repo() as repo, repo.lock:\n print(flush=True)\n input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", hold], cwd=base, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        other.stdout.readline()
        restore_lock(base)
        assert (base / LOCK).read_text() == ""
        other.communicate(b"\n")


def test_the_copy_is_in_no_commit(base: Path) -> None:
    subprocess.run(["git", "check-ignore", "--quiet", COPY], cwd=base, check=True)


def read_lock(base: Path) -> None:
    restore_lock(base)
    with Repo(str(base)) as repo:
        assert len(repo.index.stages) == 2


@pytest.mark.slow
@pytest.mark.parametrize("content", ["", '{"write": {"/a": {"pid"'])
def test_a_list_of_running_processes_that_a_kill_cut_off_stops_no_run(
    base: Path, content: str
) -> None:
    (base / RUNNING).parent.mkdir(parents=True, exist_ok=True)
    (base / RUNNING).write_text(content)
    assert run(base) == ["Running stage 'first':", "Running stage 'second':"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["write", "read"])
def test_the_number_of_a_killed_process_that_another_program_has_now_stops_no_run(
    base: Path, kind: str
) -> None:
    """After the restart of a container, the numbers of processes start again from 1."""
    path = base / RUNNING
    path.parent.mkdir(parents=True, exist_ok=True)
    with subprocess.Popen(["sleep", "3600"]) as other:
        info = {"pid": other.pid, "cmd": "dvc repro"}
        files = [str(base / "first.txt"), str(base / "second.txt")]
        listed = dict.fromkeys(files, [info] if kind == "read" else info)
        path.write_text(json.dumps({kind: listed}))
        assert run(base) == ["Running stage 'first':", "Running stage 'second':"]
        other.kill()


def test_a_running_dvc_stays_in_the_list(base: Path) -> None:
    path = base / RUNNING
    path.parent.mkdir(parents=True, exist_ok=True)
    with subprocess.Popen([sys.executable, "-c", "input()", "dvc"], stdin=subprocess.PIPE) as dvc:
        listed = {"write": {str(base / "a"): {"pid": dvc.pid, "cmd": "dvc repro"}}, "read": {}}
        path.write_text(json.dumps(listed))
        restore_lock(base)
        assert json.loads(path.read_text()) == listed
        dvc.communicate(b"\n")
    restore_lock(base)
    assert json.loads(path.read_text()) == {"write": {}, "read": {}}


def test_the_list_of_a_process_that_writes_it_stays(base: Path) -> None:
    path = base / RUNNING
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("")
    with make_lock(f"{path}.lock", tmp_dir=str(path.parent)):
        restore_lock(base)
        assert path.exists()
    restore_lock(base)
    assert not path.exists()
