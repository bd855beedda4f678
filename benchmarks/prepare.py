"""Measures what stage prepare costs per record, in its workers and in its own process.

    python -m benchmarks.prepare --records 100000
    python -m benchmarks.prepare --records 500000 --processes 1 2

The records are those of `benchmarks.scale`, in one csv file. A figure is microseconds of CPU per
record; `benchmarks.schedule` uses these figures. With `--processes`, the command also prints the
wall time of the whole stage in processes.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.scale import ATTRIBUTES, VALUES, WORDS, write_project
from sugarbush.data.formats.rows import Reading
from sugarbush.data.private_store import codes_frame, digest_of_frame
from sugarbush.data.reading import file_shards
from sugarbush.pipeline.opening import open_project
from sugarbush.preparation.corpus import read_corpus
from sugarbush.privacy.data_types import Private
from sugarbush.privacy.shards import MapShards, map_shards
from sugarbush.randomness import public_rng
from sugarbush.run.cluster import ProcessPool
from sugarbush.run.records import key_of, private_store
from sugarbush.tables.marginal_measurer import Candidate, MarginalMeasurer


def main() -> None:
    options = _options()
    spent: dict[str, float] = {}
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        os.environ["SUGARBUSH_STATE"] = f"{folder}/state"
        base = Path(folder)
        write_project(base, options)
        reading = Reading("prepare.file", {"text": "a setting"}, broken=True)
        with _timed(spent, "scan, in workers"):
            shards = file_shards(base / "corpus", reading=reading, map_shards=map_shards)
        with _timed(spent, "whole stage with scan"):
            _prepare(base, _TimedShards(spent))
        for processes in options.processes:
            start = time.perf_counter()
            _prepare(base, ProcessPool(processes))
            print(f"whole stage, {processes} processes: {time.perf_counter() - start:.1f} s")
    _count(spent, options.records)
    for name, seconds in spent.items():
        print(f"{name:44}{1e6 * seconds / options.records:8.2f} µs of CPU a record")
    print(f"{len(shards)} parts of about {options.records // len(shards):,} records")


class _TimedShards:
    """Runs shards here, and adds up the CPU time of their functions."""

    def __init__(self, spent: dict[str, float]) -> None:
        self._spent = spent

    def __call__(self, function: Any, shards: Any, combine: Any) -> Any:
        with _timed(self._spent, "scan and split, in workers"):
            found = [function(shard) for shard in shards]
        return reduce(combine, found)


def _prepare(base: Path, engine: MapShards) -> None:
    project = open_project(base)
    corpus = read_corpus(project, engine=engine)
    with private_store(project).saving_prepared(key=key_of(project)) as files:
        corpus.write(files, engine)
        files.finish(fingerprint=corpus.fingerprint, tally=corpus.tally, bounds=corpus.bounds)


def _count(spent: dict[str, float], records: int) -> None:
    """Digest the codes, and count the marginals of a selection of AIM."""
    domain = {f"a{number}": VALUES for number in range(ATTRIBUTES)}
    codes = public_rng(0, "codes").integers(0, VALUES, (records, ATTRIBUTES)).astype(np.int8)
    with _timed(spent, "digest of codes"):
        digest_of_frame(codes_frame(codes, domain), key=b"key")
    candidates = [
        Candidate(attributes=pair, estimate=np.zeros((VALUES, VALUES)), weight=1.0, penalty=0.0)
        for pair in combinations(domain, 2)
    ]
    measurer = MarginalMeasurer(Private(codes), domain, mu=1.0)
    with _timed(spent, "marginals of all pairs"):
        measurer.select(candidates, mu=0.1)


@contextmanager
def _timed(spent: dict[str, float], name: str) -> Iterator[None]:
    start = time.process_time()
    yield
    spent[name] = spent.get(name, 0.0) + time.process_time() - start


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--words", type=int, default=WORDS)
    parser.add_argument("--folder", type=Path, help="where the temporary project is written")
    parser.add_argument("--processes", type=int, nargs="*", default=[])
    parser.set_defaults(csv_corpus=True, cluster="local")
    return parser.parse_args()


if __name__ == "__main__":
    main()
