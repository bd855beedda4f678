import json
import os
from pathlib import Path
from typing import Any

import pytest

from sugarbush.errors import InputError
from sugarbush.pipeline.opening import open_project
from sugarbush.pipeline.stages import fingerprint
from sugarbush.pipeline.stamps import write_private_stamp
from sugarbush.privacy.budget import BudgetPlan
from sugarbush.privacy.events import GaussianDp
from sugarbush.release.card_state import has_old_card
from sugarbush.release.folders import write_release
from sugarbush.report.card import CARD_FILE
from sugarbush.run.context import Project
from sugarbush.run.records import private_store
from sugarbush.run.settings import ProjectSettings
from tests.integration.project import SCHEMA, as_lines, letters
from tests.settings import params

STAMPS = ("corpus", "schema", "donated", "pool")


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path / "state"))
    folder = tmp_path / "checkout"
    folder.mkdir()
    (folder / "letters.jsonl").write_text(as_lines(letters(30)))
    (folder / "donated.jsonl").write_text(as_lines(letters(3)))
    (folder / "public.jsonl").write_text(as_lines(letters(40)))
    (folder / "schema.yaml").write_text(json.dumps(SCHEMA))
    return folder


def own(dataset: str = "letters", **changes: Any) -> ProjectSettings:
    return params(
        privacy__purpose="release",
        privacy__dataset=dataset,
        prepare__file="letters.jsonl",
        prepare__donated="donated.jsonl",
        prepare__schema="schema.yaml",
        **changes,
    )


def stamps(base: Path, settings: ProjectSettings) -> dict[str, str]:
    fingerprint.run(open_project(base, settings=settings))
    return {name: (base / "data/stamps" / f"{name}.json").read_text() for name in STAMPS}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "stamp"), [("letters.jsonl", "corpus"), ("donated.jsonl", "donated")]
)
def test_a_changed_file_changes_its_own_stamp_alone(base: Path, file: str, stamp: str) -> None:
    before = stamps(base, own())
    with (base / file).open("a") as lines:
        lines.write("\n")
    after = stamps(base, own())
    assert [name for name in STAMPS if after[name] != before[name]] == [stamp]


def test_a_comment_in_the_schema_changes_nothing_and_a_value_does(base: Path) -> None:
    before = stamps(base, own())
    path = base / "schema.yaml"
    path.write_text("# a comment\n" + path.read_text())
    assert stamps(base, own()) == before
    path.write_text(path.read_text().replace("kettle", "teapot"))
    assert stamps(base, own())["schema"] != before["schema"]


def test_a_file_of_messages_has_a_stamp(base: Path) -> None:
    schema = SCHEMA | {"text": {"conversation": {"roles": ["user", "agent"]}}}
    (base / "schema.yaml").write_text(json.dumps(schema))
    message = {"thread": "1", "who": "user", "text": "late", "topic": "a"}
    (base / "letters.jsonl").write_text(as_lines([message]))
    columns = {"thread": "thread", "speaker": "who"}
    settings = own(prepare__messages=columns, prepare__id_column="thread")
    before = stamps(base, settings)
    (base / "letters.jsonl").write_text(as_lines([message, message | {"who": "agent"}]))
    assert stamps(base, settings)["corpus"] != before["corpus"]


def test_the_pools_files_count_only_where_the_pool_writes(base: Path) -> None:
    source = {"file": "public.jsonl", "text_column": "text", "rows": None, "share": None}
    unused = own(generator__pool__sources=[source])
    used = own(generator__pool__sources=[source], generator__provider="pool")
    before = stamps(base, unused)["pool"], stamps(base, used)["pool"]
    (base / "public.jsonl").write_text(as_lines(letters(41)))
    after = stamps(base, unused)["pool"], stamps(base, used)["pool"]
    assert after[0] == before[0]
    assert after[1] != before[1]


def test_other_texts_of_the_same_public_file_change_its_stamp(base: Path) -> None:
    """They may be private records, which stage prepare then removes."""
    source: dict[str, Any] = {"file": "public.jsonl", "text_column": "text", "share": 0.2}

    def stamp(**changes: Any) -> str:
        sources = [source | changes]
        pool = own(generator__pool__sources=sources, generator__provider="pool")
        model = own(pretrain__sources=sources, methods=["dpft"])
        return stamps(base, pool)["pool"] + stamps(base, model)["pool"]

    assert stamp() == stamp()
    assert len({stamp(), stamp(share=0.9), stamp(share=None), stamp(rows=3)}) == 4


