"""Has the user's file changed? Asked on every run, so it is quick.

Reads    prepare.file
Writes   data/stamps/corpus.json: a digest of its bytes, keyed by the installation's secret
Spends   nothing
"""

from __future__ import annotations

import hashlib
import hmac
import json
from pathlib import Path

from sugarbush.errors import InputError
from sugarbush.params import Params
from sugarbush.paths import Roots, whole_file
from sugarbush.privacy.ledger import state_key
from tasks import stage
from tasks.budget import state_of

NAME = "fingerprint"


def run(base: Path, params: Params) -> None:
    """Stamp the file; DVC then knows whether `prepare` is stale without knowing its hash."""
    path = base / params.prepare.file
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").digest()
    except FileNotFoundError:
        raise InputError(f"{path}: not found (setting prepare.file)") from None
    except (PermissionError, IsADirectoryError) as error:
        raise InputError(f"{path}: {error.strerror} (setting prepare.file)") from None
    stamp = hmac.digest(state_key(state_of(params, base)), digest, "sha256").hex()
    with whole_file(Roots(base).stamps / "corpus.json") as temporary:
        temporary.write_text(json.dumps({"stamp": stamp}) + "\n")


if __name__ == "__main__":
    stage.main(NAME, run)
