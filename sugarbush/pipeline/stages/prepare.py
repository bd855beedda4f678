"""Checks the user's file, and splits it into a private training split and a held-out split.

Reads    prepare.file, prepare.donated, the schema, the generator's public texts
Writes   data/private/prepared/      train.parquet/, heldout.parquet/: a file for each shard of the
                                     corpus (id, text, raw_<attribute>; user, a keyed hash, if the
                                     unit is a user), bounds.json (the
                                     unit and the maximum number of its records), sketch.json,
                                     tally.json
         data/stamps/prepare.json, train_texts.json
Spends   nothing. The id of a record (or its user) alone decides which split gets the record. Only
         records of the same user decide whether the record is used
"""

from __future__ import annotations

from sugarbush.pipeline.stamps import write_private_stamp
from sugarbush.preparation.corpus import read_corpus
from sugarbush.run.context import Project
from sugarbush.run.records import key_of, private_store


def run(project: Project) -> None:
    """Write both splits, the keyed fingerprint of the corpus, and the stamps that DVC sees."""
    store = private_store(project)
    corpus = read_corpus(project, engine=store.engine)
    with store.saving_prepared(key=key_of(project)) as files:
        digests = corpus.write(files, store.engine)
        files.finish(fingerprint=corpus.fingerprint, tally=corpus.tally, bounds=corpus.bounds)
    store.store_digest(digests.records)
    write_private_stamp(
        project, "prepare", digest=digests.records, within="corpus", stage="prepare"
    )
    write_private_stamp(
        project, "train_texts", digest=digests.texts, within="corpus", stage="prepare"
    )
