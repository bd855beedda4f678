"""Files under data/private: read straight into `Private`, written from it, stamped for DVC.

On the audit list. What a private stage tells DVC is a stamp: a digest keyed by the installation's
secret, which changes when the content does and tells nobody anything else.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sugarbush.paths import atomic_file, require
from sugarbush.privacy.data_types import Private
from sugarbush.randomness import public_rng

RAW, LABEL = "raw_", "label_"
USER = "user"  # the column of whose a record is, where the unit is a person


@dataclass(frozen=True)
class Records:
    """Texts with the raw values of the schema's columns, one record a place."""

    texts: tuple[str, ...]
    columns: dict[str, tuple[Any, ...]]

    def __len__(self) -> int:
        return len(self.texts)


def load_records(path: Path) -> Private[Records]:
    """What `prepare` left. Raises MissingInputError when it has not run here."""
    return Private(records_of(pd.read_parquet(require(path, left_by="prepare"))))


def load_users(path: Path) -> Private[str]:
    """Whose each record is, as a keyed hash. Raises MissingInputError as `load_records` does."""
    return Private(tuple(pd.read_parquet(require(path, left_by="prepare"), columns=[USER])[USER]))


def records_of(frame: pd.DataFrame) -> Records:
    """The records of a frame with columns `text` and `raw_<attribute>`."""
    names = [c for c in frame.columns if c.startswith(RAW)]
    return Records(
        texts=tuple(frame["text"]),
        columns={c.removeprefix(RAW): tuple(frame[c].tolist()) for c in names},
    )


def labels_of(frame: pd.DataFrame) -> dict[str, tuple[str | None, ...]]:
    """The donated examples' own labels by attribute, as `prepare.read_donated` found them."""
    names = [c for c in frame.columns if c.startswith(LABEL)]
    return {c.removeprefix(LABEL): tuple(frame[c].tolist()) for c in names}


def load_codes(path: Path, names: Sequence[str]) -> Private[tuple[int, ...]]:
    """What `extract_metadata` left: one row of codes a record, columns in schema order."""
    frame = pd.read_parquet(require(path, left_by="extract_metadata"))
    return Private(frame[list(names)].to_numpy(dtype=np.int64))


def save_codes(codes: Private[tuple[int, ...]], names: Sequence[str], path: Path) -> None:
    """Write codes under the private root."""
    table: NDArray[np.int64] = np.asarray(codes._per_unit, dtype=np.int64)
    with atomic_file(path) as temporary:
        pd.DataFrame(table.reshape(-1, len(names)), columns=list(names)).to_parquet(
            temporary, index=False
        )


def load_dataset_fingerprint(path: Path) -> tuple[str, ...]:
    """The corpus's keyed sketch, by which the ledger knows it again."""
    return tuple(json.loads(require(path, left_by="prepare").read_text())["sketch"])


def write_keyed_digest(
    stamp: Path, files: Sequence[Path], *, key: bytes, columns: list[str] | None = None
) -> None:
    """Write a keyed digest of the tables in `files`, in order; of some `columns` only, if named.

    A stage that spends goes by what it reads and by nothing else: `train_texts` and `train_codes`.
    Of their content, not of their bytes: another version of the parquet writer must not make a
    spending stage stale.
    """
    digest = hmac.new(key, digestmod="sha256")
    for file in files:
        content = pd.read_parquet(file, columns=columns).to_json(
            orient="split", double_precision=15
        )
        digest.update(hashlib.sha256(content.encode("utf-8", "surrogatepass")).digest())
    with atomic_file(stamp) as temporary:
        temporary.write_text(json.dumps({"stamp": digest.hexdigest()}) + "\n")


def read_keyed_digest(stamp: Path, *, left_by: str) -> str:
    """The keyed digest in a stamp."""
    return str(json.loads(require(stamp, left_by=left_by).read_text())["stamp"])


@dataclass(frozen=True, kw_only=True)
class RealTexts:
    """Real texts (n,) with their codes (n, d), opened for metrics, attacks and the arm without
    noise: internal."""

    texts: tuple[str, ...]
    codes: NDArray[np.int64]


def load_real_texts(
    private: Path, part: str, names: Sequence[str], limit: int, seed: int
) -> RealTexts:
    """At most `limit` records of a part, opened. What is computed on them stays internal."""
    texts = pd.read_parquet(require(private / "prepared" / f"{part}.parquet", left_by="prepare"))
    codes = pd.read_parquet(
        require(private / "metadata" / f"{part}.parquet", left_by="extract_metadata")
    )
    places = np.arange(len(texts))
    if len(places) > limit:
        places = np.sort(public_rng(seed, part).choice(len(texts), size=limit, replace=False))
    return RealTexts(
        texts=tuple(texts["text"].iloc[places]),
        codes=codes[list(names)].to_numpy(dtype=np.int64)[places],
    )
