"""Writes the embedded example, invented messages to a family doctor's practice.

Reads    nothing
Writes   data/public/example/        corpus.jsonl, pool.jsonl, donated.jsonl, schema.yaml; chats as
                                     conversations.jsonl, .pool.jsonl, .donated.jsonl, .schema.yaml
Spends   nothing. The example contains no data of real people
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sugarbush.examples.embedded import write_example
from sugarbush.paths import atomic_directory
from sugarbush.pipeline.code import code_digest
from sugarbush.run.context import Project

_MADE_OF = "made_of.json"


def run(project: Project) -> None:
    """Write the example if it does not exist."""
    target, made_of = project.roots.public / "example", {"code": code_digest()}
    if _read_json(target / _MADE_OF) == made_of:
        return
    with atomic_directory(target) as folder:
        write_example(folder)
        (folder / _MADE_OF).write_text(json.dumps(made_of) + "\n")


def _read_json(path: Path) -> Any:
    return json.loads(path.read_text()) if path.exists() else None
