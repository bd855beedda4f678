"""Tests of uploads to a dataset hub and to S3, both on the loopback interface."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import boto3
import fsspec
import pytest
from huggingface_hub import constants

from sugarbush.errors import FailureError, ParamsError
from sugarbush.publication.upload import FileSystemTarget, checked_target, open_target, upload
from tests.hub import OWNER, TOKEN, Hub, hub_account
from tests.s3 import BUCKET, SECRET, s3_server

pytestmark = pytest.mark.filterwarnings("ignore")  # of huggingface_hub, moto and boto3
NAME = f"{OWNER}/letters"
FILES = {
    "README.md": b"---\nlicense: mit\n---\n",
    "metadata.json": b"{}",
    "data/train-00000-of-00001.parquet": b"PAR1" * 30,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in FILES.items():
        path = tmp_path / "folder" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return tmp_path / "folder"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with hub_account(monkeypatch) as server:
        yield server


def send(address: str, folder: Path) -> str:
    target = checked_target(address)
    assert target is not None
    return upload(target, folder)


def test_a_folder_is_one_commit_of_a_private_dataset(
    hub: Hub, folder: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    assert send(f"hf://{NAME}", folder) == f"{hub.address}/datasets/{NAME}"
    assert hub.repositories[NAME] == {".gitattributes": b"", **FILES}
    assert hub.commits == 1
    assert [(each["type"], each["visibility"]) for each in hub.created] == [("dataset", "private")]
    printed = capfd.readouterr()
    assert TOKEN not in caplog.text + printed.out + printed.err


def test_a_name_of_others_is_refused_before_anything_leaves(hub: Hub, folder: Path) -> None:
    with pytest.raises(ParamsError, match="may not write to others, only to ann, library"):
        send("hf://others/letters", folder)
    assert not any(request.startswith(("POST", "PUT")) for request in hub.requests)


def test_a_dataset_with_files_is_refused(hub: Hub, folder: Path) -> None:
    hub.repositories[NAME] = {"README.md": b"theirs"}
    with pytest.raises(ParamsError, match="is not empty"):
        send(f"hf://{NAME}", folder)
    assert hub.repositories[NAME] == {"README.md": b"theirs"}


@pytest.mark.parametrize("broken", ["/blobs/", "/commit/", "/preupload/", "/repos/create"])
def test_an_upload_that_breaks_shows_no_file_and_can_be_repeated(
    broken: str, hub: Hub, folder: Path
) -> None:
    hub.broken = broken
    with pytest.raises(
        FailureError, match=r"HTTP status 400.* run the same command again"
    ) as error:
        send(f"hf://{NAME}", folder)
    assert TOKEN not in str(error.value) and "says the hub" not in str(error.value)
    assert set(hub.repositories.get(NAME, {})) <= {".gitattributes"}
    hub.broken = "a^"
    send(f"hf://{NAME}", folder)
    assert hub.repositories[NAME] == {".gitattributes": b"", **FILES}


def test_an_account_is_needed(
    hub: Hub, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_of-somebody-else")
    with pytest.raises(FailureError, match=r"HTTP status 401.* no right to write"):
        send(f"hf://{NAME}", folder)
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "none"))
    with pytest.raises(ParamsError, match="Set HF_TOKEN"):
        send(f"hf://{NAME}", folder)


def test_nothing_is_sent_offline(hub: Hub, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ParamsError, match="HF_HUB_OFFLINE is set"):
        send(f"hf://{NAME}", folder)
    assert not hub.requests


@pytest.mark.parametrize(
    ("address", "match"),
    [
        ("hf://letters", "hf://org/name"),
        ("hf://org/name/more", "hf://org/name"),
        ("folder", "expected an address"),
        ("s3://key:secret@bucket/x", "no user, password or key"),
        ("https://host/x?token=abc", "no user, password or key"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused(address: str, match: str) -> None:
    with pytest.raises(ParamsError, match=match) as error:
        open_target(address)
    assert "secret@" not in str(error.value) and "abc" not in str(error.value)


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """An empty folder of a bucket. The servers of one process share their buckets."""
    fsspec.get_filesystem_class("s3").clear_instance_cache()
    with s3_server(monkeypatch) as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        yield f"s3://{BUCKET}/{tmp_path.name}"


def objects(url: str) -> dict[str, bytes]:
    client, prefix = boto3.client("s3"), url.rpartition("/")[2] + "/"
    listed = client.list_objects_v2(Bucket=BUCKET, Prefix=prefix).get("Contents", ())
    names = [each["Key"] for each in listed]
    return {
        name.removeprefix(prefix): client.get_object(Bucket=BUCKET, Key=name)["Body"].read()
        for name in names
    }


def test_a_folder_is_copied_to_s3_and_a_full_one_is_refused(bucket: str, folder: Path) -> None:
    assert send(f"{bucket}/", folder) == bucket
    assert objects(bucket) == FILES
    with pytest.raises(ParamsError, match="is not empty"):
        send(bucket, folder)


def test_an_upload_to_s3_that_breaks_leaves_nothing_and_shows_no_key(
    bucket: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = checked_target(bucket)
    assert isinstance(target, FileSystemTarget)
    put = target._system.put_file
    sent: list[str] = []

    def put_two(source: str, name: str) -> None:
        if len(sent) == 2:
            raise OSError(f"no connection for {SECRET}")
        put(source, name)
        sent.append(name)

    with monkeypatch.context() as patch:
        patch.setattr(target._system, "put_file", put_two)
        with pytest.raises(FailureError, match=r"OSError.* run the same command again") as error:
            upload(target, folder)
    assert SECRET not in str(error.value)
    assert sent[0].endswith(".parquet") and objects(bucket) == {}
    send(bucket, folder)
    assert objects(bucket) == FILES
