"""Tests that no public file shows a folder, an address or a user name of the settings."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml

from sugarbush.data.schema import Attribute, Schema
from sugarbush.embedding.encoder import BUNDLED, model_folder
from sugarbush.generators.interface import GeneratorFacts
from sugarbush.methods.maple import Maple
from sugarbush.pipeline.opening import open_project
from sugarbush.privacy.settings import Purpose
from sugarbush.rehearsal.rehearse import require_good_rehearsal
from sugarbush.release.facts import ReleaseContents, _shown_settings, _without_paths, release_facts
from sugarbush.report.card import card_json
from sugarbush.report.card_files import card_markdown
from sugarbush.report.card_values import release_card
from sugarbush.training.dpsgd import models
from tests.settings import params
from tests.unit.pipeline.small_project import run_stages, write_project

MARK = "hidden-marker"
ENDPOINT = f"https://{MARK}.user@llm.example:8443/{MARK}/v1"
SCHEMA = Schema(
    subject="letters", attributes=(Attribute(name="mood", values=("angry", "calm"), source="llm"),)
)


def card_of(folder: Path, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> dict[str, Any]:
    """Return the card of a project with `changes`, after a check that it lacks the marker."""
    monkeypatch.setenv("SUGARBUSH_STATE", str(folder / "state"))
    fixed: dict[str, Any] = {"privacy__purpose": Purpose.RELEASE.value}
    fixed |= {"prepare__file": f"{MARK}/letters.jsonl", "prepare__donated": f"{MARK}/own.jsonl"}
    fixed |= {"prepare__schema": f"/data/{MARK}/letters.yaml", "privacy__dataset": "letters"}
    project = open_project(folder, settings=params(**(fixed | changes)), schema=SCHEMA)
    facts = release_facts(
        project.settings,
        SCHEMA,
        ReleaseContents(texts={}, donated=3, engine="sugarbush"),
        ledger=project.ledger(),
        ledger_ids=[],
        plan=project.plan,
    )
    card = release_card(facts)
    assert MARK not in card_json(card) + card_markdown(card)
    return card.to_json()


@pytest.mark.parametrize("folder", [f"/models/{MARK}", f"~/{MARK}", MARK, f"C:\\{MARK}"])
def test_the_card_names_the_last_part_of_an_encoder(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slash = "\\" if "\\" in folder else "/"
    llm = {"model": "m", "base_url": "https://labels.example/v1", "trusted": True}
    changes: dict[str, Any] = {"embedding__model": f"{folder}{slash}my-encoder"}
    card = card_of(tmp_path, monkeypatch, extract_metadata__llm=llm, **changes)
    assert card["made_by"]["encoder"] == "my-encoder"
    assert "The encoder: my-encoder." in card["assumed_public"]


def test_the_card_names_the_host_of_an_endpoint_and_no_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    llm = {"model": f"/m/{MARK}/l.gguf", "trusted": True}
    card = card_of(
        tmp_path,
        monkeypatch,
        generator__provider="openai",
        generator__openai={
            "model": f"/models/{MARK}/writer.gguf",
            "base_url": f"https://llm.example:8443/{MARK}/v1",
        },
        extract_metadata__llm=llm | {"base_url": f"https://labels.example/{MARK}/v1"},
    )
    assert card["made_by"]["generator"] == {
        "provider": "openai",
        "model": "writer.gguf",
        "endpoint": "llm.example",
    }
    private = [item for item in card["not_covered"] if "EVERY PRIVATE TEXT" in item]
    assert len(private) == 1
    assert "the endpoint at labels.example:" in private[0]


def test_the_facts_and_settings_of_a_plug_in_have_no_folders() -> None:
    facts = GeneratorFacts(
        provider="own", model=f"/m/{MARK}/a b", endpoint=ENDPOINT, sources=(f"{MARK}/pool.csv",)
    )
    assert _without_paths(facts) == GeneratorFacts(
        provider="own", model="a b", endpoint="llm.example", sources=("pool.csv",)
    )

    class Plugin(Maple):
        name: ClassVar[str] = "plugin"
        weights: str = f"/home/{MARK}/the weights.bin"
        lists: tuple[str, ...] = (f"{MARK}/list.txt", "a polite/neutral tone")

    settings = params()
    monkey = pytest.MonkeyPatch()
    with monkey.context() as patch:
        patch.setattr(type(settings), "chosen", property(lambda self: (Plugin(),)))
        shown = _shown_settings(settings)
    assert shown["methods"]["plugin"]["weights"] == "the weights.bin"
    assert shown["methods"]["plugin"]["lists"] == ["list.txt", "a polite/neutral tone"]


@pytest.mark.slow
def test_no_public_file_of_a_release_names_a_private_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every path in the settings, and the project itself, is in a folder with the marker."""
    base, own = tmp_path / MARK, tmp_path / MARK / f"{MARK}-files"
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path / f"{MARK}-state"))
    own.mkdir(parents=True)
    (own / "encoder").symlink_to(model_folder(BUNDLED))
    words = ["lamp", "chair", "kettle", "late", "broken", "please", "refund", "letter", "shop"]
    rng = random.Random(1)
    texts = [" ".join(rng.choices(words, k=12)) for _ in range(300)]
    (own / "pool.csv").write_text("\n".join(["text", *texts]) + "\n")
    tokenizer = models.train_tokenizer(texts, vocabulary=300)
    shape = models.ModelShape(layers=1, width=16, heads=2, context=64)
    models.save(models.new_model(tokenizer, shape, seed=1), tokenizer, own / "start")
    write_project(
        base,
        methods=["maple", "dpft"],
        embedding__model=str(own / "encoder"),
        generator__provider="pool",
        generator__pool={"sources": [{"file": str(own / "pool.csv"), "text_column": "text"}]},
        generator__max_dropped_share=0.9,
        evaluate__show=False,
        report__accept_poor=True,
    )
    fields = yaml.safe_load((base / "params.yaml").read_text())
    fields["methods"]["dpft"]["model"] = str(own / "start")
    for name in ("file", "donated", "schema"):
        given = base / fields["prepare"][name]
        given.rename(own / given.name)
        fields["prepare"][name] = str(own / given.name)
    (base / "params.yaml").write_text(yaml.safe_dump(fields, sort_keys=False))
    project = open_project(base)
    require_good_rehearsal(project, accept=True)  # words in random order are no letters
    run_stages(base, without=frozenset({"evaluate"}))
    roots = project.roots
    public = [
        path
        for folder in (roots.published, roots.released, roots.public)
        for path in folder.rglob("*")
        if path.is_file()
    ]
    assert {"release_card.json", "index.html", "release.json", "model_card.json"} <= {
        path.name for path in public
    }
    for path in public:
        assert MARK.encode() not in path.read_bytes(), path.relative_to(base)
