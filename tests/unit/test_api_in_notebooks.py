"""Tests of what a notebook shows, of reports and pictures in memory, and of pools of texts."""

from __future__ import annotations

import base64
import io
import json
import math
import pickle
import re
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sugarbush as sb
from sugarbush.report.page import render_public_page
from tests.synthesized import synthesize_frame

SECRET = "Ada Lovelace"
COUNT = 317
FRAME = pd.DataFrame(
    {
        "message": [f"Order {i} of {SECRET} arrived late" for i in range(COUNT)],
        "stars": [1 + i % 5 for i in range(COUNT)],
    }
)
SCHEMA = {
    "subject": "letters",
    "attributes": [{"name": "stars", "column": "stars", "bins": [2, 4]}],
}
POOL = [f"The parcel number {i} was {word}" for i in range(40) for word in ("broken", "late")]


@pytest.fixture
def release(tmp_path: Path, quick_encoder: None) -> sb.Release:
    return synthesize_frame(
        FRAME,
        text="message",
        schema=SCHEMA,
        method=sb.Mosaic(candidates=30, prompt="metadata"),
        generator=sb.Pool(texts=POOL),
        privacy=sb.Privacy(epsilon=1, dataset="letters"),
        texts=10,
        state=tmp_path / "state",
        accept_poor=True,
    )


def files_of(page: str) -> dict[str, bytes]:
    """The files that the buttons of a page contain."""
    links = re.findall(r'href="data:[^"]*;base64,([^"]*)" download="([^"]*)"', page)
    return {name: base64.b64decode(content) for content, name in links}


def test_a_pool_of_texts_needs_no_file(release: sb.Release) -> None:
    assert set(release.texts) <= set(POOL)
    assert release.card is not None
    sources = release.card["made_by"]["generator"]["sources"]
    assert sources == ["80 texts given in Python (licence: not stated)"]


def test_a_pool_takes_a_column_and_texts_with_addresses_but_not_one_text() -> None:
    texts = pd.Series(["see https://ann:pass@example.org/?key=1", "a lamp"])
    assert sb.Pool(texts=texts).public_texts(Path()) == tuple(texts)  # type: ignore[arg-type]
    wrong: list[Any] = ["a lamp", ["a", None], {"a": 1}]
    for value in wrong:
        with pytest.raises(sb.ParamsError, match=r"^texts(\.1)?: must be a valid"):
            sb.Pool(texts=value)


def test_private_records_in_a_pool_of_texts_are_refused(tmp_path: Path) -> None:
    copies = [text.lower() + " and the lamp was broken too" for text in FRAME["message"]]
    frame = FRAME.assign(message=copies)
    with pytest.raises(sb.InputError, match="contains copies of private records"):
        sb.prepare(
            frame,
            text="message",
            schema=SCHEMA,
            generator=sb.Pool(texts=copies[:60]),
            privacy=sb.Privacy(dataset="letters"),
            state=tmp_path,
        )


def test_the_report_of_a_release_in_memory_is_the_public_page_with_its_files(
    release: sb.Release, tmp_path: Path
) -> None:
    page = release.report()
    files = files_of(page.html)
    lines = [json.loads(line) for line in files["synthetic.jsonl"].splitlines()]
    assert [line["text"] for line in lines] == list(release.texts)
    kinds = re.findall(r'href="data:([^;]*);[^"]*" download="([^"]*)"', page.html)
    assert ("application/vnd.apache.parquet", "synthetic.parquet") in kinds
    table = pd.read_parquet(io.BytesIO(files["synthetic.parquet"]))
    assert list(table["text"]) == list(release.texts)
    assert json.loads(files["release_card.json"]) == release.card
    assert "10 synthetic texts" in page.html and SECRET not in page.html
    assert unescape(page._repr_html_()).count(page.html) == 1
    assert page.save(tmp_path / "own.html").read_text() == page.html
    saved = release.save(tmp_path / "saved")
    beside = (saved / "index.html").read_text()
    for name in ("synthetic.jsonl", "release_card.md", "release_card.json"):
        assert f'href="{name}"' in beside and (saved / name).exists()
    assert pickle.loads(pickle.dumps(release)).report().html == page.html


def test_the_report_in_memory_states_later_charges_and_changes_nothing_else(
    release: sb.Release, tmp_path: Path
) -> None:
    before = release.report().html
    assert "all runs on this dataset" not in before
    state = tmp_path / "state"
    sb.private_histogram(
        ["a"],
        categories=["a", "b"],
        privacy=sb.Privacy(epsilon=1, delta=1e-6, dataset="letters"),
        state=state,
    )
    after = release.report().html
    assert "this run 1; all runs on this dataset 1." in after
    again = pickle.loads(pickle.dumps(release))
    del again.__dict__["_public_data"]
    assert again.report().html == after
    texts = [files_of(page)["synthetic.jsonl"] for page in (before, after)]
    assert texts[0] == texts[1]


