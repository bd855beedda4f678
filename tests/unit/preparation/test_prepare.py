import json
import stat
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from sugarbush.data.private_store import PrivateStore
from sugarbush.data.records import Record
from sugarbush.data.schema import Attribute, Schema
from sugarbush.data.settings import PrepareSettings
from sugarbush.data.split import unmatched_values
from sugarbush.errors import InputError, UsageError
from sugarbush.pipeline.opening import open_project
from sugarbush.pipeline.stages import prepare
from sugarbush.preparation.corpus import read_corpus
from sugarbush.privacy.fingerprint import is_same_dataset, stored_values
from sugarbush.privacy.unit import ContributionBounds, Unit
from sugarbush.run.settings import ProjectSettings
from tests.settings import params
from tests.splits import split

CANARY = "canary-7731"
SCHEMA = {
    "subject": "letters",
    "attributes": [{"name": "topic", "column": "topic", "values": ["a", "b"]}],
}


def rows(count: int = 60) -> list[dict[str, Any]]:
    return [
        {"id": f"r{i}", "text": f"{CANARY} letter {i}", "topic": "ab"[i % 2]} for i in range(count)
    ]


def corpus(
    folder: Path, content: str | bytes, suffix: str = ".jsonl", **changes: Any
) -> ProjectSettings:
    """Write a schema and a data file to a project folder. Return settings that name this file."""
    (folder / "schema.yaml").write_text(yaml.safe_dump(SCHEMA))
    path = folder / f"data{suffix}"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return params(
        prepare__file=path.name,
        prepare__schema="schema.yaml",
        prepare__donated=None,
        privacy__purpose="benchmark",
        privacy__dataset="letters",
        prepare__id_column="id",
        prepare__min_records=10,
        **changes,
    )


def run(folder: Path, settings: ProjectSettings) -> None:
    prepare.run(open_project(folder, settings=settings))


def jsonl(records: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path / "state"))


def message(folder: Path, settings: Any) -> str:
    with pytest.raises(UsageError) as refusal:
        run(folder, settings)
    text = str(refusal.value)
    assert CANARY not in text
    assert refusal.value.exit_code == 2
    assert not (folder / "data" / "private" / "prepared").exists()
    assert not (folder / "data" / "stamps" / "prepare.json").exists()
    return text


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_every_format_gives_the_same_private_splits(tmp_path: Path, suffix: str) -> None:
    frame, path = pd.DataFrame(rows()), tmp_path / f"source{suffix}"
    if suffix == ".csv":
        frame.to_csv(path, index=False)
    elif suffix == ".jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.to_parquet(path)
    run(tmp_path, corpus(tmp_path, path.read_bytes(), suffix))
    folder = tmp_path / "data" / "private" / "prepared"
    train, heldout = (pd.read_parquet(folder / f"{p}.parquet") for p in ("train", "heldout"))
    assert sorted([*train.id, *heldout.id]) == sorted(frame.id)
    assert set(train.columns) == {"id", "text", "raw_topic"}
    assert 3 <= len(heldout) <= 20
    for part in (folder, folder.parent):
        assert stat.S_IMODE(part.stat().st_mode) == 0o700


def with_row(row: dict[str, Any]) -> str:
    return jsonl([*rows()[:6], row, *rows()[6:]])


