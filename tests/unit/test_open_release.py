"""Tests that `sb.open_release`, `show` and the line of code on the page change no value."""

from __future__ import annotations

import io
import json
import re
import shutil
from html import unescape
from pathlib import Path

import pandas as pd
import pytest
from rich.console import Console

import sugarbush as sb
from sugarbush.cli.shows import show_stage
from tests.publication import COMPLETE
from tests.settings import ROOT
from tests.synthesized import synthesize_frame

# Values that pandas or datasets would read as a number, a date, a truth value or nothing.
CODES = ["01234", "1e5", "2024-02-01", "true", "NA", "null", "nan", "1,234", "0x10", "00", "+1"]
SCHEMA = {
    "subject": "letters to a shop",
    "attributes": [
        {"name": "code", "column": "code", "values": CODES},
        {"name": "stars", "column": "stars", "values": [1, 2, 3]},
        {"name": "rating", "column": "rating", "values": [1.5, 2.5]},
        {"name": "price", "column": "price", "bins": [10, 20], "span": [0, 30], "type": "number"},
        {
            "name": "day", "column": "day", "type": "date",
            "bins": ["2024-07-01"], "span": ["2024-01-01", "2024-12-31"],
        },
        {
            "name": "moment", "column": "moment", "type": "datetime",
            "bins": ["2024-07-01T00:00:00"], "span": ["2024-01-01T00:00:00", "2024-12-31T23:59:59"],
        },
    ],
}  # fmt: skip
FRAME = pd.DataFrame(
    {
        "message": [f"Order {i} of my lamp arrived late" for i in range(220)],
        "code": [CODES[i % len(CODES)] for i in range(220)],
        "stars": [1 + i % 3 for i in range(220)],
        "rating": [1.5 + i % 2 for i in range(220)],
        "price": [0.25 + i % 29 for i in range(220)],
        "day": [f"2024-{1 + i % 12:02}-03" for i in range(220)],
        "moment": [f"2024-{1 + i % 12:02}-03T12:30:15" for i in range(220)],
    }
)
POOL = [
    f"The parcel number {i} was {word}\u2028and\r\n\u0085 late {i * 7}"
    for i in range(60)
    for word in ("broken", "late", '"lost"')
]


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory, quick_encoder: None) -> sb.Release:
    return synthesize_frame(
        FRAME,
        text="message",
        schema=SCHEMA,
        method=sb.Mosaic(candidates=80, prompt="metadata"),
        generator=sb.Pool(texts=POOL),
        privacy=sb.Privacy(epsilon=4, dataset="letters"),
        texts=40,
        state=tmp_path_factory.mktemp("state") / "state",
        accept_poor=True,
    )


@pytest.fixture(scope="module")
def saved(release: sb.Release, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return release.save(tmp_path_factory.mktemp("saved") / "out")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["", "synthetic.jsonl", "synthetic.parquet"])
def test_an_opened_release_has_the_values_and_types_of_the_release(
    release: sb.Release, saved: Path, name: str
) -> None:
    opened = sb.open_release(saved / name)
    pd.testing.assert_frame_equal(opened, release.frame)
    assert len(set(release.frame["requested_code"]) & set(CODES)) > 3
    pd.testing.assert_frame_equal(sb.open_release(str(saved / name)), release.frame)


def test_a_published_folder_has_the_values_of_the_release(
    release: sb.Release, tmp_path: Path
) -> None:
    folder = release.publish(tmp_path / "letters", publication=COMPLETE)
    pd.testing.assert_frame_equal(sb.open_release(folder), release.frame)


def test_json_lines_alone_keep_every_string(
    release: sb.Release, saved: Path, tmp_path: Path
) -> None:
    file = shutil.copy(saved / "synthetic.jsonl", tmp_path / "texts.jsonl")
    opened = sb.open_release(file)
    for name in ("text", "code", "requested_code", "requested_stars", "requested_price"):
        if name in release.frame:
            assert [*opened[name].dropna()] == [*release.frame[name].dropna()]
    assert set(map(type, opened["requested_day"].dropna())) == {str}


