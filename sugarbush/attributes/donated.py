"""Calibrates zero-shot readers with donated examples, and compares codes with their labels."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sugarbush.attributes.agreement import Agreement, agreements
from sugarbush.attributes.extract import extract_codes, without_section
from sugarbush.attributes.settings import ExtractMetadataSettings
from sugarbush.attributes.zero_shot import (
    ZeroShotReader,
    calibrate_readers,
    read_by_others,
    zero_shot_readers,
)
from sugarbush.data.private_store import PreparedRecords, labels_of, records_of
from sugarbush.data.schema import Schema
from sugarbush.generators.interface import Embed

if TYPE_CHECKING:
    pass

CALIBRATIONS = "calibrations.json"


@dataclass(frozen=True, kw_only=True)
class DonatedCodes:
    """Donated texts (n,) with their codes (n, d), calibrated readers and agreements.

    `readers` are calibrated with the labels. `agreements` compare codes with labels. For this
    comparison, the reader of a text is calibrated without the text.
    """

    texts: tuple[str, ...]
    codes: NDArray[np.int64]
    readers: Mapping[str, ZeroShotReader]
    agreements: tuple[Agreement, ...]

    def save(self, folder: Path, names: Sequence[str]) -> None:
        """Write the public files donated.parquet, calibrations.json and agreement.json."""
        table = pd.DataFrame(self.codes, columns=list(names))
        table.insert(0, "text", pd.Series(self.texts, dtype="str"))
        table.to_parquet(folder / "donated.parquet", index=False)
        offsets = {name: reader.offsets for name, reader in self.readers.items()}
        (folder / CALIBRATIONS).write_text(json.dumps(offsets, indent=1))
        rows = [asdict(agreement) for agreement in self.agreements]
        (folder / "agreement.json").write_text(json.dumps(rows, indent=1))


def codes_of(
    records: PreparedRecords,
    *,
    schema: Schema,
    embed: Embed,
    readers: Mapping[str, ZeroShotReader],
    labeller: ReadsValues | None,
    settings: ExtractMetadataSettings,
) -> NDArray[np.int64]:
    """Return codes `(n, d)`. Row i depends only on the text and the raw columns of record i."""
    answered = labeller.values(records.texts) if labeller is not None else {}
    columns = {**records.columns, **answered}
    return extract_codes(
        schema, records.texts, columns, embed=embed, readers=readers, params=settings
    )


class ReadsValues(Protocol):
    """Reads attributes with `source: llm`, as `llm_labels.Labeller` does."""

    def values(self, texts: Sequence[str], /) -> Mapping[str, Sequence[str | None]]:
        """Return the values of `texts` for each attribute name, `(n,)` each."""


@dataclass(frozen=True)
class GivenLabels:
    """Returns the labels of the donated file in place of a model's answers."""

    labels: Mapping[str, tuple[str | None, ...]] = field(repr=False)

    def values(self, texts: Sequence[str], /) -> Mapping[str, Sequence[str | None]]:
        return self.labels


def read_donated_codes(
    frame: pd.DataFrame,
    *,
    schema: Schema,
    embed: Embed,
    labeller: ReadsValues | None,
    settings: ExtractMetadataSettings,
) -> DonatedCodes:
    """Compute the codes of the donated examples."""
    records, labels = records_of(frame), labels_of(frame)
    readers = plain = zero_shot_readers(schema, embed=embed)
    codes = held_out = np.empty((0, len(schema.names)), dtype=np.int64)
    if len(records):
        sections = {name: schema.attribute(name).read_from for name in plain}
        vectors = {s: embed(schema.texts_of(s, records.texts)) for s in set(sections.values())}
        readers = {
            name: calibrate_readers(
                {name: reader}, schema, embedded=vectors[sections[name]], labels=labels
            )[name]
            for name, reader in plain.items()
        }
        codes = codes_of(
            records,
            schema=schema,
            embed=embed,
            readers=readers,
            labeller=labeller,
            settings=settings,
        )
        held_out = codes.copy()
        for name, reader in plain.items():
            attribute = schema.attribute(name)
            read = read_by_others(
                reader,
                attribute,
                vectors[sections[name]],
                labels[name],
                abstain=settings.zero_shot_abstain,
            )
            held_out[:, schema.names.index(name)] = without_section(
                attribute, schema, records.texts, read
            )
    return DonatedCodes(
        texts=records.texts,
        codes=codes,
        readers=readers,
        agreements=tuple(agreements(schema, held_out, labels)),
    )


def load_readers(folder: Path, schema: Schema, *, embed: Embed) -> dict[str, ZeroShotReader]:
    """Make the readers with the calibrations that `DonatedCodes.save` wrote to `folder`."""
    offsets = json.loads((folder / CALIBRATIONS).read_text())
    calibrations = {name: tuple(values) for name, values in offsets.items()}
    return zero_shot_readers(schema, embed=embed, offsets=calibrations)
