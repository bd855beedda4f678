"""The embedded example: an invented shop's customer-service corpus.

Reads    nothing
Writes   data/public/example/        corpus.jsonl, donated.jsonl, schema.yaml
Spends   nothing; nobody's data is in it
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml

from sugarbush.examples.settings import MakeExampleSettings
from sugarbush.examples.simulator.dice import Dice
from sugarbush.examples.simulator.shop import write_case
from sugarbush.examples.simulator.shop_mix import (
    CHANNEL,
    ISSUE,
    PRIORITY,
    REGION,
    SENTIMENT,
    TENURE_EDGES,
    draw_case,
)
from sugarbush.paths import atomic_directory
from sugarbush.pipeline.project import Project
from sugarbush.pipeline.stages.fingerprint import code_digest

Record = dict[str, Any]
_CODE = ("sugarbush.examples",)
_MADE_OF = "made_of.json"

SUBJECT = "customer-service dialogues and tickets of an online shop"

# What the keeper of the schema knows of the shop without reading a single text.
_PRODUCT_DESCRIPTIONS = {
    "thermostat": ["the Ember thermostat", "a thermostat and the heating"],
    "router": ["the Skein router", "a wifi router and the internet"],
    "coffee machine": ["the Brio coffee machine", "coffee and espresso"],
    "robot vacuum": ["the Pilot robot vacuum", "a robot vacuum cleaner, dust and floors"],
    "air purifier": ["the Zephyr air purifier", "an air purifier and its filter"],
    "mattress": ["the Drift mattress", "a foam mattress for a bed"],
    "floor lamp": ["the Stilt floor lamp", "a lamp and its light"],
    "office chair": ["a swivel chair with armrests to sit on", "a chair with a gas lift"],
    "bicycle": ["the Dart bicycle", "a bicycle with gears and brakes"],
    "tent": ["the Hollow tent", "a tent for camping"],
}
_RESOLUTION_KEYWORDS = {
    "advice given": ["talk you through", "talked you through", "talked through"],
    "replacement": ["swap-out"],
    "refund": ["money-back run"],
    "callback": ["ring-back"],
    "store credit": ["goodwill chit"],
    "escalation": ["second line"],
}
_SCHEMA_HEAD = """\
# The public side of the embedded example: what may be known of the corpus without reading it.
# Every source of an attribute is shown once or more: a column, a column with bins, keyword rules
# and zero-shot by the similarity of embeddings. The corpus also holds a column for those two, so
# that what is told from the text can be compared.
"""


def write_records(params: MakeExampleSettings) -> Iterator[Record]:
    """Endless records, no two with the same text. Record i depends on the seed and i alone,
    but for the rare one whose text was written before and which is left out."""
    seen: set[str] = set()
    number = 0
    while True:
        dice = Dice(params.seed, "example", number)
        case = draw_case(dice)
        text, spans = write_case(case, dice)
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
    """The schema of the example, as its YAML file holds it."""

    def column(name: str, description: str, values: Iterable[str]) -> dict[str, Any]:
        listed = sorted(values)
        return {"name": name, "description": description, "values": listed, "column": name}

    return {
        "subject": SUBJECT,
        "attributes": [
            {
                "name": "product",
                "description": "what the case is about",
                "values": list(_PRODUCT_DESCRIPTIONS),
                "zero_shot": _PRODUCT_DESCRIPTIONS,
            },
            column("issue", "what went wrong", ISSUE),
            column("channel", "how the customer came in", CHANNEL),
            column("sentiment", "the customer's mood", SENTIMENT),
            {
                "name": "resolution",
                "description": "what the desk did",
                "values": list(_RESOLUTION_KEYWORDS),
                "keywords": _RESOLUTION_KEYWORDS,
            },
            column("region", "where the customer lives", REGION),
            column("priority", "how urgent the case is", PRIORITY),
            {
                "name": "tenure_months",
                "description": "months as a customer",
                "column": "tenure_months",
                "bins": list(TENURE_EDGES),
            },
        ],
    }


def write_example(folder: Path, params: MakeExampleSettings) -> None:
    """The three files. Donated examples are drawn as the corpus is, and are none of it."""
    records = write_records(params)
    _write_lines(folder / "donated.jsonl", records, params.donated)
    _write_lines(folder / "corpus.jsonl", records, params.records)
    schema = yaml.safe_dump(example_schema(), sort_keys=False, width=100)
    (folder / "schema.yaml").write_text(_SCHEMA_HEAD + schema, encoding="utf-8")


def run(project: Project) -> None:
    """Write the example, unless it is there already."""
    target, settings = project.roots.public / "example", project.settings.make_example
    made_of = {"settings": settings.model_dump(mode="json"), "code": code_digest(_CODE)}
    if _read_json(target / _MADE_OF) == made_of:
        return
    with atomic_directory(target) as folder:
        write_example(folder, settings)
        (folder / _MADE_OF).write_text(json.dumps(made_of) + "\n")


def _read_json(path: Path) -> Any:
    return json.loads(path.read_text()) if path.exists() else None


def _write_lines(path: Path, records: Iterator[Record], count: int) -> None:
    with path.open("w", encoding="utf-8") as file:
        for _ in range(count):
            file.write(json.dumps(next(records), ensure_ascii=False) + "\n")
