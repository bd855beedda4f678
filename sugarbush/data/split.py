"""Splits records into a training split and a held-out split.

The split of a record depends only on its own id, or on the id of its user. Therefore another record
or user does not change the split.
"""

from __future__ import annotations

import hmac
import json
import unicodedata
from bisect import insort
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b, sha256
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sugarbush.data.private_store import HELDOUT, TRAIN, USER
from sugarbush.data.reading import changed_while_read
from sugarbush.data.records import Record, frame_of
from sugarbush.data.schema import Schema
from sugarbush.data.settings import PrepareSettings
from sugarbush.data.shapes.interface import Shape
from sugarbush.errors import InputError
from sugarbush.privacy.fingerprint import FingerprintBuilder
from sugarbush.randomness import hash_share

_ROW_BITS = 48
_MOST_SHOWN = 20  # values in a message
SplitRecords = dict[str, list[Record]]  # the keys are TRAIN and HELDOUT


class ContributionBounder:
    """Chooses the `records` records per user with the smallest keyed hashes.

    The choice depends only on the user's own records and the key. Pass all records twice in the
    same order: first to `add`, then to the `ChosenRecords` of their shard.
    """

    def __init__(self, *, records: int, key: bytes) -> None:
        self._most, self._key = records, key
        self._smallest: dict[str | None, list[tuple[bytes, int, int]]] = {}  # digest, shard, index
        self._sizes: Counter[int] = Counter()
        self.totals: Counter[str | None] = Counter()  # all records by user; private

    def add(self, records: Iterable[Record], *, shard: int = 0) -> None:
        for record in records:
            entry = _bound_digest(record, self._key), shard, self._sizes[shard]
            self._insert(record.user, [entry])
            self._sizes[shard] += 1
            self.totals[record.user] += 1
        self._sizes.setdefault(shard, 0)

    def merge(self, other: ContributionBounder) -> None:
        """Add the records of other shards."""
        for user, entries in other._smallest.items():
            self._insert(user, entries)
        self._sizes.update(other._sizes)
        self.totals.update(other.totals)

    def _insert(self, user: str | None, more: Iterable[tuple[bytes, int, int]]) -> None:
        entries = self._smallest.setdefault(user, [])
        for entry in more:
            insort(entries, entry)
        del entries[self._most :]

    def chosen(self) -> dict[int, ChosenRecords]:
        """Return the chosen records of each shard."""
        by_shard: dict[int, dict[int, bytes]] = {shard: {} for shard in self._sizes}
        for entries in self._smallest.values():
            for digest, shard, index in entries:
                by_shard[shard][index] = digest
        return {
            shard: ChosenRecords(digests, self._sizes[shard], self._key)
            for shard, digests in by_shard.items()
        }


class ChosenRecords:
    """The chosen records of a shard, by their index. If the second pass over the shard differs from
    the first, `used` or `require_complete` raises InputError."""

    def __init__(self, digests: dict[int, bytes], records: int, key: bytes) -> None:
        self._digests, self._records, self._key = digests, records, key
        self._passed = 0

    def used(self, records: Iterable[Record], *, source: str) -> list[Record]:
        """Return the chosen records of the next batch of the second pass."""
        chosen = []
        for record in records:
            if self._passed in self._digests:
                if self._digests[self._passed] != _bound_digest(record, self._key):
                    raise changed_while_read(source)
                chosen.append(record)
            self._passed += 1
        return chosen

    def require_complete(self, *, source: str) -> None:
        """Raise InputError if the second pass had fewer or more records than the first pass."""
        if self._passed != self._records:
            raise changed_while_read(source)


def _bound_digest(record: Record, key: bytes) -> bytes:
    said = json.dumps(["bound", record.user, record.id]).encode()
    return hmac.digest(key, said, "sha256")


