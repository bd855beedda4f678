"""Reads and writes the files under data/private. Other modules must not open these files.

Methods return texts as `Private`. Only `real_texts` returns plain texts. Metrics, attacks and the
method without noise use `real_texts`, so their results stay internal.

DVC sees only a random name of each private file (`privacy.snapshots`). The name changes with the
content.
"""

from __future__ import annotations

import json
import operator
import os
import shutil
import tempfile
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sugarbush.data.table_digest import TableDigest, keyed_digest
from sugarbush.errors import MissingInputError, PrivacyError
from sugarbush.paths import atomic_directory, atomic_file, make_private, remove_leftovers, require
from sugarbush.privacy.data_types import Private
from sugarbush.privacy.events import PlannedEvents
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.session import PrivacySession
from sugarbush.privacy.shards import MapShards, Shards, map_shards
from sugarbush.privacy.unit import ContributionBounds
from sugarbush.progress import EMBEDDINGS, over_batches
from sugarbush.randomness import public_rng

# pandas and pyarrow are imported inside functions: most stages without private data need neither.
if TYPE_CHECKING:
    import pandas as pd
    import pyarrow.parquet as pq

RAW, LABEL = "raw_", "label_"
USER = "user"  # the column with the keyed hash of the record's owner, if the unit is a user
TRAIN, HELDOUT = "train", "heldout"
_BATCH_ROWS = 2**14
_CODE_ROWS = 2**18  # rows of codes in a row group
_TEMPORARY = "parts-"
_ERROR = ".error"
_RECORDS = "records"  # names the prepared records in a file of codes
_Embed = Callable[[tuple[str, ...]], NDArray[np.float32]]
_Location = tuple[int, tuple[int, ...]]  # the offset and the shape of vectors in a file


@dataclass(frozen=True)
class PreparedRecords:
    """Texts with the raw values of the schema's columns, one entry per record."""

    texts: tuple[str, ...] = field(repr=False)
    columns: dict[str, tuple[Any, ...]] = field(repr=False)

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, chosen: NDArray[np.bool_]) -> PreparedRecords:
        """Return the records for which `chosen` (n,) is true."""
        return PreparedRecords(
            texts=tuple(compress(self.texts, chosen)),
            columns={n: tuple(compress(values, chosen)) for n, values in self.columns.items()},
        )


@dataclass(frozen=True, kw_only=True)
class RealTexts:
    """Real texts (n,) with their codes (n, d), outside `Private`, for internal use only."""

    texts: tuple[str, ...] = field(repr=False)
    codes: NDArray[np.int64] = field(repr=False)


