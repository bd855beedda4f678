"""Splits records into a training part and a held-out part.

The part of a record depends only on its own id, or on the id of its user. Therefore another record
or user does not change the part.
"""

from __future__ import annotations

import hmac
import json
import unicodedata
from bisect import insort
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from hashlib import blake2b

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sugarbush.data.private_store import HELDOUT, TRAIN, USER
from sugarbush.data.records import Record, frame_of
from sugarbush.data.schema import Schema
from sugarbush.data.settings import PrepareSettings
from sugarbush.errors import InputError
from sugarbush.privacy.fingerprint import FingerprintBuilder
from sugarbush.randomness import hash_share

_ROW_BITS = 48
SplitRecords = dict[str, list[Record]]  # the keys are TRAIN and HELDOUT


class ContributionBounder:
    """Keeps the `records` records per user with the smallest keyed hashes.

    The choice depends only on the user's own records and the key. Pass all records twice in the
    same order: first to `add`, then to `used`. If the second pass differs from the first, `used` or
    `require_complete` raises InputError.
    """

    def __init__(self, *, records: int, key: bytes) -> None:
        self._most, self._key = records, key
        self._smallest: dict[str | None, list[tuple[bytes, int]]] = {}
        self.totals: Counter[str | None] = Counter()  # all records by user; private
        self._added = self._passed = 0
        self._kept: dict[int, bytes] = {}

    def add(self, records: Iterable[Record]) -> None:
        for record in records:
            entries = self._smallest.setdefault(record.user, [])
            insort(entries, (self._digest(record), self._added))
            del entries[self._most :]
            self._added += 1
            self.totals[record.user] += 1

    def used(self, records: Iterable[Record], *, source: str) -> list[Record]:
        """Return the chosen records of the next batch of the second pass."""
        if self._smallest:
            self._kept = {
                number: said for entries in self._smallest.values() for said, number in entries
            }
            self._smallest = {}
        chosen_records = []
        for record in records:
            if self._passed in self._kept:
                if self._kept[self._passed] != self._digest(record):
                    raise _changed(source)
                chosen_records.append(record)
            self._passed += 1
        return chosen_records

    def require_complete(self, *, source: str) -> None:
        """Raise InputError if the second pass had fewer or more records than the first pass."""
        if self._passed != self._added:
            raise _changed(source)

    def _digest(self, record: Record) -> bytes:
        said = json.dumps(["bound", record.user, record.id]).encode()
        return hmac.digest(self._key, said, "sha256")


def _changed(source: str) -> InputError:
    return InputError(
        f"{source}: changed while it was read. Wait until the file is complete, then run again "
        "(setting prepare.file)"
    )


