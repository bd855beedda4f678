"""Returns records of an invented shop by a grammar, with labelled spans, and their schema."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sugarbush.examples.data_files import load_yaml
from sugarbush.examples.seeded_random import SeededRandom
from sugarbush.examples.shop.cases import draw_case
from sugarbush.examples.shop.texts import write_case

ExampleRecord = dict[str, Any]

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
    """Return the schema of the records, as in its YAML file."""
    schema: dict[str, Any] = load_yaml(SCHEMA_FILE)
    return schema