class PrivateCorpus(ABC):
    """The private records of a corpus, on disk or in memory."""

    @abstractmethod
    def dataset_fingerprint(self) -> tuple[str, ...]:
        """Return the keyed fingerprint. The ledger recognises the corpus by its fingerprint."""

    @abstractmethod
    def bounds(self) -> ContributionBounds:
        """Return the unit and the maximum number of its records, as stage prepare applied them."""

    def session(
        self, *, ledger: Ledger, stage: str, run: str, plan: PlannedEvents | None = None
    ) -> PrivacySession:
        """Return the session of a mechanism that reads these records.

        `plan` contains all events of the run. The number of records per unit comes from the
        records, never from the settings. Raises PrivacyError if `ledger` has another unit or user
        column than the records.
        """
        bounds = self.bounds()
        if (ledger.unit, ledger.user_column) != (bounds.unit, bounds.user_column):
            raise PrivacyError(
                f"the ledger of dataset '{ledger.dataset}' is opened for unit {ledger.unit} and "
                f"user column {ledger.user_column}, but the records were prepared for {bounds}"
            )
        return PrivacySession(
            ledger=ledger,
            stage=stage,
            run=run,
            dataset_fingerprint=self.dataset_fingerprint(),
            records_per_unit=bounds.records_per_unit,
            plan=plan,
        )

    @abstractmethod
    def _batches(self, split: str, columns: list[str] | None = None) -> Iterator[pd.DataFrame]:
        """Yield frames of some thousand rows, with all columns or only `columns`."""

    @abstractmethod
    def _read_codes(self, split: str, names: Sequence[str] | None = None) -> pd.DataFrame: ...

    def _read_prepared(self, split: str, columns: list[str] | None = None) -> pd.DataFrame:
        import pandas as pd

        frames = list(self._batches(split, columns))
        return frames[0] if len(frames) == 1 else pd.concat(frames, ignore_index=True)

    def records(self, split: str = TRAIN) -> Private[PreparedRecords]:
        return Private(records_of(self._read_prepared(split)))

    def map_records(
        self, function: Callable[[PreparedRecords], NDArray[Any]], *, split: str = TRAIN
    ) -> Private[Any]:
        """Return `records(split).map_batch(function)`, with some thousand records in memory.

        `function` returns an array with one row per record.
        """
        mapped = [
            Private[PreparedRecords](records_of(frame)).map_batch(function)._per_unit
            for frame in self._batches(split)
        ]
        return Private(np.concatenate(mapped))

    def embeddings(self, encode: _Embed, *, split: str = TRAIN) -> Private[Any]:
        """Return the vectors of the texts, `(n, d)` float32."""
        return self.map_records(lambda records: encode(records.texts), split=split)

    def codes(self, names: Sequence[str], split: str = TRAIN) -> Private[tuple[int, ...]]:
        """Return one row of codes per record, with columns in the order of `names`.

        The codes have the type `code_type` of the largest domain.
        """
        return Private(self.real_codes(names, split=split))

    def code_shards(self, names: Sequence[str]) -> Private[Any]:
        """Return the `codes` of the training split for a mechanism that counts them. The codes on
        disk are read shard by shard."""
        return self.codes(names)

    def users(self) -> Private[str]:
        return Private(tuple(self._read_prepared(TRAIN, columns=[USER])[USER]))

    def real_texts(
        self, names: Sequence[str], *, split: str = TRAIN, limit: int | None = None, seed: int = 0
    ) -> RealTexts:
        """Return at most `limit` records of a split outside `Private`.

        Results that depend on plain records must stay internal.
        """
        codes = self.real_codes(names, split=split)
        indices, texts, start = (
            _chosen_indices(len(codes), split=split, limit=limit, seed=seed),
            [],
            0,
        )
        for frame in self._batches(split, ["text"]):
            first, last = np.searchsorted(indices, [start, start + len(frame)])
            texts += frame["text"].iloc[indices[first:last] - start].tolist()
            start += len(frame)
        return RealTexts(texts=tuple(texts), codes=codes[indices].astype(np.int64))

    def real_codes(self, names: Sequence[str], *, split: str) -> NDArray[Any]:
        """Return `codes` outside `Private`, for internal results only."""
        return self._read_codes(split, names)[list(names)].to_numpy()


class CorpusInMemory(PrivateCorpus):
    """A corpus in memory: each split is a frame of records and a frame of codes."""

    def __init__(
        self,
        prepared: Mapping[str, pd.DataFrame],
        coded: Mapping[str, pd.DataFrame],
        *,
        fingerprint: tuple[str, ...],
        bounds: ContributionBounds,
    ) -> None:
        self._prepared: Private[dict[str, pd.DataFrame]] = Private([dict(prepared)])
        self._coded: Private[dict[str, pd.DataFrame]] = Private([dict(coded)])
        self._fingerprint, self._bounds = fingerprint, bounds

    def dataset_fingerprint(self) -> tuple[str, ...]:
        return self._fingerprint

    def bounds(self) -> ContributionBounds:
        return self._bounds

    def _batches(self, split: str, columns: list[str] | None = None) -> Iterator[pd.DataFrame]:
        frame: pd.DataFrame = self._prepared._per_unit[0][split]
        yield frame if columns is None else frame[columns]

    def _read_codes(self, split: str, names: Sequence[str] | None = None) -> pd.DataFrame:
        frame: pd.DataFrame = self._coded._per_unit[0][split]
        return frame

    def digests(self, *, key: bytes, by_user: bool) -> dict[str, str]:
        """Return keyed digests of the training texts, of their codes, and of all data."""
        prepared, coded = (
            [digest_of_frame(read(split), key=key) for split in (TRAIN, HELDOUT)]
            for read in (self._read_prepared, self._read_codes)
        )
        columns = ["text", USER] if by_user else ["text"]
        texts = digest_of_frame(self._read_prepared(TRAIN), key=key, columns=columns)
        return {
            "all": keyed_digest([*prepared, *coded], key=key),
            "texts": keyed_digest([texts], key=key),
            "codes": keyed_digest(coded[:1], key=key),
        }


