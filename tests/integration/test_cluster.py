"""Shards on a process pool or a Dask cluster: the same released bytes, also if a worker dies."""

from __future__ import annotations

import math
import operator
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from sugarbush.data import reading
from sugarbush.data.private_store import HELDOUT, TRAIN, PrivateStore
from sugarbush.embedding.encoder import Encoder
from sugarbush.embedding.settings import EmbeddingSettings
from sugarbush.errors import FailureError, InputError, InvariantError, ParamsError, StorageError
from sugarbush.evolution.parts import Candidates, Records
from sugarbush.evolution.scorers import KernelScorer, NearestVotes
from sugarbush.privacy import mechanisms
from sugarbush.privacy.data_types import Private
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.session import PrivacySession
from sugarbush.privacy.shards import MapShards, Shards, map_shards
from sugarbush.privacy.unit import ContributionBounds, Unit
from sugarbush.randomness import public_rng
from sugarbush.run.cluster import Dask, ProcessPool, _call, engine, visible_devices
from sugarbush.threads import thread_count
from tests.prepared import BY_USER, ROWS, prepared, write

RECORDS, CANDIDATES, DIM = 300, 20, 8
ENGINES = ["one part", "parts here", "processes", "dask"]


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    # Not at the top, because every process of a pool imports this module.
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=":0", host="127.0.0.1"
    ) as cluster:
        yield cluster.scheduler_address


def of_name(name: str, scheduler: str) -> MapShards | None:
    engines: dict[str, MapShards | None] = {
        "one part": None, "parts here": map_shards, "processes": ProcessPool(2),
        "dask": Dask(scheduler),
    }  # fmt: skip
    return engines[name]


def encode(texts: tuple[str, ...]) -> NDArray[np.float32]:
    """A vector of length 1 that depends on its text alone."""
    vectors = np.stack([public_rng(1, text).standard_normal(DIM) for text in texts])
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def encode_and_die_once(texts: tuple[str, ...], *, marker: Path) -> NDArray[np.float32]:
    die_once(marker)
    return encode(texts)


