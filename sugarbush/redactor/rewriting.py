"""Redacts texts, or a file row by row, with masks or surrogates."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from sugarbush.data.cells import is_half
from sugarbush.data.reading import stream_rows
from sugarbush.errors import InputError, ParamsError
from sugarbush.paths import atomic_stream
from sugarbush.privacy.key import state_key
from sugarbush.redactor.surrogates import with_surrogates
from sugarbush.training.crt.policies import make_policy
from sugarbush.training.crt.redact import TextSpan, mask_spans

_ROWS = 2_000  # number of rows in memory
_SPANS = "spans"
_MASKED = "masked before"  # a mask that the input contains


class Rewriter:
    """Replaces the spans of a policy by masks, or by surrogates with the key of `state`."""

    def __init__(self, detectors: Sequence[str], *, threshold: float, state: Path | None) -> None:
        self._policy = make_policy(detectors, threshold=threshold)
        self._key = None if state is None else state_key(state)

    def rewritten(self, texts: Sequence[str]) -> list[tuple[str, list[TextSpan]]]:
        """Return each text without its secrets, and the spans of the secrets."""
        return [
            (self._replaced(text, spans), spans)
            for text, spans in zip(texts, self._policy.spans(texts), strict=True)
        ]

    def _replaced(self, text: str, spans: list[TextSpan]) -> str:
        if self._key is None:
            return mask_spans(text, spans)
        return with_surrogates(text, spans, key=self._key, record=text)


def redact_file(
    source: Path,
    output: Path,
    rewriter: Rewriter,
    *,
    text: str,
    keep: Sequence[str] = (),
    report: Callable[[int], None] = lambda rows: None,
) -> Counter[str]:
    """Write the redacted column `text`, `spans` and the columns `keep`; return the number of spans
    by kind.

    At most some thousand rows are in memory. Raises InputError for a bad row and names it. Raises
    ParamsError for an output of an unknown format. An error leaves `output` unchanged.
    """
    option_of_column = {name: "--text" if name == text else "--keep" for name in (text, *keep)}
    if _SPANS in option_of_column:
        raise ParamsError(f"the output adds a column '{_SPANS}'. Rename this column in {source}")
    columns = list(dict.fromkeys([*keep, text, _SPANS]))
    rows = stream_rows(source, setting="input", wanted=option_of_column)
    counts: Counter[str] = Counter()
    done = 0
    kind = output.suffix.lower()
    with atomic_stream(output) as stream, _writer(stream, kind, columns) as write:
        while some := list(islice(rows, _ROWS)):
            for row in some:
                if not isinstance(row.fields.get(text), str):
                    raise InputError(f"{source}, row {row.number}: column '{text}' has no text")
                if half := next(
                    (c for c in option_of_column if is_half(str(row.fields.get(c)))), None
                ):
                    raise InputError(
                        f"{source}, row {row.number}: column '{half}' has half a character (a lone "
                        "surrogate)"
                    )
            made = rewriter.rewritten([row.fields[text] for row in some])
            write(
                [
                    {
                        **{name: row.fields.get(name) for name in keep},
                        text: new,
                        _SPANS: json.dumps([[s.start, s.end, s.label] for s in spans]),
                    }
                    for row, (new, spans) in zip(some, made, strict=True)
                ]
            )
            counts.update(span.label or _MASKED for _, spans in made for span in spans)
            done += len(some)
            report(done)
    return counts


@contextmanager
def _writer(
    stream: BinaryIO, kind: str, columns: Sequence[str]
) -> Iterator[Callable[[list[dict[str, Any]]], None]]:
    """Return a function that writes rows as parquet, csv or jsonl. Every column is text."""
    if kind not in {".parquet", ".csv", ".jsonl"}:
        raise ParamsError(
            f"the output has the suffix '{kind}'. Name a .parquet, .csv or .jsonl file"
        )
    if kind == ".parquet":
        schema = pa.schema([(name, pa.string()) for name in columns])
        with pq.ParquetWriter(stream, schema) as parquet:
            yield lambda rows: parquet.write_table(
                pa.table(
                    {n: [None if r[n] is None else str(r[n]) for r in rows] for n in columns},
                    schema=schema,
                )
            )
        return
    with TextIOWrapper(stream, encoding="utf-8", newline="") as file:
        if kind == ".jsonl":
            yield lambda rows: file.writelines(
                json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows
            )
            return
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        yield writer.writerows
