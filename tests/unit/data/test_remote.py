"""A corpus on another file system gives what the same files give on this one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from sugarbush import extras
from sugarbush.data import reading, remote
from sugarbush.errors import InputError, ParamsError
from sugarbush.pipeline.opening import open_project
from sugarbush.pipeline.stages import fingerprint
from sugarbush.privacy.shards import map_shards
from sugarbush.run.settings import parse_params
from tests.s3 import BUCKET, SECRET, s3_server
from tests.settings import params
from tests.unit.data.test_shards import ROWS, prepared, write, write_shards

pytestmark = pytest.mark.filterwarnings("default")  # moto and boto3
SUFFIXES = [".parquet", ".csv.gz", ".jsonl.zst", ".csv"]


@pytest.fixture(params=["memory", "s3", "file"])
def corpus(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """The URL of an empty folder."""
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path / "state"))
    if request.param == "file":
        yield f"file://{tmp_path}/remote/corpus"
        return
    fsspec.get_filesystem_class(request.param).clear_instance_cache()
    if request.param == "memory":
        yield "memory://corpus"
        fsspec.filesystem("memory").rm("/", recursive=True)
        return
    with s3_server(monkeypatch) as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        yield f"s3://{BUCKET}/corpus"


def upload(folder: Path, url: str) -> None:
    system = fsspec.filesystem(url.partition("://")[0])
    for file in sorted(folder.iterdir()):
        system.makedirs(url, exist_ok=True)
        system.put_file(str(file), f"{url}/{file.name}")


def stamp_of(base: Path, url: str) -> str:
    """The stamp that DVC compares. No file outside the state names a credential."""
    own = params(
        prepare__file=url,
        prepare__schema="schema.yaml",
        prepare__donated=None,
        privacy__purpose="benchmark",
        privacy__dataset="letters",
    )
    fingerprint.run(open_project(base, settings=own))
    for file in base.rglob("*"):
        assert not (file.is_file() and SECRET.encode() in file.read_bytes()), file
    return (base / "data/stamps/corpus.json").read_text()


@pytest.mark.slow
def test_a_remote_corpus_is_prepared_as_a_local_one(tmp_path: Path, corpus: str) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    write_shards(here / "corpus", SUFFIXES)
    upload(here / "corpus", corpus)
    expected = prepared(here)
    assert prepared(there, prepare__file=corpus) == expected
    assert prepared(there, prepare__file=corpus + "/") == expected


def test_the_stamp_changes_with_the_corpus(tmp_path: Path, corpus: str) -> None:
    shards = tmp_path / "parts"
    write_shards(shards, [".csv"])
    upload(shards, corpus)
    (tmp_path / "project").mkdir()
    write_schema(tmp_path / "project")
    first = stamp_of(tmp_path / "project", corpus)
    assert stamp_of(tmp_path / "project", corpus) == first
    if not corpus.startswith("memory"):  # which lists no checksum
        upload(shards, corpus)
        assert stamp_of(tmp_path / "project", corpus) == first
    size = (shards / "part-000.csv").stat().st_size
    write(shards / "part-000.csv", [ROWS[1], ROWS[0], *ROWS[2:20]])
    assert (shards / "part-000.csv").stat().st_size == size
    upload(shards, corpus)
    reordered = stamp_of(tmp_path / "project", corpus)
    assert reordered != first
    write(shards / "part-000.csv", ROWS[1:20])
    upload(shards, corpus)
    assert stamp_of(tmp_path / "project", corpus) not in {first, reordered}


@pytest.mark.slow
@pytest.mark.parametrize("folder", [True, False])
def test_a_remote_file_that_changes_while_it_is_read_is_refused(
    tmp_path: Path, corpus: str, folder: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_SPAN_BYTES", 500)
    shards = tmp_path / "parts"
    write_shards(shards, [".csv"])
    upload(shards, corpus)
    source = remote.source_of(tmp_path, corpus if folder else f"{corpus}/part-000.csv", setting="s")
    own = reading.Reading("s", {"id": "a setting"})
    first, *others = reading.file_shards(source, reading=own, map_shards=map_shards)
    assert others and sum(len(rows) for rows in reading.shard_batches(first, own))
    write(shards / "part-000.csv", [ROWS[1], ROWS[0], *ROWS[2:20]])
    upload(shards, corpus)
    with pytest.raises(InputError, match=r"part-000\.csv: changed while it was read"):
        list(reading.shard_batches(others[0], own))


def write_schema(base: Path) -> None:
    (base / "schema.yaml").write_text(
        '{"subject": "s", "attributes": [{"name": "t", "column": "topic", "values": ["a"]}]}'
    )


def test_errors_name_the_url_and_no_credential(
    tmp_path: Path, corpus: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match=r"missing\.csv: .*not found.*setting prepare\.file"):
        prepared(tmp_path, prepare__file=f"{corpus}/missing.csv")
    if not corpus.startswith("s3"):
        return
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    fsspec.get_filesystem_class("s3").clear_instance_cache()
    with pytest.raises(InputError, match=r"corpus/a\.csv: cannot be read") as refusal:
        prepared(tmp_path, prepare__file=f"{corpus}/a.csv")
    assert SECRET not in str(refusal.value)


def test_the_message_of_a_file_system_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a message may quote a signed URL or a key."""

    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError(f"403 for https://bucket/a.csv?sig={SECRET}")

    monkeypatch.setattr(fsspec, "filesystem", refuse)
    with pytest.raises(InputError, match=r"RuntimeError.*credentials") as refusal:
        prepared(tmp_path, prepare__file="memory://corpus/a.csv")
    assert SECRET not in str(refusal.value)
    assert refusal.value.__cause__ is None and refusal.value.__suppress_context__