@pytest.mark.parametrize(
    ("content", "suffix", "expected"),
    [
        (jsonl([]), ".jsonl", ["has no rows", "prepare.file"]),
        (jsonl(rows(1)), ".jsonl", ["min_records=10"]),
        (jsonl([{**r, "text": CANARY} for r in rows()]), ".jsonl", ["identical", "text_column"]),
        (with_row({"id": "x", "text": "", "topic": "a"}), ".jsonl", ["row 7", "empty"]),
        (with_row({"id": "x", "text": " \t\n", "topic": "a"}), ".jsonl", ["row 7", "empty"]),
        (with_row({"id": "x", "text": None, "topic": "a"}), ".jsonl", ["row 7", "no text"]),
        (with_row({"id": "x", "text": [CANARY], "topic": "a"}), ".jsonl", ["row 7", "not a text"]),
        (with_row({"id": "x", "text": f"{CANARY}\0", "topic": "a"}), ".jsonl", ["row 7", "NUL"]),
        (
            with_row({"id": "x", "text": CANARY * 100_000, "topic": "a"}), ".jsonl",
            ["row 7", "max_characters=100000"],
        ),
        (with_row({"id": "r3", "text": "t", "topic": "a"}), ".jsonl", ["rows 4 and 7", "same id"]),
        (with_row({"id": None, "text": "t", "topic": "a"}), ".jsonl", ["row 7", "no id"]),
        (jsonl(rows()) + f'{{"text": "{CANARY}', ".jsonl", ["row 61", "not JSON"]),
        (jsonl(rows()) + f'["{CANARY}"]\n', ".jsonl", ["row 61", "not a JSON object"]),
        (jsonl(rows()).encode() + b'{"text": "\xff"}', ".jsonl", ["line 61", "UTF-8", "byte"]),
        (jsonl([{"body": CANARY}]), ".jsonl", ["no column 'text'"]),
        ("id,text\n1,x\n", ".csv", ["no column 'topic'"]),
        (jsonl([{"id": "1", "text": CANARY}]), ".jsonl", ["no column 'topic'", "attribute"]),
        ("id,text,topic\n1,x,a\n2,y\n", ".csv", ["row 3", "2 cells"]),
        ('id,text,topic\n1,"x,a\n', ".csv", ["row 2", "not csv"]),
        # as in a spreadsheet: the header is row 1, a text of three lines is one row
        ('id,text,topic\n1,"x\ny\nz",a\n\n2,,a\n', ".csv", ["row 4: the text", "header is row 1"]),
        ('id,text,topic\n1,"x\ny\nz",a\n2,y\n', ".csv", ["row 3", "2 cells", "(row 1)"]),
        ("id,text,topic,text\n1,x,a,y\n", ".csv", ["column twice"]),
        ("id,text,topic\n1,caf\xe9,a\n".encode("latin-1"), ".csv", ["line 2", "UTF-8"]),
        (b"PAR1 nothing", ".parquet", ["not a parquet file"]),
        (b"", ".parquet", ["not a parquet file"]),
        (b"x", ".docx", ["expected .csv, .jsonl, .json, .parquet", "add-a-format"]),
    ],
)  # fmt: skip
def test_bad_input_gets_one_message_with_file_and_row_and_leaves_nothing(
    tmp_path: Path, content: str | bytes, suffix: str, expected: list[str]
) -> None:
    found = message(tmp_path, corpus(tmp_path, content, suffix))
    assert f"data{suffix}" in found
    for part in expected:
        assert part in found


def test_a_missing_file_is_named_with_its_setting(tmp_path: Path) -> None:
    settings = corpus(tmp_path, jsonl(rows()))
    (tmp_path / "data.jsonl").unlink()
    assert "setting prepare.file" in message(tmp_path, settings)


def test_a_missing_donated_file_is_named_with_its_setting(tmp_path: Path) -> None:
    settings = corpus(tmp_path, jsonl(rows()))
    settings = settings.model_copy(
        update={"prepare": settings.prepare.model_copy(update={"donated": "gone.csv"})}
    )
    assert "setting prepare.donated" in message(tmp_path, settings)


def test_bad_rows_may_be_dropped_and_are_tallied_inside(tmp_path: Path) -> None:
    content = with_row({"id": "x", "text": "  ", "topic": "a"})
    run(tmp_path, corpus(tmp_path, content, prepare__bad_rows="drop"))
    tally = json.loads((tmp_path / "data/private/prepared/tally.json").read_text())
    assert tally["the text is empty"] == 1
    assert tally["train"] + tally["heldout"] == 60