class PrivateStore(PrivateCorpus):
    """The files under data/private of a project.

    A missing file raises MissingInputError. The message names the stage that writes the file.
    """

    def __init__(self, root: Path, *, map_shards: MapShards | None = None) -> None:
        self._root, self._map_shards = root, map_shards

    def folder(self, name: str) -> Path:
        """Return the private folder `name`, such as `embeddings`, and create it if necessary."""
        return make_private(self._root / name)

    @property
    def labels(self) -> Path:
        """The folder of an endpoint's answers about private texts. The folder may be missing."""
        return self._root / "labels"

    def method_folder(self, method: str) -> Path:
        """Return the folder for the results of a method without a DP guarantee."""
        return self._root / "arms" / method

    @property
    def engine(self) -> MapShards:
        """Runs a function on shards, as the setting `run.cluster` says."""
        return self._map_shards or map_shards

    def prepared_file(self, split: str) -> Path:
        """The folder with the parquet files of a split, which have the order of the records."""
        return self._root / "prepared" / f"{split}.parquet"

    @property
    def bounds_file(self) -> Path:
        return self._root / "prepared" / "bounds.json"

    @property
    def is_prepared(self) -> bool:
        """Whether the records of a run are there."""
        return self.bounds_file.exists() and self.prepared_file(TRAIN).exists()

    def codes_file(self, split: str) -> Path:
        return self._root / "metadata" / f"{split}.parquet"

    @contextmanager
    def saving_prepared(self, *, key: bytes) -> Iterator[PreparedFiles]:
        """Write both splits, fingerprint, bounds and exact counts. An error leaves no file."""
        make_private(self._root)
        with atomic_directory(self._root / "prepared", private=True) as folder:
            yield PreparedFiles(folder, key)

    def store_digest(self, digest: str) -> None:
        """Store the keyed digest of the prepared records, which the codes must name."""
        with atomic_file(self._records_digest_file) as file:
            file.write_text(digest)

    @property
    def _records_digest_file(self) -> Path:
        return self._root / "prepared" / "digest"

    def _records_digest(self) -> str:
        file = self._records_digest_file
        return file.read_text() if file.exists() else ""

    def embeddings(self, encode: _Embed, *, split: str = TRAIN) -> Private[Any]:
        """Return the vectors of the texts, `(n, d)` float32, stored in a file.

        The file has no name, so the operating system deletes the file when the process ends. A
        cluster uses a folder with one file per batch. The folder is deleted with the result, or by
        the next run if the process is killed.
        """
        remove_leftovers(self.folder("embeddings"), _TEMPORARY)
        if self._map_shards is not None:
            return self._embeddings_in_shards(encode, split, self._map_shards)
        file = _VectorFile(self.folder("embeddings"))
        frames = self._batches(split, ["text"])
        rows = _count_rows(require(self.prepared_file(split), left_by="prepare"))
        with closing(
            over_batches(frames, rows, what=EMBEDDINGS, unit="texts", private=True)
        ) as batches:
            locations = tuple(file.add(encode(tuple(frame["text"]))) for frame in batches)
        sizes = tuple(shape[0] for _, shape in locations)
        return Private(Shards(shards=locations, sizes=sizes, read=file.read, map_shards=map_shards))

    def _embeddings_in_shards(
        self, encode: _Embed, split: str, map_shards: MapShards
    ) -> Private[Any]:
        source = require(self.prepared_file(split), left_by="prepare")
        folder = _TemporaryFolder(self.folder("embeddings"))
        row_groups = _row_groups(source)
        files = [folder.path / f"{number}.npy" for number in range(len(row_groups))]

        def embed(number: int) -> dict[int, int]:
            vectors = encode(tuple(_row_group(*row_groups[number], ["text"])["text"]))
            with atomic_file(files[number]) as temporary, temporary.open("wb") as file:
                np.save(file, vectors)
            return {number: len(vectors)}

        sizes = map_shards(embed, range(len(row_groups)), operator.or_)
        return Private(
            Shards(
                shards=tuple(files),
                sizes=tuple(sizes[number] for number in range(len(row_groups))),
                read=partial(np.load, mmap_mode="r"),
                map_shards=map_shards,
                keep=folder,
            )
        )

    def map_records(
        self, function: Callable[[PreparedRecords], NDArray[Any]], *, split: str = TRAIN
    ) -> Private[Any]:
        if self._map_shards is None:
            return super().map_records(function, split=split)
        source = require(self.prepared_file(split), left_by="prepare")
        row_groups = _row_groups(source)

        def apply(number: int) -> dict[int, NDArray[Any]]:
            records = records_of(_row_group(*row_groups[number]))
            return {number: Private[PreparedRecords](records).map_batch(function)._per_unit}

        numbers = range(len(row_groups))
        values_by_group = self._map_shards(apply, numbers, operator.or_)
        return Private(np.concatenate([values_by_group[number] for number in numbers]))

    def save_codes(
        self, split: str, codes: Private[tuple[int, ...]], domain: Mapping[str, int]
    ) -> None:
        """Write codes (n, d), with columns in the order of `domain`."""
        self.folder("metadata")
        frame = codes_frame(codes._per_unit, domain)
        frame.attrs[_RECORDS] = self._records_digest()
        with atomic_file(self.codes_file(split)) as temporary:
            frame.to_parquet(temporary, index=False, row_group_size=_CODE_ROWS)

    def code_shards(self, names: Sequence[str]) -> Private[Any]:
        import pyarrow.parquet as pq

        self._read_codes(TRAIN, ())  # checks that the codes belong to the records
        file, columns = self.codes_file(TRAIN), list(names)
        stored = pq.read_metadata(file)
        groups = range(stored.num_row_groups)

        def read(number: int) -> NDArray[Any]:
            frame = _row_group(file, number, columns)
            values: NDArray[Any] = frame[columns].to_numpy()
            return values

        sizes = tuple(stored.row_group(number).num_rows for number in groups)
        return Private(Shards(shards=tuple(groups), sizes=sizes, read=read, map_shards=map_shards))

    def in_memory(self, *, limit: int | None = None, seed: int = 0) -> CorpusInMemory:
        """Read training split and held-out split into memory, with at most `limit` records each."""
        prepared, coded = {}, {}
        for split in (TRAIN, HELDOUT):
            frame, codes = self._read_prepared(split), self._read_codes(split)
            indices = _chosen_indices(len(frame), split=split, limit=limit, seed=seed)
            prepared[split] = frame.iloc[indices].reset_index(drop=True)
            coded[split] = codes.iloc[indices].reset_index(drop=True)
        return CorpusInMemory(
            prepared, coded, fingerprint=self.dataset_fingerprint(), bounds=self.bounds()
        )

    def dataset_fingerprint(self) -> tuple[str, ...]:
        path = require(self._root / "prepared" / "sketch.json", left_by="prepare")
        return tuple(json.loads(path.read_text())["sketch"])

    def tally(self) -> dict[str, int]:
        """Return the exact counts of stage prepare, for internal use only."""
        path = require(self._root / "prepared" / "tally.json", left_by="prepare")
        return dict(json.loads(path.read_text()))

    def bounds(self) -> ContributionBounds:
        require(self.prepared_file(TRAIN), left_by="prepare")
        try:
            return ContributionBounds.from_json(json.loads(self.bounds_file.read_text()))
        except (OSError, ValueError, KeyError, TypeError):
            raise MissingInputError(
                f"{self.bounds_file}: is missing or damaged. This file says for how many records "
                "per user the records were prepared. Run `sugarbush run` (or `dvc repro prepare`)"
            ) from None

    def _batches(self, split: str, columns: list[str] | None = None) -> Iterator[pd.DataFrame]:
        return _frames(require(self.prepared_file(split), left_by="prepare"), columns)

    def _read_codes(self, split: str, names: Sequence[str] | None = None) -> pd.DataFrame:
        import pandas as pd

        file = require(self.codes_file(split), left_by="extract_metadata")
        frame = pd.read_parquet(file, columns=None if names is None else list(names))
        if frame.attrs.get(_RECORDS, "") != self._records_digest():
            raise PrivacyError(
                f"{file}: these attribute values belong to other records than those that stage "
                "prepare wrote. Run `sugarbush run` (or `dvc repro extract_metadata`)"
            )
        return frame


