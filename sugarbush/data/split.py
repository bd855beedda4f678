"""The split into a private train part and a held-out part.

The part of a record depends only on its own id, or on its user's id. Another record or user must
not move it.
"""

from __future__ import annotations

import hmac
import json
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pandas as pd

from sugarbush.data.private_store import USER
from sugarbush.data.records import Record, frame_of
from sugarbush.data.schema import Schema
from sugarbush.data.settings import PrepareSettings
from sugarbush.errors import InputError
from sugarbush.privacy.fingerprint import make_dataset_fingerprint
from sugarbush.randomness import hash_share


@dataclass(frozen=True, kw_only=True)
class ContributionBounder:
    """How many records of one user are used, and the secret `key` of that choice."""

    records: int
    key: bytes

    def of(self, records: Sequence[Record]) -> list[Record]:
        """At most `self.records` of each user, in the order of `records`: those with the smallest
        keyed hashes.

        Which of a user's records are kept depends only on that user's records. Without the key the
        choice cannot be computed. Equal records give an equal choice.
        """
        own: dict[str | None, list[Record]] = {}
        for record in records:
            own.setdefault(record.user, []).append(record)
        kept = {
            record.number
            for of_one in own.values()
            for record in sorted(of_one, key=self._place)[: self.records]
        }
        return [record for record in records if record.number in kept]

    def _place(self, record: Record) -> bytes:
        said = json.dumps(["bound", record.user, record.id]).encode()
        return hmac.digest(self.key, said, "sha256")


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """Both parts, and exact counts of dropped and used rows, which are internal.

    `known_by` are the records of the dataset fingerprint, before contributions are bounded.
    """

    train: tuple[Record, ...]
    heldout: tuple[Record, ...]
    known_by: tuple[Record, ...]
    tally: dict[str, int]

    def fingerprint(self, *, key: bytes) -> tuple[str, ...]:
        """The keyed fingerprint by which the ledger recognises the corpus."""
        return make_dataset_fingerprint(
            (r.text for r in self.known_by),
            key=key,
            users=(r.user for r in self.known_by if r.user is not None),
            ids=(r.id for r in self.known_by),
        )


def normalised(text: str) -> str:
    """A text without differences of case and white space, so that copies are equal."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def split(
    records: Sequence[Record],
    params: PrepareSettings,
    *,
    public: Collection[str],
    source: str,
    bound: ContributionBounder | None = None,
) -> Prepared:
    """The private parts.

    A hash of a record's own id decides its part, independently of all other records. If the unit is
    a user, `bound` keeps some records of each user. A hash of the user decides the part, so no user
    is in both parts. Texts that are `public` (donated, or in the generator's pool) are removed, and
    so is the share of texts that `exclude_share` reserves for a public pool. Raises InputError on
    repeated ids, on too few records, and when all texts are identical.
    """
    _refuse_repeated(records, params, source)
    known = {normalised(text) for text in public}
    own = [r for r in records if normalised(r.text) not in known]
    kept = [r for r in own if params.exclude_share <= hash_share(r.text)]
    if len(kept) > 1 and len({normalised(r.text) for r in kept}) == 1:
        raise InputError(f"{source}: all texts are identical (setting prepare.text_column)")
    used = kept if bound is None else bound.of(kept)
    parts: dict[bool, list[Record]] = {True: [], False: []}
    for record in used:
        owner = record.id if record.user is None else record.user
        parts[hash_share(f"heldout\x1f{owner}") < params.heldout_share].append(record)
    if len(parts[False]) < params.min_records:
        raise InputError(
            f"{source}: has fewer private records than "
            f"prepare.min_records={params.min_records}, without the held-out part and what is "
            "public (setting prepare.file)"
        )
    return Prepared(
        train=tuple(parts[False]),
        heldout=tuple(parts[True]),
        known_by=tuple(kept),
        tally={
            "train": len(parts[False]),
            "heldout": len(parts[True]),
            "public": len(records) - len(own),
            "left to the pool": len(own) - len(kept),
            **({} if bound is None else {"beyond records_per_user": len(kept) - len(used)}),
        },
    )


def _refuse_repeated(records: Sequence[Record], params: PrepareSettings, source: str) -> None:
    if params.id_column is None:
        return
    first: dict[str, int] = {}
    for record in records:
        if record.id in first:
            raise InputError(
                f"{source}, rows {first[record.id]} and {record.number}: have the same id "
                "(setting prepare.id_column)"
            )
        first[record.id] = record.number


def private_frame(records: Sequence[Record], schema: Schema, *, key: bytes) -> pd.DataFrame:
    """The records as a frame, with the keyed hash of each user where the unit is a user."""
    frame = frame_of(records, schema)
    users = [r.user for r in records if r.user is not None]
    if users:
        hashes = (hmac.digest(key, f"user\x1f{user}".encode(), "sha256") for user in users)
        frame[USER] = pd.Series([digest.hex()[:32] for digest in hashes], dtype="str")
    return frame


def unmatched_attributes(parts: Prepared, schema: Schema) -> list[str]:
    """Attributes for which no row has one of the listed values; usually a mistake.

    For the operator's terminal only: the answer depends on private rows.
    """
    matched: set[int] = set()
    given = [attribute for attribute in schema.attributes if attribute.column is not None]
    for record in (*parts.train, *parts.heldout):
        matched |= {
            place
            for place, attribute in enumerate(given)
            if place not in matched and attribute.has_value(record.raw[place])
        }
    return [attribute.name for place, attribute in enumerate(given) if place not in matched]