def normalised(text: str) -> str:
    """Normalise case, white space and Unicode form, so that copies of a text are equal."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


class SplitTotals:
    """What the split of some records found: exact counts, ids, and whether all texts are equal."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.ids = Ids()
        self._texts: set[bytes] = set()  # digests of at most two texts

    def compare(self, records: Iterable[Record]) -> None:
        for record in records:
            if len(self._texts) > 1:
                return
            self._texts.add(sha256(normalised(record.text).encode()).digest())

    def merge(self, other: SplitTotals) -> None:
        """Add the records of the next shard."""
        self.counts += other.counts
        self.ids.merge(other.ids)
        self._texts |= other._texts

    def tally(self, params: PrepareSettings, *, source: str, bounded: bool) -> dict[str, int]:
        """Return the exact counts of all records, for internal use only.

        Raises InputError if ids repeat, if there are too few records, or if all texts are equal.
        """
        self.ids.refuse_repeated()
        counts = self.counts
        if counts["kept"] > 1 and len(self._texts) < 2:
            raise InputError(f"{source}: all texts are identical (setting prepare.text_column)")
        if counts[TRAIN] < params.min_records:
            beyond = ", and those beyond privacy.records_per_user of a user," if bounded else ""
            raise InputError(
                f"{source}: has fewer private records than "
                f"prepare.min_records={params.min_records}. Held-out and public records{beyond} do "
                "not count (setting prepare.file)"
            )
        totals = {name: counts[name] for name in (TRAIN, HELDOUT, "public", "left to the pool")}
        if bounded:
            totals["beyond records_per_user"] = counts["kept"] - counts[TRAIN] - counts[HELDOUT]
        return totals


class Splitter:
    """Assigns batches of records to the two splits.

    A hash of a record's own id decides its split. If the unit is a user, a hash of the user
    decides, so no user is in both splits. `public` texts (normalised; donated, or in the
    generator's pool) are removed. Texts that `exclude_share` reserves for a public pool are removed
    too. `fingerprint` receives the remaining records, or the texts inside them (`shape`). `bound`
    then limits the records per user.
    """

    def __init__(
        self,
        params: PrepareSettings,
        *,
        public: Collection[str],
        bound: ChosenRecords | None = None,
        fingerprint: FingerprintBuilder | None = None,
        shape: Shape | None = None,
    ) -> None:
        self._shape = shape
        self._params, self._bound, self._fingerprint = params, bound, fingerprint
        self._public = public
        self.totals = SplitTotals()

    def kept(self, records: Iterable[Record]) -> list[Record]:
        """Return the records that are not public and not excluded."""
        return self._not_excluded(self._not_public(records))

    def _not_public(self, records: Iterable[Record]) -> list[Record]:
        public_texts = self._public
        return [r for r in records if not public_texts or normalised(r.text) not in public_texts]

    def _not_excluded(self, records: list[Record]) -> list[Record]:
        share = self._params.exclude_share
        return [r for r in records if not share or share <= hash_share(r.text)]

    def split(self, records: Sequence[Record], *, source: str) -> SplitRecords:
        """Split a batch of `source` into the two splits."""
        totals = self.totals
        if self._params.id_column is not None:
            totals.ids.add(records, source)
        private_records = self._not_public(records)
        kept = self._not_excluded(private_records)
        totals.compare(kept)
        if self._fingerprint is not None:
            users = [r.user for r in kept if r.user is not None]
            of = None if self._shape is None else self._shape.embedded
            texts = [text for r in kept for text in ((r.text,) if of is None else of(r.text))]
            self._fingerprint.add(texts, users=users, ids=[r.id for r in kept])
        used = kept if self._bound is None else self._bound.used(kept, source=source)
        split: SplitRecords = {TRAIN: [], HELDOUT: []}
        for record in used:
            owner = record.id if record.user is None else record.user
            held_out = hash_share(f"heldout\x1f{owner}") < self._params.heldout_share
            split[HELDOUT if held_out else TRAIN].append(record)
        totals.counts["public"] += len(records) - len(private_records)
        totals.counts["left to the pool"] += len(private_records) - len(kept)
        totals.counts["kept"] += len(kept)
        totals.counts.update({name: len(members) for name, members in split.items()})
        return split

    def require_complete(self, *, source: str) -> None:
        """Raise InputError after the last batch if chosen records are missing."""
        if self._bound is not None:
            self._bound.require_complete(source=source)