def test_notebooks_show_a_release_a_ledger_and_a_table_without_private_values(
    release: sb.Release, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    ledger = sb.open_ledger("letters", state=state)
    counts = sb.private_histogram(
        FRAME["stars"].tolist(),
        categories=[1, 2, 3, 4, 5],
        privacy=sb.Privacy(epsilon=0.1, delta=1e-6, dataset="letters"),
        state=state,
    )
    shown = [each._repr_html_() for each in (release, ledger, counts)]
    for html in shown:
        assert not re.search(rf"\b{COUNT}\b", html) and SECRET not in html
        assert len(html) < 3000
    assert release.texts[0] in unescape(shown[0]) and ", delta 1e-6, per record" in shown[0]
    assert "epsilon: this run 1; all runs on this dataset 1." in shown[0]
    assert re.search(r"epsilon 1[.\d]* of 4", shown[1]) and "synthesize_metadata" in shown[1]
    assert str(counts.value.iloc[0]) in shown[2] and counts.ledger_ids[0] in shown[2]


@pytest.mark.usefixtures("quick_encoder")
def test_a_notebook_shows_no_text_of_a_method_without_a_guarantee(tmp_path: Path) -> None:
    made = synthesize_frame(
        FRAME,
        text="message",
        schema=SCHEMA,
        method=sb.NonPrivatePE(rounds=1, candidates=10, variations=2, prompt="metadata"),
        generator=sb.Pool(texts=POOL),
        privacy=sb.Privacy.model_validate({"dataset": "letters", "purpose": "benchmark"}),
        state=tmp_path,
    )
    html = unescape(made._repr_html_())
    assert "NOT PRIVATE" in html and math.isinf(made.epsilon)
    assert not any(text in html for text in made.texts)
    for refused in (made.report, lambda: made.save(tmp_path / "out")):
        with pytest.raises(sb.PrivacyError, match="no DP guarantee"):
            refused()


def test_a_notebook_shows_no_text_and_no_number_of_a_redaction() -> None:
    texts = [f"Call 555-010-{i:04} or {SECRET}" for i in range(23)]
    html = sb.redact(texts, detectors=["regex"])._repr_html_()
    assert "Private" in html and "Call" not in html and SECRET not in html
    assert not re.search(r"\d", html)


@pytest.mark.usefixtures("quick_encoder")
def test_metrics_have_intervals_and_a_picture() -> None:
    found = sb.evaluate(POOL[:40], real=[f"Order {i} was late" for i in range(50)])
    mauve = found.frame[found.frame.metric == "mauve"].iloc[0]
    assert mauve.low <= mauve.value <= mauve.high and mauve.low < mauve.high
    picture = found.plot()._repr_html_()
    assert picture.startswith("<div><svg xmlns=") and picture.count("whisker") > 4
    assert not re.search(r"[};]\s*text\s*{", picture), "a style of the picture changes the notebook"
    assert "not DP" in found._repr_html_() and "MAUVE, encoder" in found._repr_html_()


def test_a_table_is_made_from_the_values_as_they_are(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {"stars": [1.0, 3.0, 5.0, np.nan] * 300, "kind": ["Lamp", "chair ", "sofa", None] * 300}
    )
    schema = sb.Schema(
        subject="orders",
        attributes=(
            sb.Attribute(name="stars", column="stars", bins=(2, 4)),
            sb.Attribute(name="what", column="kind", values=("Lamp", "chair")),
        ),
    )
    table = sb.dp_table(
        frame,
        schema=schema,
        privacy=sb.Privacy(epsilon=5, delta=1e-6, cap=9, dataset="orders"),
        state=tmp_path,
    ).value
    assert list(table.columns) == ["stars", "what"]
    shares = table["what"].value_counts(normalize=True)
    assert shares.to_dict() == pytest.approx({"Lamp": 0.25, "chair": 0.25, "other": 0.5}, abs=0.05)
    assert set(table["stars"]) == {"below 2", "2 to below 4", "4 and above", "other"}
    assert 1100 < len(table) < 1300


def test_the_page_of_a_release_is_the_page_that_stage_report_writes(release: sb.Release) -> None:
    data = release._finished.public_data()
    page = render_public_page(data)
    assert 'id="metadata"' in page and 'id="votes"' in page and "first candidates" in page
    assert data.release.ledger_head == (release.card or {})["budget"]["ledger_head"]
