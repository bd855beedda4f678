"""Checks the user's file, and splits it into a private training part and a held-out part.

Reads    prepare.file, prepare.donated, the schema, the generator's public texts
Writes   data/private/prepared/      train.parquet, heldout.parquet (id, text, raw_<attribute>;
                                     user, a keyed hash, if the unit is a user), bounds.json (the
                                     unit and the maximum number of its records), sketch.json,
                                     tally.json
         data/stamps/prepare.json, train_texts.json
Spends   nothing. The id of a record (or its user) alone decides which part gets the record. Only
         records of the same user decide whether the record is used
"""

from __future__ import annotations

from sugarbush.data.private_store import HELDOUT, TRAIN, USER, keyed_digest_of_files
from sugarbush.pipeline.corpus import read_corpus
from sugarbush.pipeline.project import Project
from sugarbush.privacy.unit import Unit


def run(project: Project) -> None:
    """Write both parts, the keyed fingerprint of the corpus, and the stamps that DVC sees."""
    corpus, key, store = read_corpus(project), project.key, project.private
    with store.saving_prepared() as files:
        for frames in corpus.frames():
            files.add(frames)
        files.finish(fingerprint=corpus.fingerprint, tally=corpus.tally, bounds=corpus.bounds)
    train, heldout = store.prepared_file(TRAIN), store.prepared_file(HELDOUT)
    whole = keyed_digest_of_files([train, heldout], key=key)
    store.store_digest(whole)
    project.write_stamp("prepare", digest=whole, within="corpus", stage="prepare")
    by_user = corpus.bounds.unit is Unit.USER
    columns = ["text", USER] if by_user else ["text"]
    texts = keyed_digest_of_files([train], columns=columns, key=key)
    project.write_stamp("train_texts", digest=texts, within="corpus", stage="prepare")