class Ids:
    """Refuses a repeated id. Stores only 24 bytes per id, because there may be millions."""

    def __init__(self) -> None:
        self._digests: list[NDArray[np.uint64]] = []  # (n, 2) each
        self._positions: list[NDArray[np.int64]] = []
        self._sources: list[str] = []

    def add(self, records: Sequence[Record], source: str) -> None:
        file = self._number_of(source)
        ids = (record.id.encode("utf-8", "surrogatepass") for record in records)
        digests = (blake2b(encoded_id, digest_size=16).digest() for encoded_id in ids)
        self._digests.append(np.frombuffer(b"".join(digests), dtype=np.uint64).reshape(-1, 2))
        self._positions.append(np.array([file << _ROW_BITS | r.number for r in records], np.int64))

    def merge(self, other: Ids) -> None:
        """Add the ids of the next shard."""
        numbers = np.array([self._number_of(source) for source in other._sources], dtype=np.int64)
        for positions in other._positions:
            files, rows = positions >> _ROW_BITS, positions & ((1 << _ROW_BITS) - 1)
            self._positions.append(numbers[files] << _ROW_BITS | rows)
        self._digests += other._digests

    def _number_of(self, source: str) -> int:
        if source not in self._sources[-1:]:
            self._sources.append(source)
        return len(self._sources) - 1

    def refuse_repeated(self) -> None:
        """Raise InputError that names the first two rows with the same id."""
        if not self._digests:
            return
        # Half of a digest finds nearly all repeated ids, and few others.
        heads = np.concatenate([digests[:, 0] for digests in self._digests])
        heads.sort()
        again = np.unique(heads[1:][heads[1:] == heads[:-1]])
        del heads
        rows: dict[bytes, list[int]] = {}
        for digests, positions in zip(self._digests, self._positions, strict=True):
            for index in np.flatnonzero(np.isin(digests[:, 0], again)) if len(again) else ():
                rows.setdefault(digests[index].tobytes(), []).append(int(positions[index]))
        repeated = [positions for positions in rows.values() if len(positions) > 1]
        if not repeated:
            return
        pair = min(repeated, key=lambda positions: positions[1])[:2]
        (file, first), (other, second) = (divmod(position, 1 << _ROW_BITS) for position in pair)
        names = self._sources[file], self._sources[other]
        where = f"{names[0]}, rows {first} and {second}"
        if file != other:
            where = f"{names[0]}, row {first}, and {names[1]}, row {second}"
        raise InputError(
            f"{where}: have the same id (setting prepare.id_column). Name a column without "
            "repeated values, or none: then the id is a hash of the text"
        )


def private_frame(
    records: Sequence[Record], schema: Schema, *, key: bytes, by_user: bool
) -> pd.DataFrame:
    """Return a frame of the records, with the keyed hash of each user if the unit is a user."""
    frame = frame_of(records, schema)
    if by_user:
        hashes = (hmac.digest(key, f"user\x1f{r.user}".encode(), "sha256") for r in records)
        frame[USER] = pd.Series([digest.hex()[:32] for digest in hashes], dtype="str")
    return frame


@dataclass(frozen=True)
class Unmatched:
    """An attribute, and the listed values of its column that no row has. `by_all` is true if no
    row has any listed value, or a number or date in a bin: then the schema is probably wrong."""

    attribute: str
    values: tuple[str, ...]
    by_all: bool

    @property
    def shown(self) -> str:
        """The values in quotation marks, at most 20 of them."""
        more = len(self.values) - _MOST_SHOWN
        listed = ", ".join(f"'{value}'" for value in self.values[:_MOST_SHOWN])
        return f"{listed} and {more} more" if more > 0 else listed


def unmatched_values(cells: Iterable[Sequence[Any]], schema: Schema) -> list[Unmatched]:
    """Return the attributes with listed values that no row has. `cells` are the cells of the
    attributes with a column, in schema order.

    Show the result only on the operator's terminal, because it depends on private rows.
    """
    attributes = [a for a in schema.attributes if a.column is not None]
    left = [dict.fromkeys(attribute.listed) for attribute in attributes]
    matched = [False] * len(attributes)
    for row in cells:
        for index, attribute in enumerate(attributes):
            if left[index] and (value := attribute.listed_value(row[index])) is not None:
                matched[index] = True
                left[index].pop(value, None)
            elif not matched[index]:
                matched[index] = attribute.has_value(row[index])
    return [
        Unmatched(attribute.name, tuple(values), by_all=not found)
        for attribute, values, found in zip(attributes, left, matched, strict=True)
        if values or not found
    ]
