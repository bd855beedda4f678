"""One categorical row a text, by the schema.

Reads    data/private/prepared/      train.parquet, heldout.parquet
         the schema, the donated file
Writes   data/private/metadata/      train.parquet, heldout.parquet: codes in schema order
         data/public/donated/        donated.parquet: text and codes; not protected
         data/stamps/extract_metadata.json
Spends   nothing; a row depends on its own record alone
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sugarbush.metadata.extract import extract_codes
from sugarbush.params import ExtractMetadataParams, Params
from sugarbush.paths import Roots, find_input, make_private, whole_folder
from sugarbush.privacy.key import state_key
from sugarbush.privacy.kinds import Private
from sugarbush.schema import Schema, load_schema
from tasks import stage
from tasks.encoder import open_encoder
from tasks.prepare import read_donated
from tasks.private_files import Records, load_records, records_of, save_codes, write_stamp
from tasks.state import state_of

Embed = Callable[[Sequence[str]], NDArray[np.float32]]


def codes_of(
    records: Records, *, schema: Schema, embed: Embed, params: ExtractMetadataParams
) -> NDArray[np.int64]:
    """Codes `(n, d)` of every record, from its text and its own raw columns."""
    return extract_codes(schema, records.texts, records.columns, embed=embed, params=params)


def run(base: Path, params: Params) -> None:
    """Extract from the private parts and from the donated examples."""
    roots = Roots(base)
    schema = load_schema(find_input(base, params.prepare.schema_))
    private = make_private(roots.private / "metadata")
    with open_encoder(params, roots, private=True) as encoder:

        def extract(records: Records) -> NDArray[np.int64]:
            return codes_of(
                records, schema=schema, embed=encoder.encode, params=params.extract_metadata
            )

        for part in ("train", "heldout"):
            records = load_records(roots.private / "prepared" / f"{part}.parquet")
            codes: Private[tuple[int, ...]] = records.map_batch(extract)
            save_codes(codes, schema.names, private / f"{part}.parquet")
    with open_encoder(params, roots, private=False) as encoder:
        write_donated(base, params, schema, encoder.encode)
    write_stamp(
        roots.stamps / "extract_metadata.json",
        [private / "train.parquet", private / "heldout.parquet"],
        key=state_key(state_of(params, base)),
    )


def write_donated(base: Path, params: Params, schema: Schema, embed: Embed) -> None:
    """The donated examples with their codes, as every later stage reads them."""
    frame = read_donated(base, params, schema)
    records = records_of(frame)
    codes = (
        codes_of(records, schema=schema, embed=embed, params=params.extract_metadata)
        if len(records)
        else np.empty((0, len(schema.names)), dtype=np.int64)
    )
    with whole_folder(Roots(base).public / "donated") as folder:
        table = pd.DataFrame(codes, columns=list(schema.names))
        table.insert(0, "text", pd.Series(records.texts, dtype="str"))
        table.to_parquet(folder / "donated.parquet", index=False)


if __name__ == "__main__":
    stage.main("extract_metadata", run)