def test_a_row_with_another_number_of_cells_is_named_or_dropped(tmp_path: Path) -> None:
    content = pd.DataFrame(rows()).to_csv(index=False) + f"9999,{CANARY},a,b,c\n"
    number = content.count("\n")
    said = message(tmp_path, corpus(tmp_path, content, ".csv"))
    assert f"row {number}: has 5 cells, but the header (row 1) has 3" in said
    assert "prepare.bad_rows: drop" in said
    assert CANARY not in said
    run(tmp_path, corpus(tmp_path, content, ".csv", prepare__bad_rows="drop"))
    tally = json.loads((tmp_path / "data/private/prepared/tally.json").read_text())
    assert tally["train"] + tally["heldout"] == 60
    assert sum(n for why, n in tally.items() if why.startswith("has 5 cells")) == 1


def test_a_byte_order_mark_is_no_part_of_the_first_column(tmp_path: Path) -> None:
    content = b"\xef\xbb\xbf" + pd.DataFrame(rows()).to_csv(index=False).encode()
    run(tmp_path, corpus(tmp_path, content, ".csv"))


def dated(folder: Path, moments: list[str], **attribute: Any) -> tuple[list[Record], Schema]:
    """The private splits of a parquet file of dated letters, and a schema that reads the date."""
    frame = pd.DataFrame(rows()).assign(
        at=pd.to_datetime(moments * (60 // len(moments)), format="ISO8601")
    )
    frame.to_parquet(folder / "dated.parquet", index=False)
    settings = corpus(folder, (folder / "dated.parquet").read_bytes(), ".parquet")
    schema = Schema(
        subject="letters", attributes=(Attribute(name="day", column="at", **attribute),)
    )
    project = open_project(folder, settings=settings, schema=schema)
    return list(read_corpus(project).records()), schema


def test_midnight_is_a_day_as_people_write_it(tmp_path: Path) -> None:
    splits, _ = dated(tmp_path, ["2024-01-05", "2024-01-05 09:30"], values=("2024-01-05",))
    assert {r.raw[0] for r in splits} == {"2024-01-05", "2024-01-05 09:30:00"}


@pytest.mark.parametrize(
    ("attribute", "slips"),
    [
        ({"values": ("2024-01-05", "2024-02-05")}, []),
        ({"values": ("2024-01-05", "2024-01-06")}, [("day", ("2024-01-06",), False)]),
        ({"values": ("05.01.2024",)}, [("day", ("05.01.2024",), True)]),
        ({"bins": (3.0, 4.0)}, [("day", (), True)]),
    ],
)
def test_every_listed_value_that_no_row_has_is_named(
    tmp_path: Path, attribute: dict[str, Any], slips: list[tuple[str, tuple[str, ...], bool]]
) -> None:
    splits, schema = dated(tmp_path, ["2024-01-05", "2024-02-05", "2024-03-05"], **attribute)
    found = unmatched_values((record.raw for record in splits), schema)
    assert [(each.attribute, each.values, each.by_all) for each in found] == slips


def test_donated_texts_are_taken_out_of_the_private_split(tmp_path: Path) -> None:
    settings = corpus(tmp_path, jsonl(rows()))
    (tmp_path / "donated.jsonl").write_text(
        jsonl([{"text": f"{CANARY}  Letter 5", "topic": "a"}, {"text": "new", "topic": "b"}])
    )
    settings = settings.model_copy(
        update={"prepare": settings.prepare.model_copy(update={"donated": "donated.jsonl"})}
    )
    run(tmp_path, settings)
    folder = tmp_path / "data/private/prepared"
    texts = {t for p in ("train", "heldout") for t in pd.read_parquet(folder / f"{p}.parquet").text}
    assert f"{CANARY} letter 5" not in texts
    assert len(texts) == 59


def records_of(ids: list[str]) -> list[Record]:
    return [Record(number=i, id=id_, text=f"t{id_}", raw=()) for i, id_ in enumerate(ids)]


PERSONS = {"privacy__unit": "user", "prepare__user_column": "author"}


def by_authors(count: int = 90) -> list[dict[str, Any]]:
    """Return letters of thirty authors, three letters per author by default."""
    return [{**row, "author": f"{CANARY}-author-{i % 30}"} for i, row in enumerate(rows(count))]


def test_a_person_is_a_keyed_hash_from_the_first_file_on(tmp_path: Path) -> None:
    settings = corpus(tmp_path, jsonl(by_authors()), privacy__records_per_user=2, **PERSONS)
    run(tmp_path, settings)
    folder = tmp_path / "data/private/prepared"
    train, heldout = (pd.read_parquet(folder / f"{p}.parquet") for p in ("train", "heldout"))
    assert set(train.columns) == {"id", "text", "raw_topic", "user"}
    assert [*train.user.value_counts(), *heldout.user.value_counts()] == [2] * 30
    assert not set(train.user) & set(heldout.user)
    assert json.loads((folder / "tally.json").read_text())["beyond records_per_user"] == 30
    for path in filter(Path.is_file, (tmp_path / "data").rglob("*.*")):
        assert b"-author-" not in path.read_bytes(), path


def test_whose_a_record_is_belongs_to_what_is_stamped(tmp_path: Path) -> None:
    """If records get other users, the stamp must change.

    Otherwise a finished training would be restored for other units of privacy.
    """
    stamp, left = tmp_path / "data/stamps/train_texts.json", set()
    authors = [row["author"] for row in by_authors()]
    for names in (authors, authors, [f"other {name}" for name in authors]):
        own = [{**row, "author": name} for row, name in zip(rows(90), names, strict=True)]
        settings = corpus(tmp_path, jsonl(own), privacy__records_per_user=3, **PERSONS)
        settings = settings.model_copy(
            update={"prepare": settings.prepare.model_copy(update={"heldout_share": 1e-9})}
        )
        run(tmp_path, settings)
        left.add(stamp.read_text())
    assert len(left) == 2


def test_too_few_records_may_be_due_to_the_records_per_user(tmp_path: Path) -> None:
    own = jsonl([{**row, "author": f"{CANARY}-author-{i % 8}"} for i, row in enumerate(rows(60))])
    found = message(tmp_path, corpus(tmp_path, own, privacy__records_per_user=1, **PERSONS))
    assert "min_records=10" in found and "those beyond privacy.records_per_user" in found


def test_equal_records_have_another_name_for_another_number_of_records_per_user(
    tmp_path: Path,
) -> None:
    """Otherwise a result with the noise for another number of records could be restored."""
    stamps: dict[str, set[str]] = {"prepare": set(), "train_texts": set()}
    tables = []
    for records in (3, 3, 5):  # no author has more than three letters
        own = jsonl(by_authors())
        run(tmp_path, corpus(tmp_path, own, privacy__records_per_user=records, **PERSONS))
        (table,) = (tmp_path / "data/private/prepared/train.parquet").iterdir()
        tables.append(table.read_bytes())
        for name, found in stamps.items():
            path = tmp_path / f"data/stamps/{name}.json"
            found.add(path.read_text())
            path.unlink()  # DVC removes the outputs of a stage that it runs
    assert len(set(tables)) == 1
    assert {name: len(found) for name, found in stamps.items()} == {"prepare": 2, "train_texts": 2}


@pytest.mark.parametrize("records", [1, 2, 7])
def test_no_user_has_more_records_than_the_bounds_say(tmp_path: Path, records: int) -> None:
    own = jsonl([{**row, "author": f"author {min(i, 40) % 25}"} for i, row in enumerate(rows(120))])
    run(tmp_path, corpus(tmp_path, own, privacy__records_per_user=records, **PERSONS))
    store = PrivateStore(tmp_path / "data/private")
    kept = pd.read_parquet(store.prepared_file("train"))["user"].value_counts()
    assert store.bounds() == ContributionBounds(
        unit=Unit.USER, user_column="author", records_per_unit=records
    )
    assert kept.max() <= records


def test_a_corpus_is_known_again_however_little_of_each_person_is_used(tmp_path: Path) -> None:
    """If the fingerprint covered only the used records, a corpus could get a second budget under
    another name: it would be enough to use few records of each user.
    """
    own = jsonl([{**row, "author": f"author {i % 40}"} for i, row in enumerate(rows(600))])
    sketches = []
    for unit in ({}, PERSONS):
        run(tmp_path, corpus(tmp_path, own, **unit))
        sketches.append(PrivateStore(tmp_path / "data/private").dataset_fingerprint())
    assert is_same_dataset(sketches[0], stored_values(sketches[1]))
    assert is_same_dataset(sketches[1], stored_values(sketches[0]))


@pytest.mark.parametrize("author", [None, "  ", ""])
def test_a_row_that_is_nobodys_is_refused(tmp_path: Path, author: str | None) -> None:
    own = by_authors()
    own[7]["author"] = author
    said = message(tmp_path, corpus(tmp_path, jsonl(own), **PERSONS))
    assert "row 8: column 'author' (prepare.user_column) has no value" in said
    assert "prepare.bad_rows" in said


@pytest.mark.parametrize("nobody", [None, "  ", ""])
@pytest.mark.parametrize("column", ["author", "id"])
def test_rows_that_are_nobodys_may_be_dropped_and_are_tallied_inside(
    tmp_path: Path, column: str, nobody: str | None
) -> None:
    own, changes = by_authors(), PERSONS | {"prepare__bad_rows": "drop"}
    left = [row for i, row in enumerate(own) if i not in {7, 20}]
    tallies = []
    for row in (own[7], own[20]):
        row[column] = nobody
    for name, content in (("all", own), ("left", left)):
        base = tmp_path / name
        base.mkdir()
        run(base, corpus(base, jsonl(content), **changes))
        tallies.append(json.loads((base / "data/private/prepared/tally.json").read_text()))
    (why,) = tallies[0].keys() - tallies[1].keys()
    assert f"'{column}'" in why
    assert tallies[0] == tallies[1] | {why: 2}  # the results of all other rows are unchanged


@pytest.mark.parametrize(
    ("column", "why"),
    [
        ("topic", "the schema's attribute 'topic' comes from a private column"),
        ("text", "it would appear in prompts"),
        ("writer", "no column 'writer'"),
    ],
)
def test_a_person_is_no_attribute_and_no_text(tmp_path: Path, column: str, why: str) -> None:
    settings = corpus(tmp_path, jsonl(by_authors()), **PERSONS | {"prepare__user_column": column})
    assert why in message(tmp_path, settings)


def split_params(**changes: Any) -> PrepareSettings:
    return params(prepare__min_records=2, prepare__heldout_share=0.3, **changes).prepare


@examples(max_examples=40)
@given(st.lists(st.text(min_size=1), unique=True, min_size=12, max_size=40), st.text(min_size=1))
def test_one_more_person_moves_nobody_else(ids: list[str], more: str) -> None:
    settings = split_params()
    try:
        before, _ = split(records_of(ids), settings)
        everybody = [more, *reversed(ids)] if more not in ids else ids
        after, _ = split(records_of(everybody), settings)
    except InputError:
        return
    for name in ("train", "heldout"):
        assert {r.id for r in after[name]} - {more} == {r.id for r in before[name]} - {more}


def test_the_slice_left_to_the_pool_is_no_part_of_the_private_data() -> None:
    from sugarbush.randomness import hash_share

    records = records_of([str(i) for i in range(200)])
    splits, tally = split(records, split_params(prepare__exclude_share=0.1))
    kept = [*splits["train"], *splits["heldout"]]
    assert tally["left to the pool"] == 200 - len(kept) > 5
    assert all(hash_share(record.text) >= 0.1 for record in kept)


def test_the_stamp_follows_the_content_and_says_nothing_of_it(tmp_path: Path) -> None:
    stamp = tmp_path / "data" / "stamps" / "prepare.json"
    run(tmp_path, corpus(tmp_path, jsonl(rows())))
    first = stamp.read_text()
    run(tmp_path, corpus(tmp_path, jsonl(rows())))
    assert stamp.read_text() == first
    run(tmp_path, corpus(tmp_path, jsonl(rows(61))))
    assert stamp.read_text() != first
    assert len(stamp.read_text()) == len(first)
