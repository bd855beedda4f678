"""Extracts one row of categorical values per text, by the schema.

If nothing uses the values of private texts (method `crt` alone), only the donated examples are
read.

Reads    data/private/prepared/      train.parquet, heldout.parquet
         the schema, the donated file
Writes   data/private/metadata/      train.parquet, heldout.parquet: codes in schema order
         data/private/labels/        answers of extract_metadata.llm, if it is used
         data/public/donated/        donated.parquet: texts and codes, not protected;
                                     agreement.json: how often the codes equal the donated labels;
                                     calibrations.json: calibration of zero_shot
         data/stamps/extract_metadata.json, train_codes.json
Spends   nothing. Each row depends only on its record
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from sugarbush.attributes.donated import codes_of, read_donated_codes
from sugarbush.data.private_store import (
    HELDOUT,
    TRAIN,
    PreparedRecords,
    code_type,
    digest_of_file,
    write_stamp,
)
from sugarbush.data.table_digest import keyed_digest
from sugarbush.paths import atomic_directory
from sugarbush.pipeline.stamps import write_private_stamp
from sugarbush.run.context import Project
from sugarbush.run.records import folder_inputs, key_of, private_store
from sugarbush.run.tools import labeller_of

STAMPS = ("extract_metadata", "train_codes")


def run(project: Project) -> None:
    """Extract attributes from records, and from donated examples, which calibrate `zero_shot`."""
    schema, store, key = project.schema, private_store(project), key_of(project)
    settings, labeller = project.settings.extract_metadata, labeller_of(project)
    donated = read_donated_codes(
        folder_inputs(project).read_donated_file(),
        schema=schema,
        embed=project.inputs.encoder(private=False).encode,
        labeller=labeller,
        settings=settings,
    )
    with atomic_directory(project.roots.public / "donated") as folder:
        donated.save(folder, schema.names)
    train, heldout = store.codes_file(TRAIN), store.codes_file(HELDOUT)
    if not project.settings.reads_codes:
        for file in (train, heldout):
            file.unlink(missing_ok=True)  # values of earlier texts
        for name in STAMPS:  # if a run needs the values, `fingerprint` removes these stamps
            write_stamp(project.roots.stamps / f"{name}.json", "no values")
        return
    encode = project.inputs.encoder(private=True).encode

    smallest = code_type(schema.domain.values())

    def extract(records: PreparedRecords) -> NDArray[Any]:
        codes = codes_of(
            records,
            schema=schema,
            embed=encode,
            readers=donated.readers,
            labeller=labeller,
            settings=settings,
        )
        return codes.astype(smallest)

    for part in (TRAIN, HELDOUT):
        if labeller is None:
            codes = store.map_records(extract, part=part)
        else:  # all texts in one request, so that the caps are checked before the first call
            codes = store.records(part).map_batch(extract)
        store.save_codes(part, codes, schema.domain)
    tables = [digest_of_file(file, key=key) for file in (train, heldout)]
    for name, digested in zip(STAMPS, (tables, tables[:1]), strict=True):
        digest = keyed_digest(digested, key=key)
        write_private_stamp(
            project, name, digest=digest, within="prepare", stage="extract_metadata"
        )
