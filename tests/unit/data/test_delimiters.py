"""Tests that a csv file is read with the delimiter of its header."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sugarbush.data.reading import column_names, read_rows
from sugarbush.errors import InputError

TEXTS = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), min_size=1)


def written(rows: list[list[str]], delimiter: str) -> str:
    file = io.StringIO()
    csv.writer(file, delimiter=delimiter).writerows(rows)
    return file.getvalue()


def texts_of(path: Path) -> list[str]:
    return [
        row.fields["text"] for row in read_rows(path, wanted={"text": "--text"}, setting="--from")
    ]


@given(texts=st.lists(TEXTS, min_size=1, max_size=5), delimiter=st.sampled_from(",;\t|"))
def test_every_text_survives_every_delimiter(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], delimiter: str
) -> None:
    path = tmp_path_factory.mktemp("csv") / "in.csv"
    rows = [["no.", "text"], *([str(i), text] for i, text in enumerate(texts))]
    path.write_text(written(rows, delimiter), encoding="utf-8", newline="")
    assert texts_of(path) == texts


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        ("text\none; two, three\n", None),  # the header has one cell, and the row two
        ("text\none; two\n", ["one; two"]),
        ("\ufeffno;text\n1;good, but late\n", ["good, but late"]),
        ('"a, b";text\n1;x\n', ["x"]),  # a comma in quotes separates nothing
        ("no,text\n1,a;b;c\n", ["a;b;c"]),
        ("no\ttext\tnote (free, honest, long)\n1\ta\tb\n", ["a"]),
        ("a;b;c;d,text\n1,x\n", ["x"]),  # the wanted column decides before the number of cells
    ],
)
def test_the_header_alone_decides(tmp_path: Path, content: str, texts: list[str] | None) -> None:
    path = tmp_path / "in.csv"
    path.write_text(content, encoding="utf-8")
    assert "text" in column_names(path, setting="--from", required={"text": "--text"})
    if texts is None:
        with pytest.raises(InputError, match="row 2: has 2 cells"):
            texts_of(path)
    else:
        assert texts_of(path) == texts
