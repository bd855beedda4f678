"""JSON files with the records inside, and objects of several lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sugarbush.data.formats import json_files
from sugarbush.data.formats.rows import ReadOptions
from sugarbush.data.reading import column_names, path_of_records, read_rows
from sugarbush.errors import InputError

TICKETS = [{"id": 1, "body": "It flickers.", "tags": ["a"]}, {"id": 2, "body": "It is late."}]
USERS = [{"id": 7, "name": "Vera"}]


def _file(folder: Path, content: Any, *, indent: int | None = None, kind: str = "json") -> Path:
    file = folder / f"data.{kind}"
    file.write_text(json.dumps(content, indent=indent), encoding="utf-8-sig")
    return file


def _path(file: Path, *needed: str) -> str | None:
    return path_of_records(file, needed=needed, setting="--from", options=ReadOptions())


def _bodies(file: Path, records: str | None, column: str = "body") -> list[tuple[int, Any]]:
    options = ReadOptions(table=records)
    column_names(file, required={column: "--text"}, setting="--from", options=options)
    rows = read_rows(file, setting="--from", wanted={column: "--text"}, options=options)
    return [(row.number, row.fields[column]) for row in rows]


@pytest.mark.parametrize(("indent", "block"), [(None, 1), (2, 3), (None, 2**20), (2, 2**20)])
@pytest.mark.parametrize(
    ("content", "path"),
    [
        ({"tickets": TICKETS}, "tickets"),
        ({"count": 2, "next": None, "data": {"tickets": TICKETS, "page": 1}}, "data.tickets"),
        ({"users": USERS, "tickets": TICKETS, "notes": ["a", 1, None, []]}, "tickets"),
        ({"empty": [], "tickets": TICKETS, "x": {"y": {"z": [[1], [2]]}}}, "tickets"),
    ],
)
def test_the_list_of_records_is_found_by_its_names(
    tmp_path: Path, content: Any, path: str, indent: int | None, block: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_files, "_BLOCK_CHARACTERS", block)
        file = _file(tmp_path, content, indent=indent)
        assert _path(file, "body") == path
        assert _bodies(file, path) == [(1, "It flickers."), (2, "It is late.")]


def test_two_lists_with_the_columns_are_named(tmp_path: Path) -> None:
    file = _file(tmp_path, {"open": TICKETS, "closed": TICKETS})
    with pytest.raises(InputError, match=r"2 lists may be the records: open, closed.*--records"):
        _path(file, "body")
    assert len(_bodies(file, "closed")) == 2


@pytest.mark.parametrize(
    "content",
    [
        {"ann@secret.org": TICKETS},
        {"by": {"Ann Secret, 1970": TICKETS}},
        {"users": {f"secret{number}": {"posts": TICKETS} for number in range(9)}},
    ],
)
def test_names_of_lists_that_may_be_people_are_neither_shown_nor_used(
    tmp_path: Path, content: Any
) -> None:
    with pytest.raises(InputError, match=r"may be the records\. Name the list of") as error:
        _path(_file(tmp_path, content), "body")
    assert "secret" not in str(error.value).lower()


@pytest.mark.parametrize(
    ("content", "needed"),
    [
        (TICKETS, "body"),
        ({"id": 1, "body": "It flickers.", "comments": TICKETS}, "body"),
        ({"messages": [{"role": "user", "content": "a"}]}, "messages"),
    ],
)
def test_an_object_with_the_columns_is_a_record(tmp_path: Path, content: Any, needed: str) -> None:
    assert _path(_file(tmp_path, content), needed) is None


def test_a_path_passes_through_lists(tmp_path: Path) -> None:
    pages = [{"chats": {"list": [{"messages": TICKETS[:1]}, {"messages": TICKETS[1:]}]}}, {}]
    expected = [(1, "It flickers."), (2, "It is late.")]
    assert _bodies(_file(tmp_path, pages), "chats.list.messages") == expected
    assert _bodies(_file(tmp_path, pages[0]), "chats.list.messages") == expected


def test_each_line_may_have_a_list(tmp_path: Path) -> None:
    file = tmp_path / "data.jsonl"
    file.write_text("\n".join(json.dumps({"page": n, "items": TICKETS}) for n in (1, 2)))
    assert [number for number, _ in _bodies(file, "items")] == [1, 1, 2, 2]
    file.write_text(file.read_text() + '\n{"page": 3}')
    with pytest.raises(InputError, match=r"row 3: has no list of records at items"):
        _bodies(file, "items")


@pytest.mark.parametrize("records", ["cases", "tickets.body", "count"])
def test_a_path_without_a_list_is_named(tmp_path: Path, records: str) -> None:
    file = _file(tmp_path, {"count": 2, "tickets": TICKETS})
    with pytest.raises(InputError, match=r"has no (list of records|rows)"):
        _bodies(file, records)


@pytest.mark.parametrize("cut", [1, 30])
def test_a_file_that_ends_inside_is_refused(tmp_path: Path, cut: int) -> None:
    file = _file(tmp_path, {"tickets": TICKETS})
    file.write_text(file.read_text(encoding="utf-8-sig")[:-cut])
    with pytest.raises(InputError, match=r"is not JSON|cannot be read"):
        _bodies(file, "tickets")


def test_a_folder_of_objects_of_several_lines(tmp_path: Path) -> None:
    for number, ticket in enumerate(TICKETS):
        (tmp_path / f"{number}.json").write_text(json.dumps(ticket, indent=2))
    assert _bodies(tmp_path, None) == [(1, "It flickers."), (1, "It is late.")]
