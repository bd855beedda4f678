"""Tests of what may be published from a project, and of the record of publications."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from typer.testing import CliRunner

from sugarbush.cli.main import app
from sugarbush.errors import MissingInputError, ParamsError, PrivacyError, StorageError
from sugarbush.pipeline.artifacts import Artifacts
from sugarbush.pipeline.opening import open_project
from sugarbush.privacy.events import DiscreteGaussian, GaussianDp
from sugarbush.publication import publish
from sugarbush.publication.records import Published, open_publications
from sugarbush.run.context import Project
from tests.hub import OWNER, hub_account
from tests.publication import COMPLETE
from tests.unit.pipeline.small_project import run_stages, write_project

pytestmark = pytest.mark.usefixtures("quick_encoder")
RECORD = "publications/release-letters.json"
NO_STAGE = frozenset({"evaluate", "audit"})


def run_all(base: Path) -> None:
    run_stages(base, without=NO_STAGE)


@pytest.fixture(scope="module")
def finished_project(tmp_path_factory: pytest.TempPathFactory, quick_encoder: None) -> Path:
    """Return a folder with a finished project in `project` and its state in `state`."""
    folder = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SUGARBUSH_STATE", str(folder / "state"))
        write_project(folder / "project", evaluate__show=False)
        run_all(folder / "project")
    return folder


@pytest.fixture
def incomplete(finished_project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A copy of the finished project without settings of a publication."""
    shutil.copytree(finished_project, tmp_path / "own")
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path / "own/state"))
    return open_project(tmp_path / "own/project")


@pytest.fixture
def project(incomplete: Project) -> Project:
    """A copy of the finished project with complete settings of a publication."""
    change(incomplete, publication=COMPLETE)
    return open_project(incomplete.base)


def change(project: Project, **sections: Any) -> None:
    path = project.base / "params.yaml"
    fields = yaml.safe_load(path.read_text())
    for name, values in sections.items():
        fields.setdefault(name, {}).update(values)
    path.write_text(yaml.safe_dump(fields, sort_keys=False))


def published(project: Project, target: Path, *, another: bool = False) -> dict[str, Any]:
    """Publish with newly read settings, and return the published card."""
    publish.publish_project(open_project(project.base), target, another=another)
    card: dict[str, Any] = json.loads((target / "release_card.json").read_text())
    return card


def refused(project: Project, target: Path, error: type[Exception], match: str) -> None:
    """Check that a publication is refused, and that nothing is left of it."""
    before = sorted(target.parent.iterdir())
    with pytest.raises(error, match=match):
        published(project, target)
    assert sorted(target.parent.iterdir()) == before
    assert not (project.state / RECORD).exists()


def draw_again(project: Project) -> None:
    """Run the stages with other settings, so that they draw and charge again."""
    change(project, privacy={"epsilon": 0.9})
    run_all(project.base)


