"""Tests that no outlet gives out a label that the records show to be wrong."""

from __future__ import annotations

import io
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
import yaml
from rich.console import Console

import sugarbush as sb
from sugarbush.cli.shows import show_stage
from sugarbush.pipeline.artifacts import Artifacts
from sugarbush.pipeline.opening import open_project
from sugarbush.publication.publish import publish_project
from sugarbush.release.figures import given_labels
from tests.integration.project import PRODUCTS, SCHEMA, as_lines, letters
from tests.publication import COMPLETE
from tests.synthesized import synthesize_frame
from tests.unit.pipeline.small_project import run_stages, write_project

pytestmark = pytest.mark.usefixtures("quick_encoder")
SOURCE = {"file": "pool.jsonl", "text_column": "text"}
POOL = [row["text"].replace("order 1", "order 7") for row in letters(120)]
WRONG, KEPT = {"product", "confidence_product"}, {"wish", "requested_product"}
SAID = re.compile(
    r"product is not a column of this release: a model that learns product from the release is "
    r"right for \d+% \(\d+% to \d+%\) of the records"
)


def donated() -> list[dict[str, str]]:
    """Return letters with wrong labels: each has the name of the next product."""
    following = dict(zip(PRODUCTS, (*PRODUCTS[1:], PRODUCTS[0]), strict=True))
    return [row | {"product": following[row["product"]]} for row in letters(806)[746:]]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project") / "own"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SUGARBUSH_STATE", str(folder.parent / "state"))
        # the quick encoder knows no subjects, so a rehearsal would refuse every text
        patch.setattr("sugarbush.rehearsal.rehearse.is_rehearsed", lambda project: False)
        write_project(
            folder,
            methods=["mosaic"],
            methods__mosaic__candidates=60,
            release__texts=40,
            privacy__epsilon=8,
            evaluate__public=0.3,
            report__accept_poor=True,
            publication=COMPLETE,
            # the simulator obeys requests, so some of its labels would be right
            generator={"provider": "pool", "pool": {"sources": [SOURCE]}},
        )
        (folder / "pool.jsonl").write_text(as_lines([{"text": text} for text in POOL]))
        rows = letters(346)
        (folder / "letters.jsonl").write_text(as_lines(rows))
        (folder / "donated.jsonl").write_text(as_lines(donated()))
        run_stages(folder, without=frozenset({"audit"}))
    return folder


