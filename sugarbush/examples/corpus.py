"""Writes the embedded example: the customer-service corpus of an invented shop, and its schema."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from sugarbush.examples.data_files import load_yaml
from sugarbush.examples.seeded_random import SeededRandom
from sugarbush.examples.shop.cases import draw_case
from sugarbush.examples.shop.texts import write_case

ExampleRecord = dict[str, Any]

RECORDS: Final = 5600
DONATED: Final = 50
_SEED: Final = 1
SCHEMA_FILE = Path(__file__).parent / "shop" / "schema.yaml"


def example_records(seed: int) -> Iterator[ExampleRecord]:
    """Yield an infinite series of records with different texts."""
    seen: set[str] = set()
    number = 0
    while True:
        rng = SeededRandom(seed, "example", number)
        case = draw_case(rng)
        text, spans = write_case(case, rng)
        if text not in seen:
            seen.add(text)
            yield {
                "id": f"case-{number:06d}",
                "text": text,
                **asdict(case),
                "spans": [asdict(span) for span in spans],
            }
        number += 1


def example_schema() -> dict[str, Any]:
    """Return the schema of the example, as in its YAML file."""
    schema: dict[str, Any] = load_yaml(SCHEMA_FILE)
    return schema


def write_example(folder: Path, *, records: int = RECORDS, donated: int = DONATED) -> None:
    """Write corpus.jsonl, donated.jsonl and schema.yaml into an existing folder.

    The donated examples have the distribution of the corpus, but none of them is in the corpus.
    """
    written = example_records(_SEED)
    _write_lines(folder / "donated.jsonl", written, donated)
    _write_lines(folder / "corpus.jsonl", written, records)
    (folder / "schema.yaml").write_bytes(SCHEMA_FILE.read_bytes())


def _write_lines(path: Path, records: Iterator[ExampleRecord], count: int) -> None:
    with path.open("w", encoding="utf-8") as file:
        for _ in range(count):
            file.write(json.dumps(next(records), ensure_ascii=False) + "\n")