@pytest.mark.slow
def test_the_published_texts_are_those_of_the_release(project: Project, tmp_path: Path) -> None:
    card = published(project, tmp_path / "out")
    lines = (project.base / "reports/public/synthetic_maple.jsonl").read_text().splitlines()
    table = pq.read_table(tmp_path / "out/data/train-00000-of-00001.parquet")
    assert table["text"].to_pylist() == [json.loads(line)["text"] for line in lines]
    assert card["publication"]["recipients"] == "everybody"
    assert (card["published"]["number"], card["published"]["others"]) == (1, [])
    own = json.loads((project.base / "reports/public/release_card.json").read_text())
    same = ("promise", "budget", "assumed_public", "not_covered", "made_by")
    assert {name: card[name] for name in same} == {name: own[name] for name in same}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("section", "name"), [("promise", "epsilon"), ("budget", "dataset_total_epsilon")]
)
def test_a_card_that_states_less_than_the_ledger_is_not_published(
    project: Project, tmp_path: Path, section: str, name: str
) -> None:
    """A card of an earlier version, which counted one run alone, names the ledger of now."""
    ledger = project.ledger(rehearse=False)
    ledger.charge(GaussianDp(mu=0.2), stage="evolve", run="another")
    run_all(project.base)
    path = project.roots.published / "release_card.json"
    card = json.loads(path.read_text())
    whole = card[section][name]
    card[section][name] = card["promise"]["epsilon_of_this_run"]
    assert card[section][name] < whole == ledger.total()
    path.write_text(json.dumps(card, indent=2))
    refused(project, tmp_path / "out", PrivacyError, "states less than the ledger says")
    with pytest.warns(UserWarning, match="its totals may be too small"):
        Artifacts(project.base).card()
    run_all(project.base)
    assert published(project, tmp_path / "out")[section][name] == whole


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "value"), [("delta", 1e-12), ("unit", "user"), ("records_per_unit", 2)]
)
def test_a_card_with_another_promise_than_the_settings_is_not_published(
    project: Project, tmp_path: Path, name: str, value: object
) -> None:
    path = project.roots.published / "release_card.json"
    card = json.loads(path.read_text())
    card["promise"][name] = value
    path.write_text(json.dumps(card, indent=2))
    refused(project, tmp_path / "out", PrivacyError, "states another unit or delta")


def test_one_message_names_every_missing_setting(incomplete: Project, tmp_path: Path) -> None:
    with pytest.raises(ParamsError) as refusal:
        published(incomplete, tmp_path / "out")
    assert all(f"publication.{name}" in str(refusal.value) for name in COMPLETE)
    assert "publication.url" not in str(refusal.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["contact", "curators", "review_date"])
def test_a_single_missing_setting_is_refused(name: str, project: Project, tmp_path: Path) -> None:
    change(project, publication={name: [] if name == "curators" else None})
    refused(project, tmp_path / "out", ParamsError, rf"needs publication\.{name}\. ")


def test_a_review_in_the_past_is_refused(project: Project, tmp_path: Path) -> None:
    change(project, publication={"review_date": "2020-01-01"})
    refused(project, tmp_path / "out", ParamsError, "review_date must be in the future")


def test_a_folder_that_is_not_new_is_refused(project: Project, tmp_path: Path) -> None:
    full, file, empty = tmp_path / "full", tmp_path / "file", tmp_path / "empty"
    full.mkdir()
    (full / "mine.txt").write_text("mine")
    file.write_text("mine")
    (tmp_path / "link").symlink_to(full)
    refused(project, full, ParamsError, "is not empty")
    refused(project, file, ParamsError, "is not a folder")
    refused(project, tmp_path / "link", ParamsError, "is not a folder")
    refused(project, project.base / "data/released/out", ParamsError, "that stages")
    refused(project, project.base.parent, ParamsError, "not empty")
    assert (full / "mine.txt").read_text() == "mine"
    empty.mkdir()
    published(project, empty)
    assert (empty / "README.md").exists()


def test_a_card_that_is_older_than_the_ledger_is_refused(project: Project, tmp_path: Path) -> None:
    project.ledger().charge(DiscreteGaussian(stddev=400.0), stage="other", run="r")
    refused(project, tmp_path / "out", PrivacyError, "older than the ledger")


def test_a_card_that_is_older_than_the_ledger_is_read_with_a_warning(project: Project) -> None:
    artifacts = Artifacts(project.base)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        card = artifacts.card()
    project.ledger().charge(DiscreteGaussian(stddev=400.0), stage="other", run="r")
    with pytest.warns(UserWarning, match="older than the ledger"):
        assert artifacts.card() == card


def test_a_project_without_a_card_is_refused(project: Project, tmp_path: Path) -> None:
    (project.base / "reports/public/release_card.json").unlink()
    refused(project, tmp_path / "out", MissingInputError, "report")


def test_texts_that_differ_from_the_release_are_refused(project: Project, tmp_path: Path) -> None:
    path = project.base / "reports/public/synthetic_maple.jsonl"
    path.write_text(path.read_text().replace("a", "e"))
    refused(project, tmp_path / "out", PrivacyError, "differs from the texts in")


