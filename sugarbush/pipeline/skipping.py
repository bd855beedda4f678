"""Stages that only some methods need: those that train a model, and those without a guarantee.

DVC has no conditional stages: one that no chosen method needs leaves a note, and loads nothing
of what it would have run. `python -m sugarbush.pipeline.skipping finetune`
"""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path

from sugarbush.paths import atomic_directory
from sugarbush.pipeline import entry_point as stage
from sugarbush.pipeline.settings import Method, ProjectSettings, load_params

FOLDERS = {
    "pretrain": Path("public", "pretrained"),
    "finetune": Path("released", "finetuned"),
    "generate": Path("released", "generated"),
    "crt": Path("stamps", "crt"),
    "nonprivate": Path("stamps", "nonprivate"),
}


def run(base: Path, params: ProjectSettings, name: str) -> None:
    """Run a stage, or leave a note in its folder."""
    if is_needed(params, name):
        import_module(f"sugarbush.pipeline.stages.{name}").run(base, params)
    else:
        write_skip_marker(base / "data" / FOLDERS[name])


def is_needed(params: ProjectSettings, name: str) -> bool:
    """Whether a chosen method needs the stage."""
    match name:
        case "pretrain":
            return params.trains or params.redacts
        case "crt":
            return params.redacts
        case "nonprivate":
            return Method.NONPRIVATE in params.methods
        case _:
            return params.trains


def write_skip_marker(folder: Path) -> None:
    """What DVC finds in place of a result: an empty folder would make it warn."""
    with atomic_directory(folder) as temporary:
        (temporary / "not_needed.txt").write_text("No method of params.yaml needs this stage.\n")


def main() -> None:
    """Run the stage that is named, in the current folder."""
    parser = argparse.ArgumentParser(prog="python -m sugarbush.pipeline.skipping")
    parser.add_argument("stage", choices=list(FOLDERS))
    name: str = parser.parse_args().stage
    stage.run_with_error_report(name, lambda base: run(base, load_params(), name))


if __name__ == "__main__":
    main()
