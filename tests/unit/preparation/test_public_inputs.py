"""Tests that a public file that contains private records is refused before any charge."""

from __future__ import annotations

import csv
import io
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import sugarbush as sb
from sugarbush.data.private_store import PrivateStore
from sugarbush.errors import InputError
from sugarbush.pipeline.opening import open_project
from sugarbush.pipeline.stages import fingerprint, make_example, prepare
from sugarbush.pipeline.stages.report import internal_of
from sugarbush.project.check import checks
from sugarbush.run.context import Project
from sugarbush.run.records import private_store
from tests.integration.project import TINY_ENCODER, as_lines
from tests.settings import ROOT
from tests.synthesized import synthesize_frame
from tests.unit.pipeline.small_project import run_stages, write_project

WORDS = [f"{a}{b}{c}" for a in "bcdfg" for b in "aeiou" for c in "lmnrst"]
CANARY = "canary-7731"


def written(name: str, count: int = 160) -> list[dict[str, Any]]:
    """Return records with texts of 24 random words."""
    rng = random.Random(name)
    return [
        {
            "id": f"{name}-{i}",
            "text": f"{CANARY} " + " ".join(rng.choices(WORDS, k=24)),
            "product": ("lamp", "chair", "kettle")[i % 3],
        }
        for i in range(count)
    ]


def as_csv(records: list[dict[str, Any]]) -> str:
    file = io.StringIO()
    writer = csv.DictWriter(file, records[0])
    writer.writeheader()
    writer.writerows(records)
    return file.getvalue()


RECORDS, PUBLIC = written("private"), written("public", 60)
# Each function writes a file of the pool that contains private records, and returns its name.
PRIVATE_POOLS: dict[str, Callable[[Path], str]] = {
    "the file itself": lambda base: "letters.jsonl",
    "another path": lambda base: f"../{base.name}/letters.jsonl",
    "a symbolic link": lambda base: linked(base, hard=False),
    "a hard link": lambda base: linked(base, hard=True),
    "a copy": lambda base: saved(base, "copy.jsonl", as_lines(RECORDS)),
    "another format": lambda base: saved(base, "copy.csv", as_csv(RECORDS)),
    "a part and public texts": lambda base: saved(
        base, "mixed.jsonl", as_lines([*PUBLIC, *RECORDS[:20]])
    ),
    "capital letters": lambda base: saved(
        base, "capital.jsonl", as_lines([{**r, "text": r["text"].upper()} for r in RECORDS])
    ),
    "a greeting before": lambda base: saved(
        base, "greeting.jsonl", as_lines([{**r, "text": "Good day. " + r["text"]} for r in RECORDS])
    ),
}  # fmt: skip


def saved(base: Path, name: str, content: str) -> str:
    (base / name).write_text(content)
    return name


def linked(base: Path, *, hard: bool) -> str:
    path = base / "link.jsonl"
    path.hardlink_to(base / "letters.jsonl") if hard else path.symlink_to("letters.jsonl")
    return path.name


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path / "state"))
    monkeypatch.syspath_prepend(TINY_ENCODER)
    return tmp_path / "state"


def project_with(base: Path, **changes: Any) -> Project:
    settings = {"methods": ["maple"], "embedding__model": "tiny", "prepare__donated": None}
    project = write_project(base, **settings | changes)
    (base / "letters.jsonl").write_text(as_lines(RECORDS))
    return project


def pool(file: str, **changes: Any) -> dict[str, Any]:
    source = {"file": file, "text_column": "text", **changes}
    return {"generator__provider": "pool", "generator__pool__sources": [source]}


def refusal(project: Project) -> str:
    """Return the message of stage prepare. `checks` must refuse too, and no file is written."""
    with pytest.raises(InputError) as raised:
        prepare.run(project)
    with pytest.raises(InputError) as also:
        list(checks(project))
    assert str(raised.value) == str(also.value)
    assert CANARY not in str(raised.value)
    assert not list((project.base / "data").glob("private/prepared/*"))
    assert not list(project.state.glob("ledgers/**/*.jsonl"))
    return str(raised.value)


@pytest.mark.slow
@pytest.mark.parametrize("kind", PRIVATE_POOLS)
@pytest.mark.parametrize("share", [None, 0.5])
def test_a_pool_of_private_records_is_refused(
    tmp_path: Path, kind: str, share: float | None
) -> None:
    base = tmp_path / "project"
    base.mkdir()
    project_with(base)
    file = PRIVATE_POOLS[kind](base)
    message = refusal(project_with(base, **pool(file, share=share)))
    assert "generator.pool" in message
    assert "privacy.purpose: benchmark" in message


