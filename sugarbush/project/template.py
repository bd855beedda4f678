"""Returns the files of a project. `sugarbush init` writes these files. The root of this repository
also contains these files.

dvc.yaml and tasks/ are generated from the declarations of the stages. The other files are in
sugarbush/template.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from string import Template

from sugarbush.pipeline.dvc import DVC_FILE, dvc_yaml
from sugarbush.pipeline.graph import STAGES
from sugarbush.run.settings import FILE

SCHEMA = "data/public/schema.yaml"
IGNORED = ".gitignore"
# Maps file names in sugarbush/template to file names in a project. Template names start without a
# dot.
_NAMES = {
    "params.yaml": FILE,
    "prefect.yaml": "prefect.yaml",
    "prefect.toml": "prefect.toml",
    "README.md": "README.md",
    "schema.yaml": SCHEMA,
    "gitignore": IGNORED,
    "dvcignore": ".dvcignore",
    "dvc/config": ".dvc/config",
    "dvc/gitignore": ".dvc/.gitignore",
}
_TASK = Template('''\
"""$description."""

from sugarbush.pipeline.run_stage import run_stage

if __name__ == "__main__":
    run_stage("$name")
''')
_TASKS = '"""Contains one module per stage, with the name of the stage in dvc.yaml."""\n'


def project_files() -> dict[str, str]:
    """Return the text of every file of a new project, by its path."""
    template = files("sugarbush") / "template"
    texts = {name: _text(template.joinpath(*file.split("/"))) for file, name in _NAMES.items()}
    return texts | generated_files()


def generated_files() -> dict[str, str]:
    """Return the files that `sugarbush init --update` writes again: dvc.yaml, tasks/ and flows/."""
    flows = files("sugarbush") / "template" / "flows"
    return (
        {DVC_FILE: dvc_yaml(), "tasks/__init__.py": _TASKS}
        | {f"tasks/{stage.name}.py": _task(stage.name, stage.description) for stage in STAGES}
        | {f"flows/{file.name}": _text(file) for file in _modules(flows)}
    )


def outdated_tasks(base: Path) -> Iterator[str]:
    """Yield the generated modules in tasks/ without an existing stage."""
    names = {stage.name for stage in STAGES}
    for path in sorted((base / "tasks").glob("*.py")):
        calls = re.search(r'^    run_stage\("(\w+)"\)$', path.read_text("utf-8"), re.MULTILINE)
        if calls and calls[1] == path.stem and path.stem not in names:
            yield f"tasks/{path.name}"


def _task(name: str, description: str) -> str:
    return _TASK.substitute(name=name, description=description[0].upper() + description[1:])


def _modules(folder: Traversable) -> list[Traversable]:
    return sorted((f for f in folder.iterdir() if f.name.endswith(".py")), key=lambda f: f.name)


def _text(file: Traversable) -> str:
    return file.read_text(encoding="utf-8")