def normalised(text: str) -> str:
    """Normalise case, white space and Unicode form, so that copies of a text are equal."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


class Splitter:
    """Assigns batches of records to the two parts.

    A hash of a record's own id decides its part. If the unit is a user, a hash of the user decides,
    so no user is in both parts. `public` texts (donated, or in the generator's pool) are removed.
    Texts that `exclude_share` reserves for a public pool are removed too. `fingerprint` receives
    the remaining records. `bound` then limits the records per user.
    """

    def __init__(
        self,
        params: PrepareSettings,
        *,
        public: Collection[str],
        bound: ContributionBounder | None = None,
        fingerprint: FingerprintBuilder | None = None,
    ) -> None:
        self._params, self._bound, self._fingerprint = params, bound, fingerprint
        self._public = {normalised(text) for text in public}
        self._ids = _Ids()
        self._only_text: str | None = None
        self._texts_differ = False
        self._counts: Counter[str] = Counter()

    def kept(self, records: Iterable[Record]) -> list[Record]:
        """Return the records that are not public and not excluded."""
        return self._not_excluded(self._not_public(records))

    def _not_public(self, records: Iterable[Record]) -> list[Record]:
        public_texts = self._public
        return [r for r in records if not public_texts or normalised(r.text) not in public_texts]

    def _not_excluded(self, records: list[Record]) -> list[Record]:
        share = self._params.exclude_share
        return [r for r in records if not share or share <= hash_share(r.text)]

    def parts(self, records: Sequence[Record], *, source: str) -> SplitRecords:
        """Split a batch of `source` into the two parts.

        If an id is repeated, this method or `tally` raises InputError.
        """
        if self._params.id_column is not None:
            self._ids.add(records, source)
        private_records = self._not_public(records)
        kept = self._not_excluded(private_records)
        self._compare(kept)
        if self._fingerprint is not None:
            users = [r.user for r in kept if r.user is not None]
            self._fingerprint.add([r.text for r in kept], users=users, ids=[r.id for r in kept])
        used = kept if self._bound is None else self._bound.used(kept, source=source)
        parts: SplitRecords = {TRAIN: [], HELDOUT: []}
        for record in used:
            owner = record.id if record.user is None else record.user
            held_out = hash_share(f"heldout\x1f{owner}") < self._params.heldout_share
            parts[HELDOUT if held_out else TRAIN].append(record)
        self._counts["public"] += len(records) - len(private_records)
        self._counts["left to the pool"] += len(private_records) - len(kept)
        self._counts["kept"] += len(kept)
        self._counts.update({part: len(members) for part, members in parts.items()})
        return parts

    def tally(self, *, source: str) -> dict[str, int]:
        """Return the exact counts after the last batch, for internal use only.

        Raises InputError if ids repeat, if there are too few records, or if all texts are equal.
        """
        self._ids.refuse_repeated()
        counts = self._counts
        if self._bound is not None:
            self._bound.require_complete(source=source)
        if counts["kept"] > 1 and not self._texts_differ:
            raise InputError(f"{source}: all texts are identical (setting prepare.text_column)")
        if counts[TRAIN] < self._params.min_records:
            raise InputError(
                f"{source}: has fewer private records than "
                f"prepare.min_records={self._params.min_records}. Held-out and public records do "
                "not count (setting prepare.file)"
            )
        totals = {name: counts[name] for name in (TRAIN, HELDOUT, "public", "left to the pool")}
        if self._bound is not None:
            used = counts[TRAIN] + counts[HELDOUT]
            totals["beyond records_per_user"] = counts["kept"] - used
        return totals

    def _compare(self, records: Iterable[Record]) -> None:
        for record in records:
            if self._texts_differ:
                return
            text = normalised(record.text)
            self._texts_differ = self._only_text not in {None, text}
            self._only_text = text


class _Ids:
    """Refuses a repeated id. Stores only 24 bytes per id, because there may be millions.

    The ids are compared each time the number of ids has doubled, and after the last record.
    """

    def __init__(self) -> None:
        self._digests: list[NDArray[np.bytes_]] = []
        self._positions: list[NDArray[np.int64]] = []
        self._sources: list[str] = []
        self._count = self._compared = 0

    def add(self, records: Sequence[Record], source: str) -> None:
        if source not in self._sources:
            self._sources.append(source)
        file = len(self._sources) - 1
        ids = (record.id.encode("utf-8", "surrogatepass") for record in records)
        digests = (blake2b(encoded_id, digest_size=16).digest() for encoded_id in ids)
        self._digests.append(np.frombuffer(b"".join(digests), dtype="S16"))
        self._positions.append(np.array([file << _ROW_BITS | r.number for r in records], np.int64))
        self._count += len(records)
        if self._count >= 2 * self._compared:
            self.refuse_repeated()

    def refuse_repeated(self) -> None:
        """Raise InputError that names the first two rows with the same id."""
        if self._count == self._compared:
            return
        digests, positions = np.concatenate(self._digests), np.concatenate(self._positions)
        self._digests, self._positions = [digests], [positions]
        order = np.argsort(digests, kind="stable")
        ordered = digests[order]
        again = order[1:][ordered[1:] == ordered[:-1]]
        if len(again):
            pair = positions[digests == digests[again.min()]][:2].tolist()
            (file, first), (other, second) = (divmod(position, 1 << _ROW_BITS) for position in pair)
            names = self._sources[file], self._sources[other]
            where = f"{names[0]}, rows {first} and {second}"
            if file != other:
                where = f"{names[0]}, row {first}, and {names[1]}, row {second}"
            raise InputError(f"{where}: have the same id (setting prepare.id_column)")
        self._compared = self._count


def private_frame(
    records: Sequence[Record], schema: Schema, *, key: bytes, by_user: bool
) -> pd.DataFrame:
    """Return a frame of the records, with the keyed hash of each user if the unit is a user."""
    frame = frame_of(records, schema)
    if by_user:
        hashes = (hmac.digest(key, f"user\x1f{r.user}".encode(), "sha256") for r in records)
        frame[USER] = pd.Series([digest.hex()[:32] for digest in hashes], dtype="str")
    return frame


def unmatched_attributes(records: Iterable[Record], schema: Schema) -> list[str]:
    """Return the attributes for which no record has a listed value.

    The schema is probably wrong for such an attribute. Show the result only on the operator's
    terminal, because it depends on private rows.
    """
    left = dict(enumerate(a for a in schema.attributes if a.column is not None))
    for record in records:
        for index in [index for index, a in left.items() if a.has_value(record.raw[index])]:
            del left[index]
    return [attribute.name for attribute in left.values()]