@dataclass(frozen=True)
class PreparedFiles:
    """Writes the training split and the held-out split, in files for the shards of the corpus.
    Several processes may write."""

    folder: Path
    key: bytes = field(repr=False)

    @contextmanager
    def shard(self, number: int) -> Iterator[PreparedShard]:
        """Write the records of a shard of the corpus. An error leaves no file."""
        names = (TRAIN, HELDOUT)
        targets = [self.folder / f"{name}.parquet" / f"{number:06d}.parquet" for name in names]
        for target in targets:
            target.parent.mkdir(mode=0o700, exist_ok=True)
        with ExitStack() as stack:
            temporary = [stack.enter_context(atomic_file(target)) for target in targets]
            writer = PreparedShard(dict(zip(names, temporary, strict=True)), self.key)
            try:
                yield writer
            finally:
                writer.close()

    def mark_error(self, number: int) -> None:
        """Show all processes that a shard has an error."""
        (self.folder / f"{number:06d}{_ERROR}").touch(mode=0o600)

    def has_error_before(self, number: int) -> bool:
        """Return whether an earlier shard has an error. Then the files are not used."""
        return any(int(mark.stem) < number for mark in self.folder.glob(f"*{_ERROR}"))

    def finish(
        self,
        *,
        fingerprint: tuple[str, ...],
        tally: Mapping[str, int],
        bounds: ContributionBounds,
    ) -> None:
        (self.folder / "bounds.json").write_text(json.dumps(bounds.as_json()))
        (self.folder / "sketch.json").write_text(json.dumps({"sketch": fingerprint}))
        (self.folder / "tally.json").write_text(json.dumps(dict(tally)))