@pytest.fixture(autouse=True)
def state(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUGARBUSH_STATE", str(base.parent / "state"))


@pytest.fixture
def published(base: Path, tmp_path: Path) -> Path:
    target = tmp_path / "published"
    publish_project(open_project(base), target, another=True)
    return target


def require_left_out(columns: Any) -> None:
    assert not WRONG & set(columns)
    assert set(columns) >= KEPT


@pytest.mark.slow
def test_the_file_of_the_stage_has_the_label_that_was_measured(base: Path) -> None:
    """The other tests would say nothing if there were no wrong label."""
    stage = pq.read_table(base / "data/released/enlarge/mosaic/synthetic.parquet")
    assert set(stage.column_names) >= WRONG | KEPT


def test_the_files_beside_the_report_have_no_wrong_label(base: Path) -> None:
    folder = base / "reports/public"
    rows = [json.loads(line) for line in (folder / "synthetic_mosaic.jsonl").read_text().split("\n")
            if line]  # fmt: skip
    table = pq.read_table(folder / "synthetic_mosaic.parquet")
    for row in rows:
        require_left_out(row)
    require_left_out(table.column_names)
    assert [row["text"] for row in rows] == table["text"].to_pylist()


def test_a_published_dataset_has_no_wrong_label(published: Path) -> None:
    table = pq.read_table(published / "data/train-00000-of-00001.parquet")
    require_left_out(table.column_names)
    readme = (published / "README.md").read_text()
    block = yaml.safe_load(readme.split("---")[1])
    (info,) = block["dataset_info"]
    assert [f["name"] for f in info["features"]] == table.column_names
    metadata = json.loads((published / "metadata.json").read_text())
    assert [c["name"] for c in metadata["configs"]["default"]["columns"]] == table.column_names
    croissant = json.loads((published / "croissant.json").read_text())
    assert [f["name"] for f in croissant["recordSet"][0]["field"]] == table.column_names
    assert SAID.search(readme)


@pytest.mark.parametrize(
    "place",
    [
        "", "reports/public", "reports/public/synthetic_mosaic.jsonl",
        "reports/public/synthetic_mosaic.parquet", "data/released/enlarge/mosaic",
        "data/released/enlarge/mosaic/synthetic.jsonl",
        "data/released/enlarge/mosaic/synthetic.parquet",
    ],
)  # fmt: skip
def test_open_release_gives_no_wrong_label(base: Path, place: str) -> None:
    require_left_out(sb.open_release(base / place).columns)


def test_artifacts_and_show_give_no_wrong_label(base: Path) -> None:
    require_left_out(Artifacts(base).lineage("mosaic").synthetic.columns)
    printed = Console(file=io.StringIO(), width=160)
    show_stage(base, "synthetic", method="mosaic", rows=5, internal=False, console=printed)
    said = printed.file.getvalue()  # type: ignore[attr-defined]
    assert "requested_product: " in said
    assert not re.search(r"(?<!requested_)product: ", said)


def test_the_text_browser_of_the_page_shows_no_wrong_label(base: Path) -> None:
    page = (base / "reports/public/index.html").read_text()
    content = json.loads(
        re.search(r"<script[^>]*application/json[^>]*>(.*?)</script>", page, re.S)[1]
    )  # type: ignore[index]
    columns = content["columns"]
    final = [dict(zip(columns, row, strict=True)) for row in content["rows"]]
    codes = [row["codes"] for row in final if row["final"]]
    names = [name for name, _ in content["attributes"]]
    assert {row[names.index("product")] for row in codes} == {-1}
    assert {row[names.index("wish")] for row in codes} > {-1} or codes


def test_both_pages_and_the_card_say_in_the_same_words_what_is_left_out(base: Path) -> None:
    texts = [
        (base / "reports" / name).read_text()
        for name in (
            "public/index.html", "internal/index.html", "public/release_card.md",
            "public/release_card.html", "public/release_card.json", "public/verdict.json",
        )
    ]  # fmt: skip
    found = {match[0] for text in texts if (match := SAID.search(text))}
    assert all(SAID.search(text) for text in texts)
    assert len(found) == 1
    card = json.loads((base / "reports/public/release_card.json").read_text())
    assert card["public_figures"]["methods"]["mosaic"]["left_out"] == ["product"]
    uses = card["public_figures"]["methods"]["mosaic"]["uses"]
    assert not any("labelled with these values of product" in use for use in uses)


def test_figures_of_other_texts_leave_out_nothing(base: Path, tmp_path: Path) -> None:
    """Before the texts of a new run are measured, nothing is known about their labels."""
    copy = tmp_path / "released"
    shutil.copytree(base / "data/released", copy)
    file = copy / "figures/figures.json"
    fields = json.loads(file.read_text())
    fields["methods"]["mosaic"]["texts"] = "0" * 64
    file.write_text(json.dumps(fields))
    assert given_labels(base / "data/released/enlarge/mosaic").left_out == ("product",)
    assert given_labels(copy / "enlarge/mosaic").left_out == ()


def test_a_release_in_memory_has_no_wrong_label(tmp_path: Path) -> None:
    release = synthesize_frame(
        pd.DataFrame(letters(740))[["text", "product"]],
        schema=SCHEMA,
        donated=pd.DataFrame(donated())[["text", "product"]],
        generator=sb.Pool(texts=POOL),
        texts=40,
        method=sb.Mosaic(candidates=60),
        privacy=sb.Privacy(epsilon=8, cap=50, delta=1e-6, dataset="letters"),
        settings={"evaluate": {"public": 0.3}, "publication": COMPLETE},
        state=tmp_path / "state",
        accept_poor=True,
    )
    require_left_out(release.frame.columns)
    assert release.labels.left_out == ("product",)
    saved = release.save(tmp_path / "saved")
    for file in (saved, saved / "synthetic.jsonl", saved / "synthetic.parquet"):
        require_left_out(sb.open_release(file).columns)
    require_left_out(pq.read_table(saved / "synthetic.parquet").column_names)
    published = release.publish(tmp_path / "published")
    require_left_out(sb.open_release(published).columns)
    assert SAID.search(release.verdict.line())
    assert SAID.search((saved / "index.html").read_text())
