"""Writes the embedded example: the customer-service corpus of an invented shop, and its schema.

The spoken cases are also written as a second example, a corpus of conversations.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any, Final

from sugarbush.examples.conversations import conversation_of, conversation_schema_yaml
from sugarbush.examples.data_files import load_yaml
from sugarbush.examples.seeded_random import SeededRandom
from sugarbush.examples.shop.cases import draw_case
from sugarbush.examples.shop.texts import write_case

ExampleRecord = dict[str, Any]

RECORDS: Final = 5600
DONATED: Final = 50
_SEED: Final = 1
_CONVERSATIONS: Final = {
    "donated": "conversations.donated.jsonl", "corpus": "conversations.jsonl",
}  # fmt: skip
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

    Write the same three files of the example of conversations, too. The donated examples have the
    distribution of the corpus, but none of them is in the corpus.
    """
    written = example_records(_SEED)
    for name, count in (("donated", donated), ("corpus", records)):
        members = list(islice(written, count))
        _write_lines(folder / f"{name}.jsonl", members)
        spoken = [chat for record in members if (chat := conversation_of(record)) is not None]
        _write_lines(folder / _CONVERSATIONS[name], spoken)
    for name, schema in schema_files().items():
        (folder / name).write_text(schema, encoding="utf-8")


def schema_files() -> dict[str, str]:
    """Return the content of the schema files of the example, by name."""
    return {
        "schema.yaml": SCHEMA_FILE.read_text(encoding="utf-8"),
        "conversations.schema.yaml": conversation_schema_yaml(example_schema()),
    }


def _write_lines(path: Path, records: Iterable[ExampleRecord]) -> None:
    with path.open("w", encoding="utf-8") as file:
        for record in records:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
