"""One categorical row a text, by the schema.

Reads    data/private/prepared/      train.parquet, heldout.parquet
         the schema, the donated file
Writes   data/private/metadata/      train.parquet, heldout.parquet: codes in schema order
         data/private/labels/        answers of extract_metadata.llm, where it is asked
         data/public/donated/        donated.parquet: text and codes; agreement.json: how often they
                                     are as the donated labels say; not protected
         data/stamps/extract_metadata.json
Spends   nothing; a row depends on its own record alone
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sugarbush.llm.extraction import Labeller
from sugarbush.metadata.agreement import agreements
from sugarbush.metadata.extract import extract_codes
from sugarbush.params import ExtractMetadataParams, Params
from sugarbush.paths import Roots, find_input, make_private, whole_folder
from sugarbush.privacy.key import state_key
from sugarbush.privacy.kinds import Private
from sugarbush.schema import Schema, load_schema
from tasks import stage
from tasks.encoder import open_encoder
from tasks.labeller import open_labeller
from tasks.prepare import read_donated
from tasks.private_files import (
    Records,
    labels_of,
    load_records,
    records_of,
    save_codes,
    write_stamp,
)
from tasks.state import state_of

Embed = Callable[[Sequence[str]], NDArray[np.float32]]


def codes_of(
    records: Records,
    *,
    schema: Schema,
    embed: Embed,
    labeller: Labeller | None,
    params: ExtractMetadataParams,
) -> NDArray[np.int64]:
    """Codes `(n, d)` of every record, from its text and its own raw columns."""
    asked = labeller.values(records.texts) if labeller is not None else {}
    columns = {**records.columns, **asked}
    return extract_codes(schema, records.texts, columns, embed=embed, params=params)


def run(base: Path, params: Params) -> None:
    """Extract from the private parts and from the donated examples."""
    roots = Roots(base)
    schema = load_schema(find_input(base, params.prepare.schema_))
    labeller = open_labeller(params, roots, schema)
    private = make_private(roots.private / "metadata")
    with open_encoder(params, roots, private=True) as encoder:

        def extract(records: Records) -> NDArray[np.int64]:
            return codes_of(
                records, schema=schema, embed=encoder.encode, labeller=labeller,
                params=params.extract_metadata,
            )  # fmt: skip

        for part in ("train", "heldout"):
            records = load_records(roots.private / "prepared" / f"{part}.parquet")
            codes: Private[tuple[int, ...]] = records.map_batch(extract)
            save_codes(codes, schema.names, private / f"{part}.parquet")
    with open_encoder(params, roots, private=False) as encoder:
        write_donated(base, params, schema, encoder.encode, labeller)
    write_stamp(
        roots.stamps / "extract_metadata.json",
        [private / "train.parquet", private / "heldout.parquet"],
        key=state_key(state_of(params, base)),
    )


def write_donated(
    base: Path, params: Params, schema: Schema, embed: Embed, labeller: Labeller | None
) -> None:
    """The donated examples with their codes, as every later stage reads them, and how often these
    are what the examples' own labels say."""
    frame = read_donated(base, params, schema)
    records = records_of(frame)
    codes = (
        codes_of(
            records, schema=schema, embed=embed, labeller=labeller, params=params.extract_metadata
        )
        if len(records)
        else np.empty((0, len(schema.names)), dtype=np.int64)
    )
    with whole_folder(Roots(base).public / "donated") as folder:
        table = pd.DataFrame(codes, columns=list(schema.names))
        table.insert(0, "text", pd.Series(records.texts, dtype="str"))
        table.to_parquet(folder / "donated.parquet", index=False)
        found = agreements(schema, codes, labels_of(frame))
        (folder / "agreement.json").write_text(json.dumps([asdict(a) for a in found], indent=1))


if __name__ == "__main__":
    stage.main("extract_metadata", run)
