"""Files with something above the table: titles, and several header rows."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sugarbush.data.formats.header_rows import HeaderRowsError
from sugarbush.data.formats.rows import ReadOptions
from sugarbush.data.reading import column_names, read_rows
from sugarbush.errors import InputError
from tests.unit.data.formats import xlsx

QUALTRICS = [
    ["StartDate", "Progress", "ResponseId", "Q1", "Q2"],
    ["Start Date", "Progress", "Response ID", "How satisfied are you?", "What should we\nimprove?"],
    ['{"ImportId":"startDate","timeZone":"UTC"}', '{"ImportId":"progress"}',
     '{"ImportId":"_recordId"}', '{"ImportId":"QID1"}', '{"ImportId":"QID2_TEXT"}'],
    ["2026-01-05 09:12:33", "100", "R_1aB", "Very", "The lamp flickers."],
    ["2026-01-06 10:00:01", "100", "R_2cD", "Hardly", "Delivery, please, sooner."],
    ["2026-01-07 11:30:00", "50", "R_3eF", "", "Nothing."],
]  # fmt: skip
SURVEYMONKEY = [
    ["Respondent ID", "Start Date", "Name:", "What did you like?", "", "Comments"],
    ["", "", "Response", "The lamp", "The chair", "Open-Ended Response"],
    ["118001", "01/05/2026 09:12:33 AM", "Vera", "The lamp", "", "It flickers."],
    ["118002", "01/06/2026 10:00:01 AM", "Ole", "", "The chair", "It is late."],
]
TITLE = [
    ["Complaints of 2026", "", ""],
    ["", "", ""],
    ["no", "Comments", "stars"],
    ["1", "It flickers.", "2"],
    ["2", "It is late.", "1"],
    ["3", "Good.", "5"],
]
UNITS = [
    ["no", "Comments", "price"],
    ["", "as written", "EUR"],
    ["1", "It flickers.", "12.50"],
    ["2", "It is late.", "9"],
    ["3", "Good.", "n/a"],
]
PLAIN = [
    ["no", "Comments", "price"],
    ["n/a", "It flickers.", "unknown"],
    ["2", "It is late.", "9"],
    ["3", "Good.", "8"],
]
REPEATED = [
    ["no", "Comments"],
    ["Number", "Comments of the customer"],
    ["1", "It flickers."],
    ["2", "It is late."],
]


def _file(folder: Path, rows: Sequence[Sequence[Any]], kind: str) -> Path:
    file = folder / f"data.{kind}"
    if kind == "xlsx":
        xlsx(file, {"notes": [["a note"]], "data": rows})
    else:
        with file.open("w", newline="", encoding="utf-8-sig") as opened:
            csv.writer(opened, delimiter="\t" if kind == "tsv" else ";").writerows(rows)
    return file


def _texts(file: Path, column: str, header_rows: int | None) -> list[tuple[int, str]]:
    options = ReadOptions(header_rows=header_rows)
    rows = read_rows(file, setting="--from", wanted={column: "--text"}, options=options)
    return [(row.number, row.fields[column]) for row in rows]


@pytest.mark.parametrize("kind", ["csv", "tsv", "xlsx"])
@pytest.mark.parametrize(
    ("rows", "column", "count"),
    [
        (QUALTRICS, "Q2", 3),
        (QUALTRICS, "What should we\nimprove?", 3),
        (SURVEYMONKEY, "Comments", 2),
        (TITLE, "Comments", 3),
        (UNITS, "Comments", 2),
        (REPEATED, "Comments", 2),
        ([["Complaints of 2026"], *UNITS], "Comments", 3),
    ],
)
def test_header_rows_are_shown_and_skipped_once_their_number_is_set(
    tmp_path: Path, rows: Sequence[Sequence[Any]], column: str, count: int, kind: str
) -> None:
    file = _file(tmp_path, rows, kind)
    with pytest.raises(HeaderRowsError, match=f"--header-rows to {count}") as caught:
        column_names(file, required={column: "--text"}, setting="--from")
    assert caught.value.rows == count
    options = ReadOptions(header_rows=count)
    named = column_names(file, required={column: "--text"}, setting="--from", options=options)
    assert "flickers" not in " ".join([str(caught.value), *named])
    names = next(row for row in rows if column in row)
    expected = [
        (number, str(row[names.index(column)]))
        for number, row in enumerate(rows, start=1)
        if number > count
    ]
    assert _texts(file, column, count) == expected


@pytest.mark.parametrize("kind", ["csv", "xlsx"])
def test_missing_values_in_the_first_record_are_no_header_row(tmp_path: Path, kind: str) -> None:
    file = _file(tmp_path, PLAIN, kind)
    column_names(file, required={"Comments": "--text"}, setting="--from")
    assert _texts(file, "Comments", None)[0] == (2, "It flickers.")


@pytest.mark.parametrize("kind", ["csv", "xlsx"])
def test_names_of_two_header_rows_are_refused_with_both_rows(tmp_path: Path, kind: str) -> None:
    file = _file(tmp_path, QUALTRICS, kind)
    required = {"How satisfied are you?": "--text", "ResponseId": "--id"}
    options = ReadOptions(header_rows=3, table="data" if kind == "xlsx" else None)
    expected = r"row 2 has the column 'How satisfied are you\?', but row 1 has other columns"
    with pytest.raises(InputError, match=expected):
        column_names(file, required=required, setting="--from", options=options)


def test_one_header_row_may_be_declared(tmp_path: Path) -> None:
    file = _file(tmp_path, UNITS, "csv")
    options = ReadOptions(header_rows=1)
    column_names(file, required={"Comments": "--text"}, setting="--from", options=options)
    assert _texts(file, "Comments", 1)[0] == (2, "as written")


def test_the_delimiter_is_that_of_the_names_and_not_of_the_title(tmp_path: Path) -> None:
    file = tmp_path / "data.csv"
    file.write_text("Complaints, by month, and by shop\n# of 2026\nno;text\n1;late, again\n")
    assert _texts(file, "text", 3) == [(4, "late, again")]


def test_a_file_without_header_rows_refuses_the_option(tmp_path: Path) -> None:
    file = tmp_path / "data.jsonl"
    file.write_text('{"text": "late"}\n')
    with pytest.raises(InputError, match="only csv and xlsx files have header rows"):
        _texts(file, "text", 2)


def test_a_file_in_ranges_has_the_rows_below_its_header_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sugarbush.data.reading as reading_
    from sugarbush.data.formats.rows import Reading
    from sugarbush.privacy.shards import map_shards

    monkeypatch.setattr(reading_, "_SPAN_BYTES", 64)
    rows = [*QUALTRICS[:3], *(["2026-01-05", "1", "R", f"{n}", f"a\n{n}"] for n in range(50))]
    file = _file(tmp_path, rows, "csv")
    reading = Reading("--from", {"Q2": "--text"}, options=ReadOptions(header_rows=3))
    shards = reading_.file_shards(file, reading=reading, map_shards=map_shards)
    assert len(shards) > 3
    found = [
        (row.number, row.fields["Q2"])
        for shard in shards
        for batch in reading_.shard_batches(shard, reading)
        for row in batch
    ]
    assert found == _texts(file, "Q2", 3)
