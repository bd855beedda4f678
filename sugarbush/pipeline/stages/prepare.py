"""The user's file, checked, and split into a private train part and a held-out part.

Reads    prepare.file, prepare.donated, the schema, the generator's public texts
Writes   data/private/prepared/      train.parquet, heldout.parquet (id, text, raw_<attribute>;
                                     user, a keyed hash, where the unit is a user), sketch.json,
                                     tally.json
         data/stamps/prepare.json, train_texts.json
Spends   nothing; where a record goes depends on its own id alone, or on its user's, and whether
         it is used on that user's records alone
"""

from __future__ import annotations

from sugarbush.data.private_store import HELDOUT, TRAIN, USER, write_keyed_digest
from sugarbush.pipeline.corpus import private_frames, read_corpus
from sugarbush.pipeline.project import Project
from sugarbush.privacy.ledger import make_dataset_fingerprint
from sugarbush.privacy.unit import Unit


def run(project: Project) -> None:
    """Write both parts, the corpus's keyed fingerprint and the digests that DVC sees."""
    parts, key = read_corpus(project), project.key
    store, stamps = project.private, project.roots.stamps
    store.save_prepared(
        private_frames(parts, project),
        fingerprint=make_dataset_fingerprint(parts.known_by, key=key),
        tally=parts.tally,
    )
    train, heldout = store.prepared_file(TRAIN), store.prepared_file(HELDOUT)
    write_keyed_digest(stamps / "prepare.json", [train, heldout], key=key)
    by_user = project.settings.privacy.unit is Unit.USER
    columns = ["text", USER] if by_user else ["text"]
    write_keyed_digest(stamps / "train_texts.json", [train], columns=columns, key=key)