def test_a_file_that_lost_rows_is_read_as_it_is(saved: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(saved, tmp_path / "out"))
    file = folder / "synthetic.jsonl"
    lines = file.read_text("utf-8").split("\n")
    file.write_text("\n".join(lines[:3]) + "\n", encoding="utf-8")
    assert len(sb.open_release(folder)) == 3
    assert sb.open_release(folder).dtypes.equals(sb.open_release(saved).dtypes)


def test_a_project_and_its_public_folder_open(saved: Path, tmp_path: Path) -> None:
    public = tmp_path / "reports/public"
    public.mkdir(parents=True)
    for kind in ("jsonl", "parquet"):
        shutil.copy(saved / f"synthetic.{kind}", public / f"synthetic_mosaic.{kind}")
    pd.testing.assert_frame_equal(sb.open_release(tmp_path), sb.open_release(saved))
    shutil.copy(saved / "synthetic.jsonl", public / "synthetic_augpe.jsonl")
    with pytest.raises(sb.ParamsError, match=r"several methods.*synthetic_augpe\.jsonl, "):
        sb.open_release(public)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("absent", None, "not found"),
        ("folder/", None, "has no texts of a release"),
        ("texts.csv", b"a,b\n", "name a .jsonl or .parquet file"),
        ("texts.jsonl", b'{"id": 1, "text": "half', "is not a file of released texts"),
        ("texts.jsonl", b'{"id": 1}\n{"other": 2}\n', "is not a file of released texts"),
        ("texts.jsonl", b"[1]\n", "is not a file of released texts"),
        ("texts.jsonl", b"\xff\xfe\x00", "is not a file of released texts"),
        ("texts.parquet", b"PAR1 no", "is not a file of released texts"),
    ],
)
def test_what_is_no_release_is_refused_with_one_message(
    name: str, content: bytes | None, message: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    elif name.endswith("/"):
        path.mkdir()
    with pytest.raises(sb.SugarbushError, match=message) as caught:
        sb.open_release(path)
    assert "half" not in str(caught.value)


def test_the_line_of_code_on_the_page_gives_the_values_of_the_release(
    release: sb.Release, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (saved / "index.html").read_text("utf-8")
    found = re.search(r'<code id="code">(.*?)</code>', page)
    assert found is not None
    monkeypatch.chdir(saved)
    names: dict[str, pd.DataFrame] = {}
    exec(unescape(found[1]), {}, names)
    pd.testing.assert_frame_equal(names["texts"], release.frame)
    whole = release.report().html
    assert "synthetic.parquet" in whole and whole.count("base64,") >= 5


def test_datasets_reads_the_parquet_file_with_the_types_of_the_schema(
    release: sb.Release, saved: Path, tmp_path: Path
) -> None:
    datasets = pytest.importorskip("datasets")
    texts = datasets.load_dataset(
        "parquet",
        data_files=str(saved / "synthetic.parquet"),
        split="train",
        cache_dir=str(tmp_path / "cache"),
    )
    assert texts["text"][:] == list(release.texts)
    asked = release.frame["requested_code"]
    assert texts["requested_code"][:] == [None if pd.isna(v) else v for v in asked]
    assert texts.features["requested_code"].dtype == "string"
    assert texts.features["requested_stars"].dtype == "int64"
    assert texts.features["requested_day"].dtype == "date32"


def test_show_prints_values_as_the_file_has_them(tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_bytes((ROOT / "params.yaml").read_bytes())
    folder, public = tmp_path / "data/released/enlarge/maple", tmp_path / "data/public/example"
    for each in (folder, public):
        each.mkdir(parents=True)
    (public / "schema.yaml").write_text(json.dumps(SCHEMA))
    rows = [
        {
            "id": i, "text": "Late.", "code": code, "code_of_shop": f"s{i}",
            "stars": 4 if i else None, "weight": 1.0,
        }
        for i, code in enumerate(CODES)
    ]  # fmt: skip
    (folder / "synthetic.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    printed = io.StringIO()
    console = Console(file=printed, width=120)
    show_stage(tmp_path, "synthetic", method="maple", rows=99, internal=False, console=console)
    values = re.findall(r"code: (.*?)\s*[│|]", printed.getvalue())
    assert values == CODES
    assert "code_of_shop: s3" in printed.getvalue()
    assert "stars: 4.0" not in printed.getvalue()
