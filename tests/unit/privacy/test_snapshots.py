"""Tests that public files show whether two private inputs are equal only for consecutive runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sugarbush.api.ledgers import open_ledger
from sugarbush.errors import StorageError
from sugarbush.paths import state_root
from sugarbush.pipeline.opening import open_project
from sugarbush.pipeline.stages import fingerprint
from sugarbush.privacy.snapshots import Snapshots
from sugarbush.run.choices import environment_for
from tests.integration.project import TINY_ENCODER, as_lines, letters
from tests.unit.pipeline.small_project import run_stages, write_project

A = letters(146)[6:]
B = A[:-1]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path / "state"))
    monkeypatch.delenv("DVC_STAGE", raising=False)
    monkeypatch.syspath_prepend(TINY_ENCODER)
    write_project(tmp_path / "project", methods=["maple"], embedding__model="tiny")
    return tmp_path / "project"


def released(base: Path) -> dict[str, str]:
    """Return the run ids of all released folders, and all stamps of private files."""
    found = {
        str(path.parent.relative_to(base)): json.loads(path.read_text())["run"]
        for path in (base / "data/released").rglob("release.json")
    }
    for name in ("corpus", "prepare", "train_texts", "extract_metadata", "train_codes"):
        found[name] = json.loads((base / f"data/stamps/{name}.json").read_text())["stamp"]
    return found


def run_on(base: Path, rows: list[dict[str, str]]) -> dict[str, str]:
    (base / "letters.jsonl").write_text(as_lines(rows))
    run_stages(base)
    return released(base)


def charges(base: Path) -> int:
    return len(open_project(base).ledger().entries())


@pytest.mark.slow
def test_a_corpus_that_returns_to_an_earlier_state_is_a_new_release(project: Path) -> None:
    first = run_on(project, A)
    once = charges(project)
    assert run_on(project, A) == first
    assert charges(project) == once
    second = run_on(project, B)
    third = run_on(project, A)
    assert charges(project) == 3 * once
    for one, other in ((first, second), (second, third), (first, third)):
        assert one.keys() == other.keys()
        assert not set(one.values()) & set(other.values())


@pytest.mark.slow
def test_a_change_that_no_stage_after_it_sees_renews_every_name(project: Path) -> None:
    """The identifiers of all private files change.

    Otherwise public files would show that only held-out records or only the order of rows changed.
    """
    first = run_on(project, A)
    for rows in ([row | {"unused": "column"} for row in A], A):
        second = run_on(project, rows)
        assert not set(first.values()) & set(second.values())
        first = second


@pytest.mark.slow
def test_a_forced_run_renews_every_name(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = run_on(project, A)
    for name, value in environment_for(new_draw=True).items():
        monkeypatch.setenv(name, value)
    second = run_on(project, A)
    assert not set(first.values()) & set(second.values())


@pytest.mark.slow
def test_looking_at_another_corpus_spends_no_name(project: Path) -> None:
    """`sugarbush budget` checks whether a run would spend budget. It must change no identifier."""
    first = run_on(project, A)
    (project / "letters.jsonl").write_text(as_lines(B))
    fingerprint.run(open_project(project), only_look=True)
    assert released(project)["corpus"] != first["corpus"]
    assert run_on(project, A) == first


def test_the_name_of_an_input_is_no_function_of_it(tmp_path: Path) -> None:
    """Nine state folders give nine different identifiers to the same digest."""
    names = {Snapshots(tmp_path / str(i), "release-x").of("a", digest="d") for i in range(9)}
    assert len(names) == 9


def test_a_renewed_parent_renews_what_was_computed_from_it(tmp_path: Path) -> None:
    names = Snapshots(tmp_path, "release-x")
    first = names.of("codes", digest="c", within="1")
    assert names.of("codes", digest="c", within="1") == first
    assert names.of("codes", digest="c", within="2") != first


@pytest.mark.parametrize("kind", ["", "standalone"])  # copies of DVC's queue, and of --temp
@pytest.mark.parametrize("named", ["state", "./state", "../state"])
def test_a_relative_state_folder_is_one_of_the_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str, kind: str
) -> None:
    """DVC deletes the copy of an experiment, so the state folder must not be in the copy."""
    monkeypatch.setenv("SUGARBUSH_STATE", named)
    checkout = tmp_path / "checkout"
    copy = checkout / ".dvc" / "tmp" / "exps" / kind / "tmp1234"
    copy.mkdir(parents=True)
    assert state_root(copy).resolve() == state_root(checkout).resolve()
    assert state_root(checkout).resolve() == (checkout / named).resolve()
    monkeypatch.chdir(copy)
    assert state_root(Path()).resolve() == (checkout / named).resolve()


@pytest.mark.parametrize("dvc_in", ["repository", "project"])
def test_the_copy_of_a_project_in_a_folder_of_its_repository_has_the_projects_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dvc_in: str
) -> None:
    """DVC copies the whole repository. The folder `.dvc` is at its top or in the project."""
    monkeypatch.setenv("SUGARBUSH_STATE", "state")
    repository = tmp_path / "repository"
    project = repository / "projects/letters"
    (repository / ".git").mkdir(parents=True)
    dvc = {"repository": repository, "project": project}[dvc_in] / ".dvc"
    copy = dvc / "tmp/exps/tmp1234/projects/letters"
    copy.mkdir(parents=True)
    assert state_root(copy) == state_root(project) == project / "state"


def test_a_project_in_a_folder_that_is_called_as_dvcs_is_no_copy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SUGARBUSH_STATE", "state")
    for base in (Path("/tmp/exps/letters"), Path("/home/me/tmp/exps/letters")):
        assert state_root(base) == base / "state"


def test_a_relative_state_of_the_api_is_one_folder_whatever_folder_the_program_enters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the program changes its working folder, a relative state folder must stay the same.

    Otherwise a second ledger would start at 0, or a ledger would be in a copy that DVC deletes.
    """
    copy = tmp_path / ".dvc/tmp/exps/tmp1234"
    copy.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    ledger = open_ledger("letters", state="mine")
    monkeypatch.chdir(copy)
    assert ledger.path.is_absolute()
    assert open_ledger("letters", state=Path("mine")).path == ledger.path


@pytest.mark.parametrize("content", ["", "[]", '{"a": 3}', '{"a": {"digest": "d"}}'])
def test_damaged_names_are_refused_with_what_to_do(tmp_path: Path, content: str) -> None:
    file = tmp_path / "snapshots/release-x.json"
    file.parent.mkdir()
    file.write_text(content)
    with pytest.raises(StorageError, match="delete it"):
        Snapshots(tmp_path, "release-x").of("a", digest="d")


def test_a_name_is_kept_only_for_the_same_settings_and_public_files(tmp_path: Path) -> None:
    """A run that reuses a release must not keep records that other settings have prepared."""
    names = Snapshots(tmp_path, "release-tickets")
    assert names.kept("prepare", within="a", public="b") is None
    given = names.of("prepare", digest="d", within="a", public="b")
    assert names.kept("prepare", within="a", public="b") == given
    assert names.kept("prepare", within="a", public="c") is None
    assert names.kept("prepare", within="c", public="b") is None