def test_a_column_that_the_card_does_not_cover_is_refused(project: Project, tmp_path: Path) -> None:
    folders = ("reports/public/synthetic_maple.jsonl",
               "data/released/enlarge/maple/synthetic.jsonl")  # fmt: skip
    for name in folders:
        path = project.base / name
        rows = [json.loads(line) | {"name": "Ada"} for line in path.read_text().splitlines()]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    refused(project, tmp_path / "out", PrivacyError, "no attribute of the schema")


def test_charges_that_the_card_does_not_list_are_refused(project: Project, tmp_path: Path) -> None:
    path = project.base / "reports/public/release_card.json"
    card = json.loads(path.read_text())
    budget = card["budget"]
    budget["events_of_others"].append(budget["events"].pop() | {"charged": "before"})
    path.write_text(json.dumps(card))
    refused(project, tmp_path / "out", PrivacyError, "charges that the card does not list")


@pytest.mark.parametrize(
    "sections",
    [
        {"publication": {"private_columns": ["product"]}},
        {"prepare": {"id_column": "product"}},
    ],
)
def test_an_attribute_of_a_private_column_is_refused(
    sections: dict[str, Any], project: Project, tmp_path: Path
) -> None:
    change(project, **sections)
    refused(project, tmp_path / "out", PrivacyError, "'product' comes from a private column")


def test_a_description_with_a_path_of_this_machine_is_refused(
    project: Project, tmp_path: Path
) -> None:
    change(project, publication={"notes": f"The ledger is in {project.state}."})
    refused(project, tmp_path / "out", PrivacyError, "would name a private file or folder")


def test_a_benchmark_is_refused(project: Project, tmp_path: Path) -> None:
    change(project, privacy={"purpose": "benchmark"})
    refused(project, tmp_path / "out", PrivacyError, "cannot be published")


def test_the_same_release_may_be_published_again_and_counts_once(
    project: Project, tmp_path: Path
) -> None:
    first = published(project, tmp_path / "first")
    record = (project.state / RECORD).read_text()
    second = published(project, tmp_path / "second")
    assert first == second and (project.state / RECORD).read_text() == record
    names = [path.relative_to(tmp_path / "first") for path in (tmp_path / "first").rglob("*.*")]
    assert len(names) == 9
    for name in names:
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()


def test_another_release_of_the_dataset_is_refused_or_counted(
    project: Project, tmp_path: Path
) -> None:
    first = published(project, tmp_path / "first")
    draw_again(project)
    with pytest.raises(PrivacyError, match=r"was published before .* together they have epsilon 1"):
        published(project, tmp_path / "second")
    assert not (tmp_path / "second").exists()
    second = published(project, tmp_path / "second", another=True)
    assert second["published"]["number"] == 2 and len(second["published"]["others"]) == 1
    assert second["published"]["epsilon_of_all"] > first["promise"]["epsilon"] + 0.1
    assert second["published"]["epsilon_of_all"] <= second["budget"]["dataset_total_epsilon"]
    assert second["deployment"]["release_type"] == "Many releases"
    text = (tmp_path / "second/release_card.md").read_text()
    assert "Publication 2 of this dataset" in text
    record = yaml.safe_load((tmp_path / "second/registry.yaml").read_text())["deployment"]
    assert record["deployment_model"]["release_type"] == "Many releases"


def test_charges_of_another_method_on_the_card_are_in_the_common_epsilon(
    project: Project, tmp_path: Path
) -> None:
    fields = yaml.safe_load((project.base / "params.yaml").read_text())
    (project.base / "params.yaml").write_text(yaml.safe_dump(fields | {"methods": {"public": {}}}))
    run_all(project.base)
    card = published(project, tmp_path / "out")
    assert card["made_by"]["methods"] == ["public"]
    assert any(event["stage"] == "evolve@maple" for event in card["budget"]["events_of_others"])
    assert card["published"]["epsilon_of_all"] == card["promise"]["epsilon"] > 0.9


