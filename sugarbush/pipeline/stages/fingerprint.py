"""Have the files that the settings name changed? Asked on every run, so it is quick.

Reads    prepare.file, prepare.donated, the schema, the pool's files, crt.labelled, crt.known
Writes   data/stamps/                corpus.json, schema.json, donated.json, pool.json,
                                     policy.json: digests keyed by the installation's secret
Spends   nothing

DVC learns from the stamps what is stale without learning a file's hash or size. A stamp of a later
stage whose private files are gone is taken away, so that DVC runs that stage again.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from pathlib import Path

from sugarbush.data.file_digests import digest_of_files
from sugarbush.data.schema import load_schema
from sugarbush.paths import Roots, atomic_file, find_input
from sugarbush.pipeline import entry_point as stage
from sugarbush.pipeline.settings import ProjectSettings
from sugarbush.pipeline.state import state_of
from sugarbush.privacy.key import state_key

NAME = "fingerprint"


def run(base: Path, params: ProjectSettings) -> None:
    """Write the five stamps."""
    settings = params.prepare
    schema = load_schema(find_input(base, settings.schema_))
    donated = [settings.donated] if settings.donated is not None else []
    sources = list(params.generator.chosen.public_files())
    sources += [s.file for s in params.pretrain.sources] if params.trains or params.redacts else []
    told = [params.crt.labelled, params.crt.known] if params.redacts else []
    digests = {
        "corpus": digest_of_files(base, [settings.file], setting="prepare.file"),
        "schema": hashlib.sha256(schema.model_dump_json().encode()).digest(),
        "donated": digest_of_files(base, donated, setting="prepare.donated"),
        "policy": digest_of_files(
            base, [name for name in told if name is not None], setting="crt.labelled, crt.known"
        ),
        "pool": digest_of_files(base, sources, setting="generator.pool.sources"),
    }
    key = state_key(state_of(params, base))
    for name, digest in digests.items():
        stamp = hmac.digest(key, name.encode() + digest, "sha256").hex()
        with atomic_file(Roots(base).stamps / f"{name}.json") as temporary:
            temporary.write_text(json.dumps({"stamp": stamp}) + "\n")
    forget_stamps_without_files(base)


def forget_stamps_without_files(base: Path) -> None:
    """A stamp vouches for private files that DVC cannot see; without them it is worth nothing."""
    roots = Roots(base)
    vouched = {
        "prepare": roots.private / "prepared" / "train.parquet",
        "train_texts": roots.private / "prepared" / "train.parquet",
        "train_codes": roots.private / "metadata" / "train.parquet",
        "extract_metadata": roots.private / "metadata" / "train.parquet",
        "evaluate": roots.internal / "metrics.json",
    }
    for name, file in vouched.items():
        if not file.exists():
            (roots.stamps / f"{name}.json").unlink(missing_ok=True)


if __name__ == "__main__":
    stage.main(NAME, run)
