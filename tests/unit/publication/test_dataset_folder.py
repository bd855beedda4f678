"""Tests that other programs open a published folder: datasets, mlcroissant, the registry."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
from html import unescape
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
import yaml

import sugarbush as sb
from sugarbush.privacy.accounting import rounded_up
from sugarbush.privacy.events import DiscreteGaussian
from sugarbush.publication.content import Publication
from sugarbush.publication.folder import write_dataset
from sugarbush.release.columns import typed_table
from sugarbush.report.card_values import release_card
from sugarbush.report.officer import with_publication
from sugarbush.report.settings import PublicationSettings
from sugarbush.report.templating import plain
from sugarbush.report.verdict import Verdict
from tests.hub import OWNER, hub_account
from tests.publication import COMPLETE
from tests.settings import ROOT
from tests.synthesized import synthesize_frame
from tests.unit.report import sample

REGISTRY = ROOT.parent / "shared" / "registry" / "deployments-schema.yaml"
FRAME = pd.DataFrame(
    {
        "message": [f"Order {i} of my lamp arrived late" for i in range(150)],
        "stars": [1 + i % 3 for i in range(150)],
        "mood": ["calm" if i % 4 else "angry" for i in range(150)],
    }
)
SCHEMA = {
    "subject": "letters to a shop",
    "attributes": [
        {"name": "stars", "column": "stars", "values": [1, 2, 3], "description": "of the shop"},
        {"name": "mood", "column": "mood", "values": ["calm", "angry"]},
    ],
}
POOL = [f"The parcel number {i} was {word}" for i in range(40) for word in ("broken", "late")]
PARQUET = "data/train-00000-of-00001.parquet"


def synthesized(
    state: Path, *, dataset: str = "letters", frame: pd.DataFrame = FRAME, **more: Any
) -> sb.Release:
    return synthesize_frame(
        frame,
        text="message",
        schema=SCHEMA,
        method=sb.Mosaic(candidates=30, prompt="metadata"),
        generator=sb.Pool(texts=POOL),
        texts=10,
        state=state,
        accept_poor=True,
        **{"privacy": sb.Privacy(epsilon=1, dataset=dataset), **more},
    )


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("state") / "state"


@pytest.fixture(scope="module")
def release(state: Path, quick_encoder: None) -> sb.Release:
    return synthesized(state)


@pytest.fixture(scope="module")
def folder(release: sb.Release, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("published") / "letters"
    return release.publish(target, publication=COMPLETE)


def metadata_block(folder: Path) -> dict[str, Any]:
    _, block, _ = (folder / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    fields: dict[str, Any] = yaml.safe_load(block)
    return fields


def test_the_folder_contains_these_files_and_nothing_else(folder: Path) -> None:
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert names == {
        "README.md", "metadata.json", "croissant.json", "release_card.json", "release_card.md",
        "release_card.html", "registry.yaml", "CITATION.cff", PARQUET,
    }  # fmt: skip


def test_columns_have_types_and_the_texts_are_those_of_the_release(
    folder: Path, release: sb.Release
) -> None:
    table = pq.read_table(folder / PARQUET)
    types = {field.name: str(field.type) for field in table.schema}
    assert types["id"] == "int64" and types["text"] == "string" and types["weight"] == "double"
    assert types["requested_stars"] == "int64" and types["requested_mood"] == "string"
    assert table["text"].to_pylist() == list(release.texts)
    assert list(table.column_names) == list(release.frame.columns)
    wanted = release.frame["requested_stars"].astype(object).where(lambda v: v.notna(), None)
    assert table["requested_stars"].to_pylist() == wanted.tolist()


def test_the_readme_has_the_metadata_of_dataset_hubs(folder: Path, release: sb.Release) -> None:
    block = metadata_block(folder)
    assert block["license"] == "cc-by-4.0" and block["language"] == ["en"]
    assert block["size_categories"] == ["n<1K"]
    assert {"synthetic", "differential-privacy"} <= set(block["tags"])
    assert "text-generation" in block["task_categories"]
    from huggingface_hub import DatasetCard

    assert DatasetCard.load(folder / "README.md").data.pretty_name == release.card["title"]
    (config,) = block["configs"]
    assert config["data_files"] == [{"split": "train", "path": "data/train-*.parquet"}]
    text = (folder / "README.md").read_text(encoding="utf-8")
    assert "10 synthetic texts in place of private letters to a shop" in text
    assert release.verdict.grade in text and COMPLETE["intended_use"] in text


def test_another_licence_than_the_common_ones_is_named_as_another(
    release: sb.Release, tmp_path: Path
) -> None:
    settings = COMPLETE | {"licence": "Library Licence 2"}
    target = release.publish(tmp_path / "out", publication=settings)
    block = metadata_block(target)
    assert (block["license"], block["license_name"]) == ("other", "Library Licence 2")
    assert "license" not in yaml.safe_load((target / "CITATION.cff").read_text())


def test_the_citation_names_the_curators(folder: Path) -> None:
    fields = yaml.safe_load((folder / "CITATION.cff").read_text(encoding="utf-8"))
    assert fields["cff-version"] == "1.2.0" and fields["type"] == "dataset"
    assert [author["name"] for author in fields["authors"]] == COMPLETE["curators"]
    assert fields["license"] == "CC-BY-4.0" and fields["message"]


def test_metadata_json_lists_columns_and_digests(folder: Path) -> None:
    fields = json.loads((folder / "metadata.json").read_text(encoding="utf-8"))
    config = fields["configs"]["default"]
    assert config["rows"] == 10 and config["file"] == PARQUET
    columns = {column["name"]: column for column in config["columns"]}
    assert columns["requested_stars"]["type"] == "int64"
    assert columns["requested_mood"]["values"] == ["calm", "angry", "other"]
    assert fields["guarantee"]["epsilon"] <= 1


def run_in_process(program: str, *arguments: str, cache: Path) -> str:
    """Run a program that imports a large library. Its caches are in `cache`."""
    command = [sys.executable, "-c", textwrap.dedent(program), *arguments]
    environment = {
        "PATH": "/usr/bin:/bin", "HOME": str(cache), "HF_HOME": str(cache), "HF_HUB_OFFLINE": "1",
        "PYTHONPATH": ":".join(filter(None, sys.path)),
    }  # fmt: skip
    finished = subprocess.run(
        command, env=environment, text=True, capture_output=True, check=False, cwd=cache
    )
    assert finished.returncode == 0, finished.stderr[-3000:]
    return finished.stdout


@pytest.mark.slow
@pytest.mark.skipif(find_spec("datasets") is None, reason="datasets is not installed: extra `dev`")
def test_load_dataset_opens_the_folder_in_one_line(folder: Path, tmp_path: Path) -> None:
    program = """
        import json, sys
        from datasets import load_dataset
        texts = load_dataset(sys.argv[1], split="train")
        print(json.dumps([len(texts), {n: f.dtype for n, f in texts.features.items()}, texts[0]]))
    """
    printed = run_in_process(program, str(folder), cache=tmp_path)
    rows, types, first = json.loads(printed.splitlines()[-1])
    assert rows == 10 and first["text"] in POOL
    assert types["text"] == "string" and types["requested_stars"] == "int64"


@pytest.mark.slow
@pytest.mark.skipif(find_spec("mlcroissant") is None, reason="mlcroissant is not installed: `dev`")
def test_mlcroissant_accepts_the_description_and_reads_the_records(
    folder: Path, tmp_path: Path
) -> None:
    program = """
        import json, logging, sys
        import mlcroissant
        logging.getLogger("absl").addHandler(logging.FileHandler("log"))
        dataset = mlcroissant.Dataset(sys.argv[1])
        issues = dataset.metadata.ctx.issues
        assert "not standard" not in open("log").read()
        rows = list(dataset.records("default"))
        first = rows[0]["default/text"].decode()
        print(json.dumps([sorted(issues.errors), sorted(issues.warnings), len(rows), first]))
    """
    printed = run_in_process(program, str(folder / "croissant.json"), cache=tmp_path)
    errors, warnings, rows, first = json.loads(printed.splitlines()[-1])
    assert not errors and not warnings
    assert rows == 10 and first in POOL


@pytest.fixture(scope="module")
def registry() -> Any:
    """Return the registry's schema of a record."""
    if not REGISTRY.exists():
        pytest.skip(f"the schema of the deployment registry is not at {REGISTRY}")
    return yaml.safe_load(REGISTRY.read_text(encoding="utf-8"))


