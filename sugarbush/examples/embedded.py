"""The embedded example: invented messages to a family doctor's practice, and chats with its desk.

All texts were written for this project by a language model that was asked for them, one by one.
Nobody in them exists. `corpus.jsonl` plays the private texts, `pool.jsonl` the public texts that a
generator may use, and `donated.jsonl` examples that their writers gave away. No text occurs twice.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent / "practice"


def write_example(folder: Path) -> None:
    """Copy the files of the example into an existing folder."""
    for file in sorted(FOLDER.iterdir()):
        shutil.copyfile(file, folder / file.name)


def schema_files() -> dict[str, str]:
    """Return the content of the schema files of the example, by name."""
    return {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.yaml")}
