"""The user's file, checked, and split into a private train part and a held-out part.

Reads    prepare.file, prepare.donated, the schema, the pool's files
Writes   data/private/prepared/      train.parquet, heldout.parquet (id, text, raw_<attribute>;
                                     user, a keyed hash, where the unit is a person), sketch.json,
                                     tally.json
         data/stamps/prepare.json, train_texts.json
Spends   nothing; where a record goes depends on its own id alone, or on its person's, and whether
         it is used on that person's records alone
"""

from __future__ import annotations

import hmac
import json
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from sugarbush.data.private_store import LABEL, USER, write_keyed_digest
from sugarbush.data.reading import read_rows
from sugarbush.data.records import Record, as_text, columns_of, frame_of, usable
from sugarbush.data.schema import Schema, load_schema
from sugarbush.data.settings import PrepareSettings
from sugarbush.errors import InputError
from sugarbush.paths import Roots, atomic_directory, find_input, make_private
from sugarbush.pipeline import entry_point as stage
from sugarbush.pipeline.settings import ProjectSettings
from sugarbush.pipeline.state import state_of
from sugarbush.privacy.key import state_key
from sugarbush.privacy.ledger import make_dataset_fingerprint
from sugarbush.privacy.unit import Unit
from sugarbush.randomness import hash_share

NAME = "prepare"


@dataclass(frozen=True, kw_only=True)
class ContributionBounder:
    """How many records of one person are used, and the secret `key` that chooses them."""

    records: int
    key: bytes

    def of(self, records: Sequence[Record]) -> list[Record]:
        """At most `self.records` of each person, in order: those of the smallest keyed hashes.

        Which of a person's are kept depends on that person's records alone, and nobody without the
        key can tell; equal records give an equal choice, so that no stage is run again for nothing.
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
    """Both parts, and how many rows became what: exact tallies, internal.

    `known_by` are the texts that the ledger knows the corpus by, whatever is used of each person.
    """

    train: tuple[Record, ...]
    heldout: tuple[Record, ...]
    known_by: tuple[str, ...]
    tally: dict[str, int]


def normalised(text: str) -> str:
    """What two copies of one text have in common, whatever their case and spacing."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def split(
    records: Sequence[Record],
    params: PrepareSettings,
    *,
    public: Collection[str],
    source: str,
    bound: ContributionBounder | None = None,
) -> Prepared:
    """The private parts: every record goes by a hash of its own id, whoever else is there.

    Where the unit is a person, `bound` keeps some records of each, and all of them go by a hash of
    the person, so that nobody is in both parts. Texts that are `public` (donated, or in the
    generator's pool) are taken out wherever they occur, and so is the share of texts that
    `exclude_share` leaves to a public pool.
    Raises InputError on repeated ids, too few records, or texts that are all alike.
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
            f"{source}: leaves fewer private records than "
            f"prepare.min_records={params.min_records}, once the held-out part and what is public "
            "are taken out (setting prepare.file)"
        )
    return Prepared(
        train=tuple(parts[False]),
        heldout=tuple(parts[True]),
        known_by=tuple(r.text for r in kept),
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


def _private_frame(records: Sequence[Record], schema: Schema, *, key: bytes) -> pd.DataFrame:
    """The same, with whose each record is as a keyed hash where the unit is a person."""
    frame = frame_of(records, schema)
    users = [r.user for r in records if r.user is not None]
    if users:
        hashes = (hmac.digest(key, f"user\x1f{user}".encode(), "sha256") for user in users)
        frame[USER] = pd.Series([digest.hex()[:32] for digest in hashes], dtype="str")
    return frame


def _wanted(params: PrepareSettings, schema: Schema, *, private: bool) -> Mapping[str, str]:
    """Every column that must be there, and what asks for it. Donated texts need no id."""
    columns = {params.text_column: "prepare.text_column"}
    if private and params.id_column is not None:
        columns.setdefault(params.id_column, "prepare.id_column")
    for name, column in columns_of(schema).items():
        columns.setdefault(column, f"attribute '{name}'")
    if private and params.user_column is not None:
        if params.user_column in columns and params.user_column != params.id_column:
            raise InputError(
                f"column '{params.user_column}' says whose a record is (prepare.user_column) and "
                f"is asked for by {columns[params.user_column]} too. It would be written into "
                "prompts and texts: leave it out there"
            )
        columns.setdefault(params.user_column, "prepare.user_column")
    return columns


def read_donated(base: Path, params: ProjectSettings, schema: Schema) -> pd.DataFrame:
    """The donated examples, in the same columns; an empty frame where there are none.

    An attribute that is read off the text has its true value in column `label_<attribute>`, where
    the file holds one under the attribute's name: donated labels are public.
    """
    settings = params.prepare
    if settings.donated is None:
        return frame_of([], schema)
    path = find_input(base, settings.donated)
    rows = read_rows(
        path, setting="prepare.donated", wanted=_wanted(settings, schema, private=False),
        all_columns=True,
    )  # fmt: skip
    without_id = settings.model_copy(update={"id_column": None, "user_column": None})
    records, _ = usable(rows, without_id, schema, source=str(path), setting="prepare.donated")
    frame = frame_of(records, schema)
    fields = {row.number: row.fields for row in rows}
    for attribute in schema.attributes:
        if attribute.column is None:
            labels = [as_text(fields[r.number].get(attribute.name)) for r in records]
            frame[LABEL + attribute.name] = pd.Series(labels, dtype="object")
    return frame


def public_texts(base: Path, params: ProjectSettings, schema: Schema) -> tuple[str, ...]:
    """Texts that are public already: donated ones, and those of the generator's pool."""
    donated = tuple(read_donated(base, params, schema)["text"])
    return donated + params.generator.chosen.public_texts(base)


