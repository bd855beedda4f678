"""Texts with labelled secrets: a public sample to measure a redaction policy on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd

from sugarbush.errors import InputError
from sugarbush.training.crt.recall import LabelledText


def load_labelled(path: Path, *, text_column: str) -> list[LabelledText]:
    """The records of a jsonl or parquet file with a column `spans`: start, end, label of each.

    In parquet the spans of a row are a JSON string. Raises InputError naming file and row.
    """
    try:
        if path.suffix == ".parquet":
            rows: list[Any] = pd.read_parquet(path).to_dict("records")
        else:
            lines = path.read_text(encoding="utf-8").splitlines()
            rows = [json.loads(line) for line in lines]
    except (OSError, ValueError):
        raise InputError(f"{path}: cannot be read as jsonl or parquet (crt.labelled)") from None
    return [_labelled(path, n, row, text_column) for n, row in enumerate(rows, start=1)]


def _labelled(path: Path, number: int, row: dict[str, Any], text_column: str) -> LabelledText:
    try:
        spans = row["spans"]
        found = json.loads(spans) if isinstance(spans, str) else spans
        return LabelledText(
            text=str(row[text_column]),
            spans=tuple((int(s["start"]), int(s["end"]), str(s["label"])) for s in found),
        )
    except (KeyError, TypeError, ValueError):
        raise InputError(
            f"{path}, row {number}: needs '{text_column}' and 'spans' with start, end and label "
            "(crt.labelled)"
        ) from None