@pytest.mark.parametrize("name", ["registry_record", "citation", "card_files"])
def test_a_failure_leaves_no_folder_and_no_record(
    name: str, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(f"sugarbush.publication.folder.{name}", fail)
    refused(project, tmp_path / "out", StorageError, "could not be written")


def test_a_crash_after_the_record_counts_the_publication_once(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replaced = Path.replace

    def fail(path: Path, target: Path) -> Path:
        if Path(target) == tmp_path / "out":
            raise KeyboardInterrupt
        return replaced(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", fail)
        with pytest.raises(KeyboardInterrupt):
            published(project, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert len(json.loads((project.state / RECORD).read_text())) == 1
    assert published(project, tmp_path / "out")["published"]["number"] == 1


def test_a_damaged_record_is_refused(project: Project, tmp_path: Path) -> None:
    (project.state / "publications").mkdir()
    (project.state / RECORD).write_text("[{}]")
    with pytest.raises(StorageError, match="is damaged"):
        published(project, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_record_is_readable_by_the_owner_only(project: Project, tmp_path: Path) -> None:
    published(project, tmp_path / "out")
    assert (project.state / "publications").stat().st_mode & 0o077 == 0
    assert (project.state / RECORD).stat().st_mode & 0o077 == 0


def test_the_command_prints_the_guarantee_and_the_count(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.base)
    result = CliRunner().invoke(app, ["publish", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    assert "per record" in result.output and "1 of dataset letters" in result.output
    assert str(tmp_path / "out") in result.output


@pytest.mark.filterwarnings("ignore")  # of huggingface_hub
def test_an_upload_that_breaks_is_resumed_by_the_same_command(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.base)
    command = ["publish", str(tmp_path / "out"), "--to", f"hf://{OWNER}/letters"]
    with hub_account(monkeypatch) as hub:
        hub.broken = "/commit/"
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 1 and "run the same command again" in result.output
        assert (tmp_path / "out/README.md").exists()
        assert list(hub.repositories[f"{OWNER}/letters"]) == [".gitattributes"]
        hub.broken = "a^"
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 0, result.output
        assert f"{hub.address}/datasets/{OWNER}/letters" in result.output
        sent = hub.repositories[f"{OWNER}/letters"]
    for path in (tmp_path / "out").rglob("*.*"):
        assert sent.pop(path.relative_to(tmp_path / "out").as_posix()) == path.read_bytes()
    assert list(sent) == [".gitattributes"]
    assert len(json.loads((project.state / RECORD).read_text())) == 1


def test_an_upload_without_rights_publishes_nothing(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.base)
    with hub_account(monkeypatch):
        command = ["publish", str(tmp_path / "out"), "--to", "hf://others/letters"]
        result = CliRunner().invoke(app, command)
    assert result.exit_code == 2 and "may not write to others" in result.output
    assert not (tmp_path / "out").exists() and not (project.state / RECORD).exists()


@pytest.mark.parametrize("name", ["README.md", "more.txt"])
def test_only_the_same_publication_is_resumed(name: str, project: Project, tmp_path: Path) -> None:
    published(project, tmp_path / "out")
    publish.publish_project(project, tmp_path / "out", another=False, resume=True)
    (tmp_path / "out" / name).write_text("mine")
    with pytest.raises(ParamsError, match="contains another publication or other files"):
        publish.publish_project(project, tmp_path / "out", another=False, resume=True)
    assert (tmp_path / "out" / name).read_text() == "mine"


def test_datasets_are_counted_apart(tmp_path: Path) -> None:
    release = Published(date="2026-01-01", ledger_ids=("a", "b"), epsilon=1.0, delta=1e-6)
    with open_publications(tmp_path, "release-one") as one:
        one.add(release)
    with open_publications(tmp_path, "release-two") as two:
        assert two.number_of(["a"]) is None
    with open_publications(tmp_path, "release-one") as one:
        assert one.releases == (release,)
        assert one.number_of(["a"]) == one.number_of([]) == 1
        assert one.number_of(["a", "c"]) is None