class PreparedDigests:
    """The digests of prepared records: of both splits, and of the texts of the training split with
    their users."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._by_split = {split: TableDigest(key) for split in (TRAIN, HELDOUT)}
        self._texts = TableDigest(key)

    def add(self, split: str, frame: pd.DataFrame) -> None:
        self._by_split[split].add(frame)
        if split == TRAIN:
            self._texts.add(frame[[name for name in frame.columns if name in ("text", USER)]])

    def merge(self, other: PreparedDigests) -> None:
        """Append the records of the next shard of the corpus."""
        for split, digest in self._by_split.items():
            digest.merge(other._by_split[split])
        self._texts.merge(other._texts)

    @property
    def records(self) -> str:
        return keyed_digest(list(self._by_split.values()), key=self._key)

    @property
    def texts(self) -> str:
        return keyed_digest([self._texts], key=self._key)


class PreparedShard:
    """Writes the records of a shard of the corpus."""

    def __init__(self, files: Mapping[str, Path], key: bytes) -> None:
        self.digests = PreparedDigests(key)
        self._files = files
        self._writers: dict[str, pq.ParquetWriter] = {}

    def add(self, frames: Mapping[str, pd.DataFrame]) -> None:
        """Append frames to the splits that they name. Each frame with rows becomes a row group."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        for split, frame in frames.items():
            schema = pa.schema([(str(name), pa.string()) for name in frame.columns])
            if split not in self._writers:
                self._writers[split] = pq.ParquetWriter(self._files[split], schema)
            if len(frame):
                self.digests.add(split, frame)
                self._writers[split].write_table(
                    pa.Table.from_pandas(frame, schema=schema, preserve_index=False)
                )

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()


def _frames(path: Path, columns: list[str] | None = None) -> Iterator[pd.DataFrame]:
    """Yield a table in frames of some thousand rows. A table without rows yields one frame."""
    import pyarrow.parquet as pq

    empty = True
    for own in _files(path):
        # With `pre_buffer`, the whole file would stay in memory until the last row is read.
        with pq.ParquetFile(own, pre_buffer=False) as file:
            for batch in file.iter_batches(_BATCH_ROWS, columns=columns):
                empty = False
                yield batch.to_pandas()
    if empty:
        yield pq.read_table(_files(path)[0], columns=columns).to_pandas()


def _count_rows(path: Path) -> int:
    import pyarrow.parquet as pq

    return sum(pq.read_metadata(file).num_rows for file in _files(path))


def _files(path: Path) -> list[Path]:
    """Return the files of a table in the order of its rows: a file, or the files of a folder."""
    return sorted(path.glob("*.parquet")) if path.is_dir() else [path]