def test_another_installations_key_gives_other_stamps_of_the_same_file(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = stamps(base, own())
    monkeypatch.setenv("SUGARBUSH_STATE", str(base.parent / "another"))
    after = stamps(base, own())
    assert all(after[name] != before[name] for name in STAMPS)


def test_a_stamp_tells_neither_size_nor_hash(base: Path) -> None:
    before = stamps(base, own())
    (base / "letters.jsonl").write_text(as_lines(letters(300)))
    after = stamps(base, own())
    assert len(after["corpus"]) == len(before["corpus"])


def test_a_stamp_whose_private_files_are_gone_is_taken_away(base: Path) -> None:
    folder = base / "data" / "private" / "prepared"
    folder.mkdir(parents=True)
    for name in ("train.parquet", "bounds.json"):
        (folder / name).write_bytes(b"")
    (base / "data/stamps").mkdir()
    for name in ("prepare", "evaluate"):
        (base / "data/stamps" / f"{name}.json").write_text("{}")
    fingerprint.run(open_project(base, settings=own()))
    assert (base / "data/stamps/prepare.json").exists()
    assert not (base / "data/stamps/evaluate.json").exists()
    (folder / "bounds.json").unlink()  # an earlier version prepared the records
    fingerprint.run(open_project(base, settings=own()))
    assert not (base / "data/stamps/prepare.json").exists()


@pytest.mark.parametrize(
    ("file", "setting"),
    [("letters.jsonl", "prepare.file"), ("donated.jsonl", "prepare.donated")],
)
def test_a_missing_file_is_named_with_its_setting(base: Path, file: str, setting: str) -> None:
    (base / file).unlink()
    with pytest.raises(InputError, match=rf"{file}: not found \(setting {setting}\)"):
        fingerprint.run(open_project(base, settings=own()))


def test_an_experiments_copy_finds_files_that_git_does_not_track(base: Path) -> None:
    before = stamps(base, own())
    copy = base / ".dvc" / "tmp" / "exps" / "standalone" / "tmp1"
    copy.mkdir(parents=True)
    assert stamps(copy, own()) == before


class ComputedAgainError(Exception):
    pass


def computed_again(project: Project) -> BudgetPlan:
    raise ComputedAgainError


def test_the_kept_plan_is_used_for_equal_settings_only(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def plan(**changes: Any) -> object:
        return fingerprint.resolved_settings(open_project(base, settings=own(**changes)))["plan"]

    computed = plan()
    monkeypatch.setattr("sugarbush.pipeline.opening.plan_of", computed_again)
    assert plan() == computed
    for changes in (
        {"privacy__epsilon": 2.0},
        {"privacy__delta": 1e-7},
        {"methods__maple__rounds": 3},
        {"methods": ["augpe"]},
    ):
        with pytest.raises(ComputedAgainError):
            plan(**changes)
    for damaged in ("", "{", "[]", '{"key": 1}'):
        (base / ".cache/plan.json").write_text(damaged)
        with pytest.raises(ComputedAgainError):
            plan()


def policy(base: Path, **changes: Any) -> str:
    fingerprint.run(
        open_project(base, settings=own(methods=["crt"], methods__crt__known=None, **changes))
    )
    return (base / "data/stamps/policy.json").read_text()


def test_the_stamp_of_private_labels_is_a_random_name(base: Path) -> None:
    """The content returns to an earlier state, and nobody sees that it does."""
    seen = []
    for count in (3, 3, 4, 3):
        (base / "labels.jsonl").write_text(as_lines(letters(count)))
        seen.append(policy(base, methods__crt__labelled="labels.jsonl"))
    assert seen[0] == seen[1]
    assert len(set(seen)) == 3


def test_a_redactor_that_is_trained_again_in_its_folder_makes_crt_stale(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(base)
    folder = base / "data/private/redactor"
    folder.mkdir(parents=True)
    (folder / "redactor.json").write_text("{}")
    seen = set()
    for weights in (b"1", b"2"):
        (folder / "model.safetensors").write_bytes(weights)
        for used in ("detectors", "conservative"):
            fields = {"detectors": ["regex"]} | {
                used: "data/private/redactor"
                if used == "conservative"
                else ["regex", "data/private/redactor"]
            }
            changes = {f"methods__crt__{name}": value for name, value in fields.items()}
            seen.add((used, policy(base, methods__crt__labelled="donated.jsonl", **changes)))
    assert len(seen) == 4


SHOW_THE_CARD = ("release_card.json", "release_card.md", "release_card.html", "index.html")


def write_card(project: Project) -> dict[str, Path]:
    """Write files that name the present state of the ledger, as stage report does."""
    folder = project.base / "reports/public"
    folder.mkdir(parents=True, exist_ok=True)
    files = {name: folder / name for name in SHOW_THE_CARD}
    for file in files.values():
        file.write_text(f"State of the ledger: {project.ledger().head()}\n")
    return files


def is_old(project: Project) -> bool:
    return has_old_card(project.roots, project.settings.privacy, project.ledger())


def charge(project: Project) -> None:
    project.ledger().charge(GaussianDp(mu=0.1), stage="evolve", run="r")


def test_a_card_of_an_earlier_state_of_the_ledger_is_written_again(base: Path) -> None:
    """Otherwise a restored card, which has a new time, would count too few charges."""
    project = open_project(base, settings=own())
    charge(project)
    files = write_card(project)
    fingerprint.run(project)
    assert files[CARD_FILE].exists()
    charge(project)
    later = project.ledger().path.stat().st_mtime + 100
    for file in files.values():
        os.utime(file, (later, later))
    fingerprint.run(project, only_look=True)
    assert files[CARD_FILE].exists() and is_old(project)
    fingerprint.run(project)
    assert not files[CARD_FILE].exists()


@pytest.mark.parametrize("name", SHOW_THE_CARD)
def test_every_public_file_with_the_card_is_compared_with_the_ledger(base: Path, name: str) -> None:
    project = open_project(base, settings=own())
    charge(project)
    old = write_card(project)[name].read_text()
    charge(project)
    files = write_card(project)
    assert not is_old(project)
    for content in (old, "a card of an earlier version"):
        files[name].write_text(content)
        assert is_old(project)


def test_a_card_of_another_dataset_is_old(base: Path) -> None:
    project = open_project(base, settings=own())
    charge(project)
    write_card(project)
    other = open_project(base, settings=own(dataset="parcels"))
    assert is_old(other)
    charge(other)
    assert is_old(other) and not is_old(project)


def test_two_projects_with_one_dataset_are_warned(
    base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = open_project(base, settings=own())
    private_store(project).folder("prepared")
    (base / "data/private/prepared/train.parquet").touch()
    write_private_stamp(project, "train_texts", digest="a", within="corpus", stage="prepare")
    fingerprint.run(project)
    assert not capsys.readouterr().out
    other = open_project(base.parent / "other", settings=own())
    write_private_stamp(other, "train_texts", digest="b", within="corpus", stage="prepare")
    fingerprint.run(project, only_look=True)
    assert not capsys.readouterr().out
    fingerprint.run(project)
    assert "another project or experiment has run on dataset 'letters'" in capsys.readouterr().out


def test_a_card_without_a_charge_of_a_released_folder_is_old(base: Path) -> None:
    """Otherwise somebody could put back the folders of an earlier release beside a new card."""
    project = open_project(base, settings=own())
    charge(project)
    files = write_card(project)
    (entry,) = project.ledger().entries()
    folder = project.roots.released / "evolve/mosaic"
    folder.mkdir(parents=True)
    write_release(
        folder, stage="evolve", ledger_ids=[entry.id], run="r", privacy=project.settings.privacy,
        ledger=project.ledger(),
    )  # fmt: skip
    assert is_old(project)
    head = project.ledger().head()
    card = {"ledger_head": head, "events": [{"id": entry.id}]}
    files[CARD_FILE].write_text(json.dumps(card, indent=2))
    assert not is_old(project)