def die_once(marker: Path) -> None:
    try:
        marker.touch(exist_ok=False)
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def store_of(folder: Path, own: MapShards | None) -> PrivateStore:
    """Records in 7 row groups."""
    store = PrivateStore(folder / "data/private", map_shards=own)
    frame = pd.DataFrame({"text": [f"text {i}" for i in range(RECORDS)]})
    with store.saving_prepared(key=b"key") as files:
        for number, start in enumerate(range(0, RECORDS, 90)):
            with files.shard(number) as shard:
                for first in range(start, min(start + 90, RECORDS), 45):
                    shard.add(dict.fromkeys((TRAIN, HELDOUT), frame[first : first + 45]))
        files.finish(fingerprint=(), tally={}, bounds=ContributionBounds())
    pd.DataFrame({"a": np.arange(RECORDS) // 50 % 3}).to_parquet(
        store.folder("metadata") / "train.parquet", index=False
    )
    return store


def records_of(store: PrivateStore, *, die: Path | None = None) -> Private[Records]:
    own = encode if die is None else partial(encode_and_die_once, marker=die)
    return store.embeddings(own).zip_batch(
        store.codes(["a"]), lambda vectors, codes: Records(vectors, codes, codes[:, 0])
    )


def ledger_of(folder: Path) -> Ledger:
    return Ledger(
        folder / "state", dataset="d", purpose="release", unit=Unit.RECORD, cap=math.inf, delta=1e-6
    )


def injected(sums: NDArray[np.int64], **_: float) -> NDArray[np.int64]:
    return sums + np.arange(len(sums)) ** 2


SCORERS = (
    NearestVotes(),
    NearestVotes(by_label=True),
    KernelScorer(),
    NearestVotes(votes=5, by_label=True),
)


def votes_of(records: Private[Records], ledger: Ledger) -> list[list[int]]:
    embeddings = encode(tuple(f"candidate {i}" for i in range(CANDIDATES)))
    labels = np.arange(CANDIDATES) % 3
    candidates = Candidates(embeddings, labels[:, None], labels)
    session = PrivacySession(ledger=ledger, stage="vote", run="1")
    with mock.patch.object(mechanisms, "discrete_gaussian", injected):
        return [
            scorer.total(records, candidates, stddev=20.0, session=session).value.tolist()
            for scorer in SCORERS
        ]


@pytest.mark.parametrize("changes", [{}, BY_USER], ids=["record", "user"])
def test_prepare_writes_the_same_bytes_on_a_cluster(
    tmp_path: Path, scheduler: str, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(reading, "_SPAN_BYTES", 2000)
    write(tmp_path / "corpus.csv", ROWS)
    one = prepared(tmp_path, None, **changes)
    assert sum(name.startswith("train") for name in one) > 4
    assert prepared(tmp_path, Dask(scheduler), **changes) == one
    write(tmp_path / "corpus.csv", [*ROWS, ROWS[7]])
    with pytest.raises(InputError, match=r"corpus\.csv, rows 9 and 402: have the same id"):
        prepared(tmp_path, Dask(scheduler), **changes)


def test_every_engine_releases_the_same_bytes(tmp_path: Path, scheduler: str) -> None:
    found = []
    for name in ENGINES:
        folder = tmp_path / name
        ledger = ledger_of(folder)
        found.append(votes_of(records_of(store_of(folder, of_name(name, scheduler))), ledger))
        assert len(ledger.entries()) == len(SCORERS)
    assert all(votes == found[0] for votes in found)
    assert sum(found[0][0]) == RECORDS + sum(i**2 for i in range(CANDIDATES))


@pytest.mark.parametrize("name", ["processes", "dask"])
def test_a_worker_that_is_killed_loses_nothing_and_charges_nothing_twice(
    tmp_path: Path, scheduler: str, name: str
) -> None:
    expected = votes_of(records_of(store_of(tmp_path / "a", None)), ledger_of(tmp_path / "a"))
    ledger, killed = ledger_of(tmp_path / "b"), tmp_path / "embedding"
    records = records_of(store_of(tmp_path / "b", of_name(name, scheduler)), die=killed)
    assert killed.exists()
    assert not ledger.entries()
    vote = tmp_path / "vote"

    def die_and_return(batch: Records) -> Records:
        die_once(vote)
        return batch

    assert votes_of(records.map_batch(die_and_return), ledger) == expected
    assert vote.exists()
    assert len(ledger.entries()) == len(SCORERS)


def test_shards_that_finished_before_a_kill_are_counted_once(tmp_path: Path) -> None:
    shards = [10**place for place in range(6)]

    def count(shard: int) -> int:
        if shard == shards[-1] and not (tmp_path / "killed").exists():
            while len(list(tmp_path.iterdir())) < len(shards) - 1:
                time.sleep(0.01)
            time.sleep(0.5)  # this process has received the results of all other shards
            die_once(tmp_path / "killed")
        (tmp_path / str(shard)).touch()
        return shard

    assert ProcessPool(2)(count, shards, operator.add) == sum(shards)
    assert (tmp_path / "killed").exists()


def embedded(store: PrivateStore) -> bytes:
    shards = store.embeddings(
        Encoder(EmbeddingSettings(max_tokens=16), cache=None).encode
    )._per_unit
    return b"".join(shards.read(shard).tobytes() for shard in shards.shards)


def test_two_processes_embed_as_one_does(tmp_path: Path) -> None:
    one = embedded(store_of(tmp_path / "one", map_shards))  # in this process
    two = embedded(store_of(tmp_path / "two", ProcessPool(2, ("0", "1"))))
    assert len(one) == RECORDS * 384 * 4
    assert two == one


def test_each_process_has_its_own_device_and_share_of_the_cores(tmp_path: Path) -> None:
    def meet(shard: int) -> set[tuple[str, str]]:
        (tmp_path / str(shard)).touch()
        while len(list(tmp_path.iterdir())) < 2:
            time.sleep(0.01)
        return {(os.environ["CUDA_VISIBLE_DEVICES"], os.environ["OMP_NUM_THREADS"])}

    found = ProcessPool(2, ("GPU-b", "1"))(meet, [1, 2], operator.or_)
    share = str(max(1, thread_count() // 2))
    assert found == {("GPU-b", share), ("1", share)}


@pytest.mark.parametrize(
    ("named", "devices"), [("", ()), ("-1", ()), ("2", ("2",)), ("0, 3,-1,4", ("0", "3"))]
)
def test_devices_are_those_that_cuda_would_see(
    monkeypatch: pytest.MonkeyPatch, named: str, devices: tuple[str, ...]
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", named)
    assert visible_devices() == devices
    assert engine("processes") == ProcessPool(len(devices) or thread_count(), devices)


def test_the_files_of_shards_vanish_with_their_vectors(tmp_path: Path) -> None:
    store = store_of(tmp_path, map_shards)
    embeddings = store.embeddings(encode)
    assert len(list(store.folder("embeddings").glob("parts-*/*.npy"))) == 7
    del embeddings
    assert not list(store.folder("embeddings").iterdir())


def test_a_vote_that_fails_charges_nothing(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path)
    records, labels = records_of(store_of(tmp_path, None)), np.zeros(3, dtype=np.int64)
    wrong = Candidates(np.zeros((3, DIM + 1), dtype=np.float32), labels[:, None], labels)
    session = PrivacySession(ledger=ledger, stage="vote", run="1")
    for scorer in SCORERS:
        with pytest.raises(InvariantError):
            scorer.total(records, wrong, stddev=20.0, session=session)
    assert not ledger.entries()


def test_shards_show_no_private_value_in_a_log() -> None:
    shards = Shards(shards=("p",), sizes=(2,), read=lambda _: [1, 2], map_shards=map_shards)
    zipped = Private(shards).zip_batch(Private(np.array([77, 78])), lambda a, b: a)
    assert "77" not in repr(zipped._per_unit.shards)


def test_a_process_that_is_killed_every_time_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="were killed"):
        ProcessPool(1)(lambda _: os.kill(os.getpid(), signal.SIGKILL), [1], operator.add)


def test_an_error_of_a_worker_quotes_no_text(scheduler: str) -> None:
    def fail(shard: int) -> int:
        raise ValueError("could not convert 'Ada Lane'")

    with pytest.raises(FailureError, match="ValueError") as refused:
        Dask(scheduler)(fail, [1], operator.add)
    assert "Ada" not in str(refused.value)
    with pytest.raises(FailureError) as on_worker:
        _call(fail, 1)  # Dask logs this error on the worker
    assert on_worker.value.__context__ is None
    assert "Ada" not in repr(on_worker.value)


def test_a_cluster_that_does_not_answer_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with mock.patch("distributed.Client", side_effect=OSError("refused")):
        unknown = engine("tcp://127.0.0.1:1")
        assert unknown is not None
        with pytest.raises(ParamsError, match=r"run\.cluster"):
            unknown(abs, [1], operator.add)
    assert engine("local") is None


def test_the_next_run_removes_the_shards_of_a_run_that_was_killed(tmp_path: Path) -> None:
    store = store_of(tmp_path, None)
    folder = store.folder("embeddings")
    process = subprocess.Popen(["sleep", "0"])
    process.wait()
    left, running = (folder / f"parts-{pid}-abc" for pid in (process.pid, os.getpid()))
    for path in (left, running):
        path.mkdir()
    store.embeddings(encode)
    assert not left.exists()
    assert running.exists()