class _VectorFile:
    """A private file without a name. The file is deleted with this object."""

    def __init__(self, folder: Path) -> None:
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
        weakref.finalize(self, self._file.close)

    def add(self, vectors: NDArray[np.float32]) -> _Location:
        location = self._file.tell(), vectors.shape
        self._file.write(np.ascontiguousarray(vectors, dtype=np.float32).data)
        self._file.flush()
        return location

    def read(self, location: _Location) -> NDArray[np.float32]:
        offset, shape = location
        if not all(shape):
            return np.empty(shape, dtype=np.float32)
        return np.memmap(self._file, np.float32, "r", offset=offset, shape=shape)


class _TemporaryFolder:
    """A private folder that is deleted with this object."""

    def __init__(self, parent: Path) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=f"{_TEMPORARY}{os.getpid()}-", dir=parent))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


def _row_groups(path: Path) -> list[tuple[Path, int]]:
    """Return the row groups of a table, each with its file."""
    import pyarrow.parquet as pq

    files = _files(path)
    groups = [
        (file, number) for file in files for number in range(pq.read_metadata(file).num_row_groups)
    ]
    return groups or [(files[0], 0)]


def _row_group(path: Path, number: int, columns: list[str] | None = None) -> pd.DataFrame:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        if file.num_row_groups:
            table = file.read_row_group(number, columns=columns)
        else:
            table = file.read(columns=columns)
    frame: pd.DataFrame = table.to_pandas()
    return frame


def records_of(frame: pd.DataFrame) -> PreparedRecords:
    """Return the columns `text` and `raw_<attribute>` of a frame as records."""
    names = [c for c in frame.columns if c.startswith(RAW)]
    return PreparedRecords(
        texts=tuple(frame["text"]),
        columns={c.removeprefix(RAW): tuple(frame[c].tolist()) for c in names},
    )


def labels_of(frame: pd.DataFrame) -> dict[str, tuple[str | None, ...]]:
    """Return the public labels of donated examples by attribute."""
    names = [c for c in frame.columns if c.startswith(LABEL)]
    return {c.removeprefix(LABEL): tuple(frame[c].tolist()) for c in names}


def code_type(sizes: Iterable[int]) -> np.dtype[Any]:
    """Return the smallest signed type for the codes of domains with `sizes` values.

    The type depends only on the schema. -1 means no value.

    >>> code_type([6, 128]), code_type([6, 129])
    (dtype('int8'), dtype('int16'))
    """
    return np.min_scalar_type(-max(sizes, default=1))


def codes_frame(codes: Any, domain: Mapping[str, int]) -> pd.DataFrame:
    """Convert codes (n, d) to a frame with one column per attribute, each in its `code_type`."""
    import pandas as pd

    table = np.asarray(codes).reshape(-1, len(domain))
    return pd.DataFrame(
        {
            name: table[:, column].astype(code_type([size]))
            for column, (name, size) in enumerate(domain.items())
        }
    )


def digest_of_frame(
    frame: pd.DataFrame, *, key: bytes, columns: Sequence[str] | None = None
) -> TableDigest:
    """Return the digest of a table, or of its `columns`."""
    digest = TableDigest(key)
    digest.add(frame if columns is None else frame[list(columns)])
    return digest


def digest_of_file(path: Path, *, key: bytes) -> TableDigest:
    """Return the `digest_of_frame` of a table on disk."""
    digest = TableDigest(key)
    for frame in _frames(path):
        digest.add(frame)
    return digest


def write_stamp(stamp: Path, name: str) -> None:
    """Write the random name of an input into the file that DVC compares."""
    with atomic_file(stamp, public=True) as temporary:
        temporary.write_bytes(stamp_content(name))


def stamp_content(name: str) -> bytes:
    """Return the content of a stamp file."""
    return json.dumps({"stamp": name}).encode() + b"\n"


def read_stamp(stamp: Path, *, left_by: str) -> str:
    """Read the name that stage `left_by` wrote."""
    return str(json.loads(require(stamp, left_by=left_by).read_text())["stamp"])


def _chosen_indices(count: int, *, split: str, limit: int | None, seed: int) -> NDArray[np.int64]:
    """Return all indices, or `limit` indices chosen by a public seed, in increasing order."""
    if limit is None or count <= limit:
        return np.arange(count)
    chosen = public_rng(seed, split).choice(count, size=limit, replace=False)
    return np.sort(np.asarray(chosen, dtype=np.int64))
