"""One categorical row a text, by the schema.

Reads    data/private/prepared/      train.parquet, heldout.parquet
         the schema, the donated file
Writes   data/private/metadata/      train.parquet, heldout.parquet: codes in schema order
         data/private/labels/        answers of extract_metadata.llm, where it is asked
         data/public/donated/        donated.parquet: text and codes; agreement.json: how often they
                                     are as the donated labels say; calibrations.json: what these
                                     say of zero_shot attributes; not protected
         data/stamps/extract_metadata.json, train_codes.json
Spends   nothing; a row depends on its own record alone
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sugarbush.attributes.agreement import agreements
from sugarbush.attributes.extract import extract_codes
from sugarbush.attributes.settings import ExtractMetadataSettings
from sugarbush.attributes.zero_shot import (
    Calibration,
    ZeroShotReader,
    calibrate_readers,
    read_by_others,
    zero_shot_readers,
)
from sugarbush.data.private_store import (
    Records,
    labels_of,
    load_records,
    records_of,
    save_codes,
    write_keyed_digest,
)
from sugarbush.data.schema import Schema, load_schema
from sugarbush.paths import Roots, atomic_directory, find_input, make_private, require
from sugarbush.pipeline import entry_point as stage
from sugarbush.pipeline.encoders import open_encoder
from sugarbush.pipeline.labeller import open_labeller
from sugarbush.pipeline.settings import ProjectSettings
from sugarbush.pipeline.stages.prepare import read_donated
from sugarbush.pipeline.state import state_of
from sugarbush.privacy.data_types import Private
from sugarbush.privacy.key import state_key

if TYPE_CHECKING:
    from sugarbush.attributes.llm_labels import Labeller

NAME = "extract_metadata"
CALIBRATIONS = "calibrations.json"

Embed = Callable[[Sequence[str]], NDArray[np.float32]]


def codes_of(
    records: Records,
    *,
    schema: Schema,
    embed: Embed,
    readers: Mapping[str, ZeroShotReader],
    labeller: Labeller | None,
    params: ExtractMetadataSettings,
) -> NDArray[np.int64]:
    """Codes `(n, d)` of every record, from its text and its own raw columns."""
    asked = labeller.values(records.texts) if labeller is not None else {}
    columns = {**records.columns, **asked}
    return extract_codes(
        schema, records.texts, columns, embed=embed, readers=readers, params=params
    )


def run(base: Path, params: ProjectSettings) -> None:
    """Extract from the donated examples, which calibrate, and then from the private parts."""
    roots = Roots(base)
    schema = load_schema(find_input(base, params.prepare.schema_))
    labeller = open_labeller(params, roots, schema)
    private = make_private(roots.private / "metadata")
    with open_encoder(params, roots, private=False) as encoder:
        readers = write_donated(base, params, schema, encoder.encode, labeller)
    with open_encoder(params, roots, private=True) as encoder:

        def extract(records: Records) -> NDArray[np.int64]:
            return codes_of(
                records, schema=schema, embed=encoder.encode, readers=readers, labeller=labeller,
                params=params.extract_metadata,
            )  # fmt: skip

        for part in ("train", "heldout"):
            records = load_records(roots.private / "prepared" / f"{part}.parquet")
            codes: Private[tuple[int, ...]] = records.map_batch(extract)
            save_codes(codes, schema.names, private / f"{part}.parquet")
    train, heldout = private / "train.parquet", private / "heldout.parquet"
    key = state_key(state_of(params, base))
    write_keyed_digest(roots.stamps / "extract_metadata.json", [train, heldout], key=key)
    write_keyed_digest(roots.stamps / "train_codes.json", [train], key=key)


def write_donated(
    base: Path, params: ProjectSettings, schema: Schema, embed: Embed, labeller: Labeller | None
) -> dict[str, ZeroShotReader]:
    """Leave the donated examples with their codes, as every later stage reads them, what their
    labels calibrate, and how often codes are what labels say; the calibrated readers.

    `embed` is the public encoder's. Agreement is that of texts which did not calibrate.
    """
    frame = read_donated(base, params, schema)
    records, labels, settings = records_of(frame), labels_of(frame), params.extract_metadata
    readers = plain = zero_shot_readers(schema, embed=embed)
    codes = held_out = np.empty((0, len(schema.names)), dtype=np.int64)
    if len(records):
        embedded = embed(records.texts) if plain else np.empty((len(records), 0))
        readers = calibrate_readers(plain, schema, embedded=embedded, labels=labels)
        codes = codes_of(
            records, schema=schema, embed=embed, readers=readers, labeller=labeller, params=settings
        )
        held_out = codes.copy()
        for name, reader in plain.items():
            held_out[:, schema.names.index(name)] = read_by_others(
                reader, schema.attribute(name), embedded, labels[name],
                abstain=settings.zero_shot_abstain,
            )  # fmt: skip
    with atomic_directory(Roots(base).public / "donated") as folder:
        _save_donated(folder, records, codes, schema)
        offsets = {name: reader.calibration.offsets for name, reader in readers.items()}
        (folder / CALIBRATIONS).write_text(json.dumps(offsets, indent=1))
        found = agreements(schema, held_out, labels)
        (folder / "agreement.json").write_text(json.dumps([asdict(a) for a in found], indent=1))
    return readers


def _save_donated(folder: Path, records: Records, codes: NDArray[np.int64], schema: Schema) -> None:
    table = pd.DataFrame(codes, columns=list(schema.names))
    table.insert(0, "text", pd.Series(records.texts, dtype="str"))
    table.to_parquet(folder / "donated.parquet", index=False)


def load_readers(base: Path, schema: Schema, *, embed: Embed) -> dict[str, ZeroShotReader]:
    """The readers that this stage used. `embed` is the public encoder's."""
    path = require(Roots(base).public / "donated" / CALIBRATIONS, left_by=NAME)
    offsets = json.loads(path.read_text())
    calibrations = {name: Calibration(offsets=tuple(values)) for name, values in offsets.items()}
    return zero_shot_readers(schema, embed=embed, calibrations=calibrations)


if __name__ == "__main__":
    stage.main(NAME, run)
