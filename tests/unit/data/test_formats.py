"""Tests that the same rows in every format give the same records, and that errors show no value."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from datetime import date, datetime
from decimal import Decimal
from email.message import EmailMessage
from pathlib import Path
from typing import Any
from unittest import mock

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sugarbush.data.formats import json_files, text_files
from sugarbush.data.formats.folders import files_of
from sugarbush.data.formats.rows import ReadOptions
from sugarbush.data.reading import (
    column_names,
    digest_of_files,
    encoding_of_header,
    encoding_of_source,
    read_rows,
    reads_keys,
)
from sugarbush.data.records import usable
from sugarbush.data.remote import source_of
from sugarbush.data.schema import Schema
from sugarbush.data.settings import PrepareSettings
from sugarbush.errors import InputError, ParamsError
from tests.settings import ROOT
from tests.unit.data.formats import COLUMNS, NEEDS, WITH_KEYS, WRITERS, csv_writer, mailbox, xlsx

CANARY = "canary-7731"
SETTING = "prepare.file"
WANTED = {"text": "prepare.text_column", "id": "prepare.id_column", "stars": "attribute 'stars'"}
STARS = [{"name": "stars", "column": "stars", "bins": [2, 4]}]
SCHEMA = Schema.model_validate({"subject": "letters", "attributes": STARS})
HF = ROOT / "tests" / "fixtures" / "hf"


def read(folder: Path, name: str, wanted: Mapping[str, str] = WANTED, **options: Any) -> Any:
    source = source_of(folder, name, setting=SETTING)
    return read_rows(source, setting=SETTING, wanted=wanted, options=ReadOptions(**options))


def records(folder: Path, name: str, **options: Any) -> list[tuple[Any, ...]]:
    """The records without their row numbers, sorted by id, because a database has no order."""
    prepare = PrepareSettings.model_validate({"id_column": "id"})
    rows = read(folder, name, **options)
    found, _ = usable(rows, prepare, SCHEMA, source="f", setting=SETTING)
    return sorted((r.id, r.text, r.raw, r.user) for r in found)


# Spreadsheets and XML have no control characters, and a workbook has one line end.
TEXT = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufeff\ufffe\uffff"),
    min_size=1,
    max_size=30,
).filter(lambda text: bool(text.strip()) and "_x" not in text)
TABLES = st.lists(
    st.fixed_dictionaries({"text": TEXT, "stars": st.integers(-9, 10**6).map(str)}),
    min_size=1,
    max_size=6,
).map(
    lambda rows: [
        {"id": f"r{i}", "text": row["text"], "stars": row["stars"]} for i, row in enumerate(rows)
    ]
)


@pytest.mark.slow
@settings(max_examples=25)
@given(rows=TABLES, number=st.booleans())
@pytest.mark.parametrize("kind", WRITERS)
def test_the_same_rows_in_every_format_give_the_same_records(
    tmp_path_factory: pytest.TempPathFactory, kind: str, rows: list[dict[str, Any]], number: bool
) -> None:
    pytest.importorskip(NEEDS.get(kind, "pyarrow"))
    expected = [(r["id"], r["text"], (r["stars"],), None) for r in rows]
    typed = [{**r, "stars": int(r["stars"]) if number else r["stars"]} for r in rows]
    folder = tmp_path_factory.mktemp("format")
    assert records(folder, WRITERS[kind](folder, typed)) == sorted(expected)


@pytest.mark.parametrize("kind", WRITERS)
def test_column_names_of_every_format(tmp_path: Path, kind: str) -> None:
    pytest.importorskip(NEEDS.get(kind, "pyarrow"))
    name = WRITERS[kind](tmp_path, [{"id": CANARY, "text": CANARY, "stars": CANARY}])
    source = source_of(tmp_path, name, setting=SETTING)
    expected = COLUMNS.get(kind, ("id", "text", "stars"))
    assert column_names(source, required=WANTED, setting="--from") == expected
    assert reads_keys(source) == (kind in WITH_KEYS)
    with pytest.raises(InputError, match="'gone'") as refusal:
        column_names(source, required={"gone": "--text"}, setting="--from")
    assert CANARY not in str(refusal.value)


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1", "cp1250", "shift_jis", "utf-16-le"])
def test_an_encoding_of_the_settings(tmp_path: Path, encoding: str) -> None:
    text = {"cp1250": "Łódź", "shift_jis": "配送が遅い"}.get(encoding, "été - über")
    name = csv_writer(encoding)(tmp_path, [{"id": "r1", "text": text, "stars": "3"}])
    assert records(tmp_path, name, encoding=encoding) == [("r1", text, ("3",), None)]


def test_a_mark_decides_before_the_setting(tmp_path: Path) -> None:
    for encoding in ("utf-8-sig", "utf-16"):
        name = csv_writer(encoding)(tmp_path, [{"id": "r1", "text": "été", "stars": "3"}])
        assert records(tmp_path, name, encoding="cp1252")[0][1] == "été"


def test_check_names_the_encoding(tmp_path: Path) -> None:
    row = {"id": "r1", "text": "été", "stars": "3"}

    def shown(name: str, encoding: str | None = None) -> str | None:
        source = source_of(tmp_path, name, setting=SETTING)
        return encoding_of_source(source, setting=SETTING, options=ReadOptions(encoding=encoding))

    for encoding, name in (("utf-8-sig", "UTF-8"), ("utf-16", "UTF-16"), ("cp1252", "cp1252")):
        file = csv_writer(encoding)(tmp_path, [row])
        assert shown(file, "cp1252") == name
    assert shown(file) == "UTF-8", "nobody has looked at the rows"
    assert shown(WRITERS["parquet"](tmp_path, [row])) is None


def test_no_record_decides_the_encoding_of_another(tmp_path: Path) -> None:
    """A guess would read every text differently because of one byte in one record."""
    good = "id,text,stars\nr1,été,3\n".encode()
    (tmp_path / "data.csv").write_bytes(good + b"r2," + CANARY.encode() + b" \xe9,3\n")
    with pytest.raises(InputError, match=r"line 3: is not UTF-8 at byte 40\. Set prepare") as found:
        read(tmp_path, "data.csv")
    assert CANARY not in str(found.value) and "xe9" not in str(found.value)
    assert encoding_of_header(tmp_path / "data.csv", setting="--from") is None


def test_the_place_of_a_wrong_byte_in_every_encoding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = {
        "utf-16": ("id,text\nr1,é\n".encode("utf-16-le"), b"\x00\xdc\x00\x00", 1),
        "cp1252": ("id,text\nr1,é\n".encode("cp1252"), b"\x81", 0),
        "utf-8": (("id,text\nr1,é\n" * 3).encode(), b"\xff", 0),
    }
    for block in (3, 5, 2**20):
        monkeypatch.setattr(text_files, "_BLOCK_BYTES", block)
        for encoding, (good, bad, mark) in cases.items():
            start = b"\xff\xfe" * mark + good
            (tmp_path / "data.csv").write_bytes(start + bad)
            line = 1 + good.count(b"\n")
            shown = encoding.upper() if "utf" in encoding else encoding
            with pytest.raises(
                InputError, match=f"line {line}: is not {shown} at byte {len(start)}"
            ):
                read(tmp_path, "data.csv", {"id": "x"}, encoding=encoding)


def test_a_header_that_is_not_utf8_gives_the_encoding(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_bytes("text;größe\nfür;3\n".encode("cp1252"))
    assert encoding_of_header(tmp_path / "data.csv", setting="--from") == "cp1252"
    names = column_names(
        tmp_path / "data.csv",
        required={"größe": "--id"},
        setting="--from",
        options=ReadOptions(encoding="cp1252"),
    )
    assert names == ("text", "größe")
    with pytest.raises(InputError, match=r"is not UTF-8\. Set prepare\.encoding"):
        column_names(tmp_path / "data.csv", required={}, setting="--from")


@pytest.mark.parametrize("name", ["latin-9000", "hex", "utf-7", "unicode_escape", "rot13"])
def test_a_codec_that_is_no_encoding_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="encoding"):
        PrepareSettings(encoding=name)


def nested(name: str) -> dict[str, str]:
    return {name: "prepare.text_column"}


def test_dotted_paths_in_json_parquet_and_arrow(tmp_path: Path) -> None:
    rows = [
        {"ticket": {"body": f"late {i}", "by": {"name": f"u{i}"}}, "n": i, "tags": ["a", "b"]}
        for i in range(9)
    ]
    for kind in ("JSON lines", "json", "parquet", "Arrow stream"):
        name = WRITERS[kind](tmp_path, rows)
        wanted = nested("ticket.body") | {"ticket.by.name": "prepare.user_column", "tags": "x"}
        found = [row.fields for row in read(tmp_path, name, wanted)]
        assert [f["ticket.body"] for f in found] == [f"late {i}" for i in range(9)], kind
        assert [f["ticket.by.name"] for f in found] == [f"u{i}" for i in range(9)]
        assert found[0]["tags"] == ["a", "b"]
        every = read_rows(tmp_path / name, setting=SETTING, wanted={}, all_columns=True)
        assert every[3].fields == {
            "ticket.body": "late 3", "ticket.by.name": "u3", "n": 3, "tags": ["a", "b"]
        }  # fmt: skip
        names = column_names(tmp_path / name, required=nested("ticket.body"), setting="--from")
        assert {"ticket.body", "ticket.by.name", "n"} <= set(names)
        for missing in ("ticket.gone", "n.body", "tags.a", "ticket.body.x"):
            with pytest.raises(InputError, match=f"no column '{missing}'"):
                read(tmp_path, name, nested(missing))


def test_a_column_with_a_dot_in_its_name_comes_before_a_path(tmp_path: Path) -> None:
    rows = [{"a.b": "column", "a": {"b": "field", "c.d": "dots"}}]
    for kind in ("JSON lines", "parquet", "Arrow stream"):
        name = WRITERS[kind](tmp_path, rows)
        (row,) = read(tmp_path, name, {"a.b": "x", "a.c.d": "y"})
        assert (row.fields["a.b"], row.fields["a.c.d"]) == ("column", "dots"), kind


def test_a_record_without_the_object_has_no_text(tmp_path: Path) -> None:
    for kind in ("JSON lines", "parquet"):
        name = WRITERS[kind](tmp_path, [{"t": {"b": "late"}}, {"t": None}, {"t": {"b": None}}])
        values = [row.fields.get("t.b") for row in read(tmp_path, name, nested("t.b"))]
        assert values == ["late", None, None]
        prepare = PrepareSettings(text_column="t.b")
        with pytest.raises(InputError, match=r"rows 2, 3: has no text in column 't\.b'"):
            usable(
                read(tmp_path, name, nested("t.b")),
                prepare,
                Schema.model_validate({"subject": "s", "attributes": [
                    {"name": "a", "values": ["a"], "keywords": {"a": ["a"]}}]}),
                source="f",
                setting=SETTING,
            )  # fmt: skip


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60)
@given(
    rows=st.lists(st.dictionaries(st.text(), json_values, max_size=3), min_size=1, max_size=5),
    indent=st.sampled_from([None, 0, 3]),
    ascii_only=st.booleans(),
    block=st.sampled_from([1, 2, 7, 50]),
)
def test_a_list_is_read_in_blocks_as_at_once(
    tmp_path_factory: pytest.TempPathFactory, rows: Any, indent: Any, ascii_only: bool, block: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "list.json"
    text = json.dumps(rows, indent=indent, ensure_ascii=ascii_only)
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    expected = json.loads(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_files, "_BLOCK_CHARACTERS", block)
        try:
            found = read_rows(path, setting="s", wanted={})
        except InputError as error:
            assert "not UTF-8" in str(error) and not ascii_only  # a lone surrogate
            return
    assert [row.fields for row in found] == expected
    assert [row.number for row in found] == list(range(1, len(rows) + 1))


@pytest.mark.parametrize(
    ("content", "row"),
    [
        (f'[{{"text": "{CANARY}"}}, {{"text": {CANARY}}}]', 2),
        (f'[{{"text": "{CANARY}"}} {{"text": "b"}}]', 2),
        (f'[{{"text": "{CANARY}"}},]', 2),
        (f'[{{"text": "{CANARY}"}}', 2),
        (f'[{{"text": "{CANARY}"}}] {CANARY}', 2),
        (f'[{{"text": "{CANARY}', 1),
        (f'["{CANARY}"]', 1),
        (f'{{"text": "{CANARY}"}}\n{{"text": {CANARY}}}\n', 2),
        ("[" + '{"a":' * 100_000, 1),
        (f"{CANARY}", 1),
    ],
)
def test_a_wrong_list_is_named_by_its_row(tmp_path: Path, content: str, row: int) -> None:
    (tmp_path / "data.json").write_text(content)
    with pytest.raises(InputError, match=rf"data\.json, row {row}: is not JSON") as refusal:
        read(tmp_path, "data.json", {})
    assert CANARY not in str(refusal.value)


def test_an_early_error_of_a_long_list_does_not_read_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_files, "_BLOCK_CHARACTERS", 100)
    (tmp_path / "data.json").write_text('[{"a": wrong}' + ', {"a": 1}' * 10_000 + "]")
    sizes: list[int] = []
    real = json_files._JsonText._read_more

    def counted(self: Any) -> bool:
        sizes.append(len(self._text))
        return real(self)

    monkeypatch.setattr(json_files._JsonText, "_read_more", counted)
    with pytest.raises(InputError, match="row 1"):
        read(tmp_path, "data.json", {})
    assert max(sizes) <= 200


def test_json_lines_may_be_named_json(tmp_path: Path) -> None:
    (tmp_path / "data.json").write_text('\n{"text": "a"}\n\n{"text": "b"}\n')
    assert [row.number for row in read(tmp_path, "data.json", {"text": "s"})] == [2, 4]


def test_the_cells_of_a_workbook(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    lines = [
        ["text", "id", "when", "price", "note", "text"[:0] or None],
        ["late", 17, datetime(2026, 11, 21), 2.5, True, "a stray note"],
        [],
        ["lost_x000D_\nagain", 18.0, datetime(2026, 11, 21, 8, 30), Decimal("3"), "#N/A"],
        ["=1+1", "r3", date(2026, 1, 2), 1e3],
    ]
    xlsx(tmp_path / "data.xlsx", {"Sheet": lines})
    rows = read(tmp_path, "data.xlsx", dict.fromkeys(("text", "id", "when", "price", "note"), "s"))
    assert [row.number for row in rows] == [2, 4, 5]
    assert rows[0].fields == {
        "text": "late", "id": 17, "when": datetime(2026, 11, 21), "price": 2.5, "note": True
    }  # fmt: skip
    assert rows[1].fields["text"] == "lost\r\nagain" and rows[1].fields["note"] is None
    assert rows[2].fields["text"] is None, "a formula that no program has computed"


def test_merged_cells_are_not_filled(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    workbook = openpyxl.Workbook()
    for line in (["text", "topic"], ["a", "lamp"], ["b", None]):
        workbook.active.append(line)
    workbook.active.merge_cells("B2:B3")
    workbook.save(tmp_path / "data.xlsx")
    rows = read(tmp_path, "data.xlsx", {"text": "s", "topic": "s"})
    assert [row.fields["topic"] for row in rows] == ["lamp", None]


def test_the_value_that_a_spreadsheet_stored_for_a_formula(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    import zipfile

    xlsx(tmp_path / "old.xlsx", {"Sheet": [["text"], ["=A1"]]})
    with (
        zipfile.ZipFile(tmp_path / "old.xlsx") as old,
        zipfile.ZipFile(tmp_path / "data.xlsx", "w") as new,
    ):
        for name in old.namelist():
            content = old.read(name)
            if name.endswith("sheet1.xml"):  # as a spreadsheet program stores it
                content = content.replace(b'<c r="A2">', b'<c r="A2" t="str">')
                content = content.replace(b"<v />", b"<v>stored</v>").replace(
                    b"<v></v>", b"<v>stored</v>"
                )
            new.writestr(name, content)
    assert [row.fields["text"] for row in read(tmp_path, "data.xlsx", {"text": "s"})] == ["stored"]


def test_the_sheet_with_the_columns_is_read(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    data = [["id", "text", "stars"], ["r1", "late", 3]]
    xlsx(tmp_path / "data.xlsx", {"Cover": [["Letters"]], "2025": data, "2026": data})
    with pytest.raises(InputError, match=r"2 sheets have the columns.*prepare\.table") as refusal:
        read(tmp_path, "data.xlsx")
    assert "2025" not in str(refusal.value)
    assert len(read(tmp_path, "data.xlsx", table="2026")) == 1
    with pytest.raises(InputError, match="has no sheet '2027'"):
        read(tmp_path, "data.xlsx", table="2027")
    with pytest.raises(InputError, match="none of 3 sheets has the columns 'gone'"):
        read(tmp_path, "data.xlsx", {"gone": "s"})
    with pytest.raises(InputError, match="has no column 'text'"):
        read(tmp_path, "data.xlsx", table="Cover")


def test_a_number_that_a_spreadsheet_rounded_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    xlsx(tmp_path / "data.xlsx", {"S": [["id", "text"], [1234567890123450, "late"]]})
    wanted = {"id": "prepare.id_column", "text": "prepare.text_column"}
    with pytest.raises(InputError, match="row 2: column 'id' has a number of more") as refusal:
        read(tmp_path, "data.xlsx", wanted)
    assert "123456" not in str(refusal.value)


@pytest.mark.parametrize("content", [CANARY.encode(), b"PK\x03\x04" + CANARY.encode(), b""])
@pytest.mark.parametrize("name", ["data.xlsx", "data.arrow", "data.feather", "data.parquet"])
def test_a_damaged_file_is_named_and_not_quoted(tmp_path: Path, name: str, content: bytes) -> None:
    pytest.importorskip("openpyxl")
    (tmp_path / name).write_bytes(content)
    for attempt in (lambda: read(tmp_path, name), lambda: names_of(tmp_path / name)):
        with pytest.raises(InputError, match=name) as refusal:
            attempt()
        assert CANARY not in str(refusal.value)


def names_of(path: Path) -> Any:
    return column_names(path, required={}, setting="--from")


def test_a_damaged_arrow_file_never_crashes_the_process(tmp_path: Path) -> None:
    rows = [{"id": f"r{i}", "text": f"letter {i}", "stars": "1"} for i in range(20)]
    WRITERS["Arrow stream"](tmp_path, rows)
    whole = (tmp_path / "data.arrow").read_bytes()
    for place in range(0, len(whole), 7):
        damaged = bytearray(whole)
        damaged[place] ^= 0xFF
        (tmp_path / "data.arrow").write_bytes(damaged)
        try:
            read(tmp_path, "data.arrow")
        except InputError as error:
            assert "letter" not in str(error)


WANTED_HF = {"text": "s", "meta.who": "s", "label": "s"}


def test_a_saved_dataset_of_hugging_face() -> None:
    rows = read(HF, "saved", WANTED_HF)
    assert [row.fields["text"] for row in rows] == [f"Lettre {i} de l'été" for i in range(6)]
    assert [row.fields["meta.who"] for row in rows] == [f"u{i}" for i in range(6)]
    labels = [row.fields["label"] for row in rows]
    assert labels == ["bad", "good", "bad", "good", None, "bad"]
    assert "label" in column_names(HF / "saved", required={"text": "s"}, setting="--from")
    assert digest_of_files(HF, ["saved"], setting="s") != digest_of_files(
        HF, ["splits/train"], setting="s"
    )


def test_one_split_of_a_dataset_is_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"the splits train, test\. Name one.*splits/train "):
        read(HF, "splits", WANTED_HF)
    with pytest.raises(InputError, match=r"the splits test, train\. Name one.*data/test-\* "):
        read(HF, "hub", WANTED_HF)
    for name in ("splits/train", "hub/data/train-*"):
        rows = read(HF, name, WANTED_HF)
        assert [row.fields["label"] for row in rows] == ["bad", "good", "bad", "good"]
    shutil.copytree(HF / "hub", tmp_path / "hub")
    (tmp_path / "hub/data/test-00000-of-00001.parquet").unlink()
    for name in ("README.md", ".gitattributes", "LICENSE"):
        (tmp_path / "hub" / name).write_text("words")
    assert len(read(tmp_path, "hub", WANTED_HF)) == 4
    shutil.copytree(HF / "splits", tmp_path / "splits")
    (tmp_path / "splits/dataset_dict.json").write_text('{"splits": ["test"]}')
    assert len(read(tmp_path, "splits", WANTED_HF)) == 2


@pytest.mark.parametrize("state", ["", "[]", "{}", '{"_data_files": [{"filename": "../a.arrow"}]}'])
def test_a_damaged_dataset_folder_is_an_error(tmp_path: Path, state: str) -> None:
    shutil.copytree(HF / "saved", tmp_path / "saved")
    (tmp_path / "saved/state.json").write_text(state)
    with pytest.raises(InputError, match=r"saved: state\.json lists no files"):
        read(tmp_path, "saved", WANTED_HF)


def test_a_pattern_names_files(tmp_path: Path) -> None:
    for name in ("b-2.csv", "b-1.csv", "c.csv", ".b-0.csv", "b-[3].csv"):
        (tmp_path / name).write_text("text\n" + name)
    assert [f.name for f in files_of(tmp_path / "b-*.csv", setting="s")] == [  # type: ignore[union-attr]
        "b-1.csv", "b-2.csv", "b-[3].csv"
    ]  # fmt: skip
    assert [row.fields["text"] for row in read(tmp_path, "b-[*", {"text": "s"})] == ["b-[3].csv"]
    with pytest.raises(InputError, match=r"x\*: no file has such a name"):
        read(tmp_path, "x*", {})


@pytest.fixture
def memory() -> Iterator[Any]:
    system = fsspec.filesystem("memory")
    yield system
    system.rm("/", recursive=True)


def test_datasets_and_workbooks_on_another_file_system(tmp_path: Path, memory: Any) -> None:
    for file in (path for path in HF.rglob("*") if path.is_file()):
        memory.pipe(f"/hf/{file.relative_to(HF).as_posix()}", file.read_bytes())
    for name in ("saved", "splits/train", "hub/data/train-*"):
        there = [row.fields for row in read(tmp_path, f"memory://hf/{name}", WANTED_HF)]
        assert there == [row.fields for row in read(HF, name, WANTED_HF)]
    with pytest.raises(InputError, match=r"memory://hf/splits: contains the splits train, test"):
        read(tmp_path, "memory://hf/splits", WANTED_HF)
    pytest.importorskip("openpyxl")
    xlsx(tmp_path / "data.xlsx", {"S": [["text"], ["late"]]})
    memory.pipe("/data.xlsx", (tmp_path / "data.xlsx").read_bytes())
    (row,) = read(tmp_path, "memory://data.xlsx", {"text": "s"})
    assert row.fields["text"] == "late"
    with (
        mock.patch.dict("sys.modules", {"openpyxl": None}),
        pytest.raises(ParamsError, match=r"an xlsx file needs the package openpyxl.*\[xlsx\]"),
    ):
        read(tmp_path, "memory://data.xlsx", {"text": "s"})


def test_decimals_are_spelled_like_other_numbers(tmp_path: Path) -> None:
    values = [Decimal("3.00"), Decimal("2.50"), Decimal("100.00")]
    table = pa.table({"id": ["a", "b", "c"], "text": ["x", "y", "z"], "stars": values})
    pq.write_table(table, tmp_path / "data.parquet")
    assert [r[2] for r in records(tmp_path, "data.parquet")] == [("3",), ("2.5",), ("100",)]


def mails(folder: Path, *messages: EmailMessage) -> list[dict[str, Any]]:
    mailbox(folder / "data.mbox", messages)
    wanted = {"text": "s", "from": "s"}
    return [row.fields for row in read(folder, "data.mbox", wanted)]


def mail(**headers: str) -> EmailMessage:
    message = EmailMessage()
    for name, value in headers.items():
        message[name] = value
    return message


def test_a_mail_has_headers_addresses_and_its_plain_text(tmp_path: Path) -> None:
    first = mail(From="Zoë <ZOE@example.org>", To="a@x.org, B <b@x.org>", Subject="Été")
    text = "The lamp\n\nFrom the shop\n\nFrom a@x.org 08:30\n>From b"
    first.set_content(text, cte="8bit")
    first.add_alternative("<p>other</p>", subtype="html")
    first.add_attachment("a note", filename="note.txt")
    second = mail(From="c@x.org")
    second.set_content("<style>p {}</style><p>My lamp<br>is&nbsp;late.</p>", subtype="html")
    found = mails(tmp_path, first, second)
    assert found == [
        {
            "from": "zoe@example.org",
            "to": "a@x.org, b@x.org",
            "subject": "Été",
            "text": text,
        },
        {"from": "c@x.org", "text": "My lamp\nis late."},
    ]


def test_a_mail_that_cannot_be_read_is_named_and_not_quoted(tmp_path: Path) -> None:
    broken = (
        b"From a 08:30\nFrom: a@x.org\nContent-Type: text/plain; charset=us-ascii\n\n"
        + CANARY.encode() + b" \xff\n"
    )  # fmt: skip
    (tmp_path / "data.mbox").write_bytes(broken)
    with pytest.raises(InputError, match="row 1: is a message that cannot be read") as refusal:
        read(tmp_path, "data.mbox", {"text": "s"})
    assert CANARY not in str(refusal.value)
    (tmp_path / "data.mbox").write_text(f"{CANARY}\n")
    with pytest.raises(InputError, match="is not an mbox file") as refusal:
        read(tmp_path, "data.mbox", {"text": "s"})
    assert CANARY not in str(refusal.value)
