"""A corpus in a file, and the files that stage prepare writes for it."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from sugarbush.data.private_store import PrivateStore
from sugarbush.pipeline.opening import open_project
from sugarbush.preparation.corpus import read_corpus
from tests.settings import params

ROWS = [
    (f"r{i}", f'Lettre {i} de l\'été, "ici".\nFin {i % 7}', "ab"[i % 2], f"u{i % 40}")
    for i in range(400)
]


BY_USER = {
    "privacy__unit": "user", "privacy__records_per_user": 3, "prepare__user_column": "who"
}  # fmt: skip


def write(path: Path, rows: Sequence[Sequence[str]]) -> None:
    names = ("id", "text", "topic", "who")
    if path.suffix == ".parquet":
        pd.DataFrame(rows, columns=names).to_parquet(path, index=False, row_group_size=9)
        return
    with path.open("w", newline="") as file:
        if path.suffix == ".csv":
            csv.writer(file, lineterminator="\r\n").writerows([names, *rows])
        else:
            file.writelines(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows)


def prepared(base: Path, engine: Any, **changes: Any) -> dict[str, bytes]:
    """The bytes of all files of stage prepare, and its tally and fingerprint."""
    schema = {"subject": "s", "attributes": [{"name": "t", "column": "topic", "values": ["a"]}]}
    (base / "schema.yaml").write_text(json.dumps(schema))
    file = next(path.name for path in base.iterdir() if path.name.startswith("corpus"))
    own = params(
        prepare__file=file,
        prepare__schema="schema.yaml",
        prepare__donated=None,
        **{"prepare__id_column": "id", **changes},
        prepare__min_records=10,
        privacy__dataset="letters",
    )
    project = open_project(base, settings=own)
    store = PrivateStore(base / "data/private", map_shards=engine)
    corpus = read_corpus(project, engine=store.engine)
    with store.saving_prepared(key=b"key") as files:
        corpus.write(files, store.engine)
        files.finish(fingerprint=corpus.fingerprint, tally=corpus.tally, bounds=corpus.bounds)
    folder = base / "data/private/prepared"
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
