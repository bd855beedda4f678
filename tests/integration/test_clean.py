"""`sugarbush clean --private` removes every private file of a project, and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.integration.project import Checkout, letters, make_project

EXPS = ".dvc/tmp/exps"


def clean(checkout: Checkout, *options: str, code: int | None = 0) -> str:
    command = (str(Path(sys.executable).parent / "sugarbush"), "clean", "--private", *options)
    finished = checkout.run(*command, code=code, stdin="")
    return finished.stdout + finished.stderr


def write(path: Path, text: str = "private") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    (tmp_path / "project").mkdir()
    (tmp_path / "project/params.yaml").write_text("not: [yaml")  # no settings are needed
    return Checkout(tmp_path / "project", tmp_path / "state")


def test_private_files_go_also_in_copies_and_all_others_stay(checkout: Checkout) -> None:
    base = checkout.path
    private = [
        write(base / place / name)
        for place in (".", f"{EXPS}/tmp1", f"{EXPS}/standalone/tmp2")
        for name in (
            "data/private/prepared/train.parquet",
            "data/private/labels/answers/a",
            "data/private/.prepared.1-x/train.parquet",
            "reports/internal/index.html",
        )
    ]
    others = [
        write(base / name)
        for name in (
            "letters.jsonl", "data/released/a", "data/public/schema.yaml", "reports/public/card.md",
            "data/stamps/prepare.json", f"{EXPS}/tmp1/params.yaml",
        )
    ]  # fmt: skip
    others.append(write(checkout.state / "ledger.jsonl"))
    printed = clean(checkout, code=2)
    assert "--yes" in printed
    assert all(path.exists() for path in private)
    printed = clean(checkout, "--yes")
    assert not any(path.exists() for path in private)
    assert all(path.exists() for path in others)
    assert f"{EXPS}/standalone/tmp2/data/private" in printed
    assert "ledger" in printed
    assert "No private files" in clean(checkout, "--yes")


@pytest.mark.parametrize(("answer", "removed"), [(b"n\n", False), (b"y\n", True)])
def test_a_terminal_is_asked_first(checkout: Checkout, answer: bytes, removed: bool) -> None:
    path = write(checkout.path / "data/private/train.parquet")
    terminal, end = os.openpty()
    os.write(terminal, answer)
    command = (str(Path(sys.executable).parent / "sugarbush"), "clean", "--private")
    finished = subprocess.run(
        command, cwd=checkout.path, env=checkout.environment, stdin=end, capture_output=True,
        check=False,
    )  # fmt: skip
    os.close(terminal)
    os.close(end)
    assert (finished.returncode == 0) == removed
    assert path.exists() != removed


@pytest.mark.parametrize("place", ["data/private", "data", EXPS, f"{EXPS}/tmp1/data"])
def test_nothing_is_removed_through_a_link(checkout: Checkout, tmp_path: Path, place: str) -> None:
    outside = tmp_path / "outside"
    for name in ("private", "tmp1/data/private", "x"):
        write(outside / name / "train.parquet")
    link = checkout.path / place
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(outside)
    inside = write(checkout.path / "reports/internal/index.html")
    (inside.parent / "link").symlink_to(outside)
    clean(checkout, "--yes", code=2 if place != f"{EXPS}/tmp1/data" else 0)
    assert not inside.exists()
    assert sum(path.is_file() for path in outside.rglob("*")) == 3


def test_copies_of_another_project_of_the_repository_stay(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    (repository / ".git").mkdir(parents=True)
    mine = write(repository / f"{EXPS}/tmp1/mine/data/private/a")
    other = write(repository / f"{EXPS}/tmp1/other/data/private/a")
    write(repository / "mine/params.yaml")
    clean(Checkout(repository / "mine", tmp_path / "state"), "--yes")
    assert not mine.exists()
    assert other.exists()


@pytest.mark.slow
@pytest.mark.xdist_group("dvc")
def test_a_killed_experiment_leaves_no_private_file_after_clean(tmp_path: Path) -> None:
    checkout = make_project(
        tmp_path / "project", tmp_path / "state", methods=["maple"], embedding__model="tiny"
    )
    command = (sys.executable, "-m", "dvc", "exp", "run", "--temp")
    process = subprocess.Popen(
        command, cwd=checkout.path, env=checkout.environment, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        while not (found := list(checkout.path.glob(f"{EXPS}/**/prepared/train.parquet"))):
            assert process.poll() is None
            time.sleep(0.05)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert found[0].exists()
    clean(checkout, "--yes")
    texts = [letter["text"].encode() for letter in letters(146)[6:]]
    for path in checkout.path.rglob("*"):
        assert path.suffix != ".parquet"
        if path.is_file() and path.name != "letters.jsonl":
            assert not any(text in path.read_bytes() for text in texts), path


def test_a_file_that_the_settings_name_stops_the_removal(checkout: Checkout) -> None:
    own = write(checkout.path / "data/private/tickets.csv")
    other = write(checkout.path / "data/private/prepared/train.parquet")
    (checkout.path / "params.yaml").write_text("prepare: {file: data/private/tickets.csv}\n")
    assert "data/private/tickets.csv" in clean(checkout, "--yes", code=2)
    assert own.exists() and other.exists()


def test_a_folder_without_settings_is_no_project(tmp_path: Path) -> None:
    other = write(tmp_path / "elsewhere/data/private/a")
    said = clean(Checkout(tmp_path / "elsewhere", tmp_path / "state"), "--yes", code=None)
    assert "has no params.yaml" in said
    assert other.exists()


def test_own_labels_stop_the_removal(checkout: Checkout) -> None:
    labels = write(checkout.path / "data/private/redaction/labels.jsonl")
    assert "labels" in clean(checkout, "--yes", code=2)
    assert labels.exists()
