"""Tests that a damaged file of a released folder is one message that names the folder."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from sugarbush.errors import StorageError
from sugarbush.paths import Roots
from sugarbush.release.figures import given_lines, read_figures

LINE = b'{"text": "a lamp"}\n'
FILES = {
    "enlarge/mosaic/synthetic.jsonl": LINE,
    "enlarge/mosaic/labels.json": b"[]",
    "figures/figures.json": b'{"level": 0.9, "methods": {}}',
    "figures/release.json": b'{"run": "r", "ledger_ids": []}',
}


def written(roots: Roots) -> Path:
    for name, content in FILES.items():
        path = roots.released / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    folder = roots.released / "enlarge/mosaic"
    pd.DataFrame({"weight": [1.0]}).to_parquet(folder / "labels.parquet")
    return folder


def test_whole_files_are_read(tmp_path: Path) -> None:
    folder = written(Roots(tmp_path))
    assert read_figures(Roots(tmp_path)) is not None
    assert given_lines(folder) == LINE


@pytest.mark.parametrize("content", [b"", b"[3]", b'{"methods": {"mosaic"', b"\xff", None])
@pytest.mark.parametrize(
    "damaged",
    [
        "enlarge/mosaic/labels.json",
        "figures/figures.json",
        "figures/release.json",
        "enlarge/mosaic/labels.parquet",
    ],
)
def test_a_damaged_file_is_one_message_that_names_its_folder(
    damaged: str, content: bytes | None, tmp_path: Path
) -> None:
    roots = Roots(tmp_path)
    folder, path = written(roots), roots.released / damaged
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    elif damaged == "figures/figures.json":
        path.mkdir()  # without the file, nothing was measured
    with pytest.raises(StorageError, match=r"(mosaic|figures): a file is damaged") as refusal:
        given_lines(folder)
    assert "\n" not in str(refusal.value)
