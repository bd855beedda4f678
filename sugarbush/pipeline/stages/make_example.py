"""The embedded example: an invented shop's customer-service corpus.

Reads    nothing
Writes   data/public/example/        corpus.jsonl, donated.jsonl, schema.yaml
Spends   nothing; nobody's data is in it
"""

from __future__ import annotations

from pathlib import Path

from sugarbush.examples.corpus import write_example
from sugarbush.paths import Roots, atomic_directory
from sugarbush.pipeline import entry_point as stage
from sugarbush.pipeline.settings import ProjectSettings


def run(base: Path, params: ProjectSettings) -> None:
    """Write the example."""
    with atomic_directory(Roots(base).public / "example") as folder:
        write_example(folder, params.make_example)


if __name__ == "__main__":
    stage.main("make_example", run)
