import json
import tempfile
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sugarbush.data.records import Record
from sugarbush.data.settings import PrepareSettings
from sugarbush.errors import InputError, ParamsError
from sugarbush.generators.pool_files import PoolSource, load_pool
from sugarbush.randomness import hash_share
from tests.splits import split

TEXTS = [f"letter {i}, on the loss of parcel {7 * i}" for i in range(300)]


def _source(file: str, *, rows: int | None = None, share: float | None = None) -> PoolSource:
    return PoolSource(file=file, text_column="body", rows=rows, share=share)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    frame = pd.DataFrame({"body": TEXTS, "n": range(300)})
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_parquet(tmp_path / "a.parquet", index=False)
    lines = [json.dumps({"body": text}) for text in TEXTS]
    (tmp_path / "a.jsonl").write_text("\n".join(lines) + "\n")
    return tmp_path


@pytest.mark.parametrize("name", ["a.csv", "a.parquet", "a.jsonl"])
def test_every_format_gives_the_same_texts_in_the_order_of_the_file(
    folder: Path, name: str
) -> None:
    assert load_pool([_source(name)], base=folder) == tuple(TEXTS)


def test_a_share_and_what_prepare_keeps_are_disjoint_and_leave_nothing_out(folder: Path) -> None:
    public = set(load_pool([_source("a.csv", share=0.1)], base=folder))
    private = {text for text in TEXTS if hash_share(text) >= 0.1}
    assert public
    assert not public & private
    assert public | private == set(TEXTS)


@given(st.integers(0, 299))
def test_a_text_at_the_limit_of_a_share_is_private_alone(place: int) -> None:
    """`prepare` and the pool compare the same hash with the same number, so no text is in both."""
    share = hash_share(TEXTS[place])
    records = [Record(number=i, id=str(i), text=t, raw=(), user=None) for i, t in enumerate(TEXTS)]
    settings = PrepareSettings(exclude_share=share, heldout_share=0.3, min_records=2)
    with tempfile.TemporaryDirectory() as base:
        pd.DataFrame({"body": TEXTS}).to_csv(Path(base) / "a.csv", index=False)
        try:
            public = load_pool([_source("a.csv", share=share)], base=Path(base))
        except InputError:  # no hash is lower
            public = ()
    try:
        splits, _ = split(records, settings)
        private = {record.text for split in splits.values() for record in split}
    except InputError:  # too few records remain
        private = set(TEXTS) - set(public)
    assert TEXTS[place] not in public
    assert private.isdisjoint(public) and private | set(public) == set(TEXTS)


def test_a_share_is_the_same_slice_whatever_else_the_file_holds(folder: Path) -> None:
    slice_ = set(load_pool([_source("a.csv", share=0.3)], base=folder))
    pd.DataFrame({"body": TEXTS[:150]}).to_csv(folder / "half.csv", index=False)
    half = set(load_pool([_source("half.csv", share=0.3)], base=folder))
    assert half == slice_ & set(TEXTS[:150])


def test_a_share_is_about_that_share(folder: Path) -> None:
    # The number is like Binomial(300, 0.3), with mean 90 and standard deviation 7.9. The hash is
    # fixed, so the test is deterministic.
    assert 60 < len(load_pool([_source("a.csv", share=0.3)], base=folder)) < 120


def test_rows_are_the_texts_of_least_hash(folder: Path) -> None:
    drawn = load_pool([_source("a.csv", rows=20)], base=folder)
    assert set(drawn) == set(sorted(TEXTS, key=hash_share)[:20])
    assert set(drawn) < set(load_pool([_source("a.csv", rows=40)], base=folder))


def test_rows_of_a_share_stay_inside_it(folder: Path) -> None:
    drawn = load_pool([_source("a.csv", rows=5, share=0.1)], base=folder)
    assert len(drawn) == 5
    assert all(hash_share(text) < 0.1 for text in drawn)


def test_a_text_of_two_files_is_there_once(folder: Path) -> None:
    assert load_pool([_source("a.csv"), _source("a.jsonl")], base=folder) == tuple(TEXTS)


def test_rows_without_a_text_are_left_out(tmp_path: Path) -> None:
    frame = pd.DataFrame({"body": ["one", None, "   ", "two", "one"]})
    frame.to_parquet(tmp_path / "gaps.parquet", index=False)
    assert load_pool([_source("gaps.parquet")], base=tmp_path) == ("one", "two")
    (tmp_path / "gaps.jsonl").write_text('{"body": "one"}\n{"title": "no body"}\n')
    assert load_pool([_source("gaps.jsonl")], base=tmp_path) == ("one",)


def test_a_pool_without_sources_names_the_setting(tmp_path: Path) -> None:
    with pytest.raises(ParamsError, match=r"generator\.pool\.sources"):
        load_pool([], base=tmp_path)


def test_a_missing_file_or_column_names_file_and_setting(folder: Path) -> None:
    with pytest.raises(InputError, match=r"none\.csv.*generator\.pool\.sources"):
        load_pool([_source("none.csv")], base=folder)
    strange = PoolSource(file="a.csv", text_column="words", rows=None, share=None)
    with pytest.raises(InputError, match=r"a\.csv.*words.*generator\.pool\.sources"):
        load_pool([strange], base=folder)


def test_a_source_that_leaves_nothing_is_refused(folder: Path) -> None:
    with pytest.raises(InputError, match="no text is left"):
        load_pool([_source("a.csv", share=1e-9)], base=folder)