@pytest.mark.parametrize("kind", PRIVATE_POOLS)
def test_private_records_are_refused_as_texts_of_a_small_model(tmp_path: Path, kind: str) -> None:
    project_with(tmp_path)
    sources = [{"file": PRIVATE_POOLS[kind](tmp_path), "text_column": "text"}]
    assert "pretrain.sources" in refusal(project_with(tmp_path, pretrain__sources=sources))


@pytest.mark.parametrize("kind", ["the file itself", "a symbolic link", "a hard link", "a copy"])
def test_the_private_file_cannot_be_donated(tmp_path: Path, kind: str) -> None:
    project_with(tmp_path)
    project = project_with(tmp_path, prepare__donated=PRIVATE_POOLS[kind](tmp_path))
    assert "prepare.donated" in refusal(project)


def test_copies_of_donated_examples_that_prepare_does_not_remove_are_refused(
    tmp_path: Path,
) -> None:
    edited = [{**r, "text": r["text"].replace(" ", ", ")} for r in RECORDS[:8]]
    (tmp_path / "donated.jsonl").write_text(as_lines(edited))
    project = project_with(tmp_path, prepare__donated="donated.jsonl")
    (tmp_path / "donated.jsonl").write_text(as_lines(edited))
    assert "prepare.donated" in refusal(project)


@pytest.mark.slow
def test_records_may_be_donated_on_purpose_and_the_internal_report_counts_them(
    tmp_path: Path,
) -> None:
    base = tmp_path / "project"
    project_with(base, prepare__donated="donated.jsonl")
    (base / "donated.jsonl").write_text(as_lines(RECORDS[:20]))
    run_stages(base, without=frozenset({"report"}))
    project = open_project(base)
    train = pd.read_parquet(private_store(project).prepared_file("train"))
    assert not set(train["text"]) & {r["text"] for r in RECORDS[:20]}
    assert internal_of(project).removed == 20


def test_short_answers_in_both_files_are_accepted(tmp_path: Path) -> None:
    short = [{**row, "text": "ok thanks"} for row in RECORDS[:30]]
    file = saved(tmp_path, "pool.jsonl", as_lines([*PUBLIC, *short]))
    project = project_with(tmp_path, **pool(file))
    (tmp_path / "letters.jsonl").write_text(as_lines([*RECORDS, *short]))
    prepare.run(project)
    assert private_store(project).tally()["public"] == 30


@pytest.mark.parametrize("kind", PRIVATE_POOLS)
def test_public_data_may_be_its_own_pool(tmp_path: Path, kind: str) -> None:
    project_with(tmp_path)
    file = PRIVATE_POOLS[kind](tmp_path)
    prepare.run(
        project_with(
            tmp_path, privacy__purpose="benchmark", **pool(file, share=0.3),
            prepare__exclude_share=0.3,
        )
    )  # fmt: skip
    assert len(pd.read_parquet(PrivateStore(tmp_path / "data/private").prepared_file("train")))


def test_the_api_refuses_a_pool_of_private_records(tmp_path: Path, state: Path) -> None:
    pd.DataFrame(RECORDS[:80]).to_csv(tmp_path / "pool.csv")
    writer = sb.Pool(sources=[{"file": str(tmp_path / "pool.csv"), "text_column": "text"}])
    with pytest.raises(InputError, match=r"pool.*contains copies of private records"):
        synthesize_frame(
            pd.DataFrame(RECORDS),
            schema={"subject": "letters", "attributes": [
                {"name": "product", "column": "product", "values": ["lamp", "chair"]}]},
            generator=writer,
            privacy=sb.Privacy(epsilon=1, delta=1e-6, dataset="letters"),
            state=state,
        )  # fmt: skip
    assert not list(state.glob("ledgers/**/*.jsonl"))


def test_the_embedded_example_is_prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its donated dialogues share phrases with its records, and none is a copy."""
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path / "state"))
    shutil.copy(ROOT / "params.yaml", tmp_path)
    project = open_project(tmp_path)
    make_example.run(project)
    fingerprint.run(project)
    prepare.run(project)
    assert (project.roots.private / "prepared/train.parquet").exists()