def test_a_folder_inside_a_remote_corpus_is_an_error(tmp_path: Path) -> None:
    fsspec.filesystem("memory").pipe("/corpus/below.csv/a.csv", b"id,text,topic\n1,a,b\n")
    with pytest.raises(InputError, match=r"memory://corpus/below\.csv"):
        prepared(tmp_path, prepare__file="memory://corpus")
    fsspec.filesystem("memory").rm("/", recursive=True)


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*_: object, **__: object) -> None:
        raise ImportError("Install gcsfs to access GCS", name="gcsfs")

    monkeypatch.setattr(fsspec, "filesystem", absent)
    with pytest.raises(InputError, match="needs the package gcsfs"):
        prepared(tmp_path, prepare__file="gs://bucket/corpus.csv")
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    with pytest.raises(ParamsError, match=r"package s3fs\. In a clone: pip install '\.\[s3\]'"):
        prepared(tmp_path, prepare__file="s3://bucket/corpus.csv")


@pytest.mark.parametrize(
    "url",
    [
        "s3://key:hunter2@bucket/a.csv",
        "https://host/a.csv?sig=hunter2",
        "simplecache::s3://me:hunter2@b/a",
    ],
)
def test_a_url_with_credentials_is_refused_and_not_shown(url: str) -> None:
    fields: dict[str, Any] = {"prepare": {"file": url}, "privacy": {"dataset": "d"}}
    with pytest.raises(ParamsError, match=r"prepare\.file.*environment") as refusal:
        parse_params(fields)
    assert "hunter2" not in str(refusal.value)


def test_a_path_of_this_machine_is_no_url(tmp_path: Path) -> None:
    assert isinstance(remote.source_of(tmp_path, "a.csv", setting="s"), Path)
    assert remote.source_of(tmp_path, f"file://{tmp_path}/a.csv", setting="s") == tmp_path / "a.csv"
    assert os.fspath(remote.source_of(tmp_path, "b/c", setting="s")) == str(tmp_path / "b/c")  # type: ignore[arg-type]
