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

from sugarbush.pipeline.draws import refuse_other_preparation, stored_decision
from sugarbush.pipeline.stamps import keep_private_stamp, write_private_stamp
from sugarbush.preparation.corpus import read_corpus
from sugarbush.run.context import Project
from sugarbush.run.records import key_of, private_store


def run(project: Project) -> None:
    """Write both splits, the keyed fingerprint of the corpus, and the stamps that DVC sees.

    A run that reuses the last release keeps its records. Raises ParamsError if it cannot.
    """
    if not stored_decision(project).is_new:
        _keep(project)
        return
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


def _keep(project: Project) -> None:
    """Write the stamps of the records of the last run again. The data file is not read."""
    store = private_store(project)
    if not store.is_prepared:
        refuse_other_preparation()
    for name in ("prepare", "train_texts"):
        if not keep_private_stamp(project, name, within="corpus", stage="prepare"):
            refuse_other_preparation()