def fields_of_tiers(schema: Any, path: str = "") -> set[str]:
    """Return the dotted names of the fields that belong to a tier."""
    names = set()
    for name, field in schema.get("properties", {}).items():
        here = f"{path}.{name}" if path else name
        names |= {here} if "tier" in field else fields_of_tiers(field, here)
    return names


def value_at(fields: Any, path: str) -> Any:
    for name in path.split("."):
        fields = fields.get(name, {})
    return fields


def test_the_registry_accepts_the_record(folder: Path, registry: Any) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    record = yaml.safe_load((folder / "registry.yaml").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(registry).validate(record)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(registry).validate(record | {"tier": 4})


def test_the_record_has_every_field_of_tier_3(folder: Path, registry: Any) -> None:
    record = yaml.safe_load((folder / "registry.yaml").read_text(encoding="utf-8"))
    assert record["tier"] == 3
    names = fields_of_tiers(registry)
    assert len(names) > 25
    assert not [name for name in sorted(names) if value_at(record, name) in ({}, "", None, [])]


def test_the_record_states_what_the_card_and_the_settings_state(folder: Path) -> None:
    record = yaml.safe_load((folder / "registry.yaml").read_text(encoding="utf-8"))["deployment"]
    card = json.loads((folder / "release_card.json").read_text(encoding="utf-8"))
    loss = record["privacy_loss"]
    assert loss["privacy_parameters"]["epsilon"] == card["promise"]["epsilon"]
    assert loss["privacy_unit"] == "Record-level"
    implementation = record["implementation"]
    for event in card["budget"]["events"]:
        assert event["mechanism"] in " ".join(implementation["mechanisms"].split())
    assert COMPLETE["justification_of_epsilon"] in implementation["justification"]
    assert COMPLETE["exploration"] in implementation["preprocessing_and_hyperparameter_tuning"]
    assert record["deployment_model"]["release_type"] == "One release"


def test_the_published_card_counts_later_charges(
    release: sb.Release, state: Path, tmp_path: Path
) -> None:
    assert release.card is not None
    ledger = sb.open_ledger("letters", state=state)
    before = ledger.total()
    ledger.charge(DiscreteGaussian(stddev=50.0), stage="other", run="r")
    target = release.publish(tmp_path / "out", publication=COMPLETE)
    card = json.loads((target / "release_card.json").read_text(encoding="utf-8"))
    assert card["budget"]["ledger_head"] == ledger.head()
    assert card["promise"]["epsilon"] == ledger.total() > card["promise"]["epsilon_of_this_run"]
    assert card["budget"]["dataset_total_epsilon"] > before
    assert card["promise"] == release.card["promise"]
    record = yaml.safe_load((target / "registry.yaml").read_text(encoding="utf-8"))["deployment"]
    said = record["privacy_loss"]["privacy_parameters_details"]
    own = card["promise"]["epsilon_of_this_run"]
    total, own = (rounded_up(e) for e in (ledger.total(), own))
    assert total != own
    assert f"All charges on the dataset so far have epsilon {total} together" in said


def test_settings_of_the_run_are_used_and_an_unknown_one_is_named(
    state: Path, release: sb.Release, tmp_path: Path
) -> None:
    own = synthesized(state, settings={"publication": COMPLETE})  # restored: the draw is the same
    assert own.card is not None and own.card["publication"]["sector"] == "Government"
    assert (own.publish(tmp_path / "own") / "README.md").exists()
    with pytest.raises(sb.ParamsError, match=r"needs publication\.curators, publication\.contact"):
        release.publish(tmp_path / "none")
    with pytest.raises(sb.ParamsError, match="curator: is not an argument"):
        release.publish(tmp_path / "none", publication=COMPLETE | {"curator": "x"})
    assert not (tmp_path / "none").exists()


def test_another_draw_in_memory_is_refused_or_counted(quick_encoder: None, tmp_path: Path) -> None:
    first = synthesized(tmp_path / "state", dataset="notes")
    second = synthesized(tmp_path / "state", dataset="notes", new_draw=True)
    first.publish(tmp_path / "first", publication=COMPLETE)
    with pytest.raises(sb.PrivacyError, match="another=True"):
        second.publish(tmp_path / "second", publication=COMPLETE)
    assert not (tmp_path / "second").exists()
    second.publish(tmp_path / "second", publication=COMPLETE, another=True)
    card = json.loads((tmp_path / "second" / "release_card.json").read_text(encoding="utf-8"))
    assert card["published"]["number"] == 2 and card["published"]["epsilon_of_all"] > 1.2


@pytest.mark.slow
def test_a_release_that_protects_users_is_published(quick_encoder: None, tmp_path: Path) -> None:
    """Also with a profile, with figures, and after another draw on the same ledger."""
    state = tmp_path / "state"
    frame = FRAME.assign(author=[f"u{i % 120}" for i in range(150)])
    privacy = sb.Privacy(epsilon=1, dataset="notes", unit="user", records_per_user=2)
    _ = sb.profile(
        frame, text="message", user="author", columns=["mood"], privacy=privacy, state=state
    )
    settings: dict[str, Any] = {"user": "author", "privacy": privacy, "frame": frame}
    first = synthesized(state, **settings, settings={"evaluate": {"public": True}})
    second = synthesized(state, **settings, new_draw=True)
    for name, release, further in (("first", first, {}), ("second", second, {"another": True})):
        target = release.publish(tmp_path / name, publication=COMPLETE, **further)
        card = json.loads((target / "release_card.json").read_text(encoding="utf-8"))
        assert (card["promise"]["unit"], card["promise"]["records_per_unit"]) == ("user", 2)
        assert "one user" in card["promise"]["unit_details"]
        record = yaml.safe_load((target / "registry.yaml").read_text(encoding="utf-8"))
        assert "user" in json.dumps(record).lower()


@pytest.mark.filterwarnings("ignore")  # of huggingface_hub
def test_a_release_in_memory_is_uploaded(
    release: sb.Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with hub_account(monkeypatch) as hub:
        target = release.publish(tmp_path / "out", publication=COMPLETE, to=f"hf://{OWNER}/letters")
    sent = hub.repositories[f"{OWNER}/letters"]
    assert sent["README.md"] == (target / "README.md").read_bytes() and PARQUET in sent


@pytest.mark.parametrize(
    ("rows", "category"), [(1, "n<1K"), (1000, "1K<n<10K"), (100_000, "100K<n<1M")]
)
def test_sizes_have_the_names_of_dataset_hubs(rows: int, category: str) -> None:
    line = '{"id":1,"text":"T","weight":1}\n'
    made = Publication(
        card={},
        settings=PublicationSettings(),
        schema=sample.SCHEMA,
        tables={"maple": typed_table(line * rows, sample.SCHEMA)},
        verdicts={},
    )
    assert made.size_category == category


def test_a_method_without_a_guarantee_is_refused(quick_encoder: None, tmp_path: Path) -> None:
    made = synthesize_frame(
        FRAME,
        text="message",
        schema=SCHEMA,
        method=sb.NonPrivatePE(rounds=1, candidates=16, variations=2),
        generator=sb.Pool(texts=POOL),
        privacy=sb.Privacy(epsilon=1, dataset="letters", purpose="benchmark"),
        texts=10,
        state=tmp_path / "state",
        accept_poor=True,
    )
    with pytest.raises(sb.PrivacyError, match="cannot be published"):
        made.publish(tmp_path / "out", publication=COMPLETE)
    assert not (tmp_path / "out").exists()


def test_several_methods_are_several_configurations(tmp_path: Path) -> None:
    settings = PublicationSettings(**COMPLETE | {"curators": ["a: [b] | *c*", "#d"]})
    facts = sample.release(title="T|*x* <b>", publication=settings, software={"sugarbush": "1.0"})
    card = with_publication(release_card(facts), settings, number=1, date="2026-11-20", others=())
    line = '{"id":1,"text":"T","product":"lamp","stars":"below 2","weight":1}\n'
    made = Publication(
        card=card,
        settings=settings,
        schema=sample.SCHEMA,
        tables={name: typed_table(line * 3, sample.SCHEMA) for name in facts.methods},
        verdicts={name: Verdict(grade="good", reasons=()) for name in facts.methods},
    )
    write_dataset(made, tmp_path)
    configs = metadata_block(tmp_path)["configs"]
    assert [(c["config_name"], c.get("default")) for c in configs] == [
        ("maple", True), ("public", None)
    ]  # fmt: skip
    for config in configs:
        (path,) = tmp_path.glob(config["data_files"][0]["path"])
        assert pq.read_table(path).num_rows == 3
    text = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert (
        "# T\\|\\*x\\* \\<b\\>" in text and metadata_block(tmp_path)["pretty_name"] == "T|*x* <b>"
    )
    authors = yaml.safe_load((tmp_path / "CITATION.cff").read_text())["authors"]
    assert [author["name"] for author in authors] == ["a: [b] | *c*", "#d"]
    record = yaml.safe_load((tmp_path / "registry.yaml").read_text())["deployment"]["basic"]
    assert record["data_curators"] == ["a: [b] | *c*", "#d"]


def test_a_column_that_is_not_in_the_schema_is_refused() -> None:
    with pytest.raises(sb.PrivacyError, match="no attribute of the schema"):
        typed_table('{"id":1,"text":"T","owner":"Ada","weight":1}\n', sample.SCHEMA)
    assert typed_table("", sample.SCHEMA).rows == 0


def test_the_page_about_publications_names_settings_and_fields_that_exist(folder: Path) -> None:
    page = (ROOT / "docs/how-to/publish.md").read_text(encoding="utf-8")
    section = textwrap.dedent(re.findall(r"^ *```yaml\n(.*?)^ *```$", page, re.M | re.S)[0])
    assert not list(PublicationSettings(**yaml.safe_load(section)["publication"]).missing())
    card = json.loads((folder / "release_card.json").read_text(encoding="utf-8"))
    rows = [row.split("|") for row in page.partition("## Checklist")[2].splitlines()]
    fields = [name for row in rows[2:] if len(row) == 5 for name in re.findall("`([^`]+)`", row[2])]
    assert fields.pop(0) == "release_card.json" and len(fields) > 35
    for field in fields:
        value = card
        for name in field.split("."):
            assert name in value, field
            value = value[name]
    listed = {field.partition(".")[2] for field in fields if field.startswith("publication.")}
    assert listed | {"url", "notes"} == set(card["publication"])
    table = page.partition("## What the folder contains")[2].partition("## Upload")[0]
    named = re.findall(r"`(\w+\.\w+)`", table)
    assert sorted(named) == sorted(path.name for path in folder.iterdir() if path.is_file())


def test_the_printed_card_has_every_answer(folder: Path) -> None:
    text = (folder / "release_card.md").read_text(encoding="utf-8")
    card = json.loads((folder / "release_card.json").read_text(encoding="utf-8"))
    answers = [value for name, value in COMPLETE.items() if name not in ("curators", "languages")]
    for answer in [*answers, *COMPLETE["curators"], *card["deployment"]["actors"], card["tuning"]]:
        assert plain(answer) in text
    assert "| not stated |" not in text
    page = unescape((folder / "release_card.html").read_text(encoding="utf-8"))
    for answer in [*answers, *COMPLETE["curators"], *card["deployment"]["actors"], card["tuning"]]:
        assert answer in page