def prepared(base: Path, params: ProjectSettings, schema: Schema) -> Prepared:
    """Read, check and split, and write nothing."""
    settings = params.prepare
    path = find_input(base, settings.file)
    rows = read_rows(path, setting="prepare.file", wanted=_wanted(settings, schema, private=True))
    records, bad = usable(rows, settings, schema, source=str(path), setting="prepare.file")
    public = public_texts(base, params, schema)
    bound = None
    if params.privacy.unit is Unit.USER:
        key = state_key(state_of(params, base))
        bound = ContributionBounder(records=params.privacy.records_per_user, key=key)
    parts = split(records, settings, public=public, source=str(path), bound=bound)
    return replace(parts, tally={**parts.tally, **bad})


def unmatched_attributes(parts: Prepared, schema: Schema) -> list[str]:
    """Attributes in whose column no row holds a value that the schema knows: a slip in most cases.

    For the operator's terminal: it is told by the private rows.
    """
    told: set[int] = set()
    given = [attribute for attribute in schema.attributes if attribute.column is not None]
    for record in (*parts.train, *parts.heldout):
        told |= {
            place
            for place, attribute in enumerate(given)
            if place not in told and attribute.tells(record.raw[place])
        }
    return [attribute.name for place, attribute in enumerate(given) if place not in told]


def run(base: Path, params: ProjectSettings) -> None:
    """Leave both parts, the corpus's keyed sketch and the stamp that DVC sees."""
    roots, schema = Roots(base), load_schema(find_input(base, params.prepare.schema_))
    parts = prepared(base, params, schema)
    key = state_key(state_of(params, base))
    make_private(roots.private)
    with atomic_directory(roots.private / "prepared", private=True) as folder:
        for part, records in (("train", parts.train), ("heldout", parts.heldout)):
            frame = _private_frame(records, schema, key=key)
            frame.to_parquet(folder / f"{part}.parquet", index=False)
        dataset_fingerprint = make_dataset_fingerprint(parts.known_by, key=key)
        (folder / "sketch.json").write_text(json.dumps({"sketch": dataset_fingerprint}))
        (folder / "tally.json").write_text(json.dumps(parts.tally))
    train, heldout = (roots.private / "prepared" / f"{p}.parquet" for p in ("train", "heldout"))
    write_keyed_digest(roots.stamps / "prepare.json", [train, heldout], key=key)
    columns = ["text"] if params.privacy.unit is Unit.RECORD else ["text", USER]
    write_keyed_digest(roots.stamps / "train_texts.json", [train], columns=columns, key=key)


if __name__ == "__main__":
    stage.main(NAME, run)
