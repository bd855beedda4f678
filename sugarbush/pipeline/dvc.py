"""Generates dvc.yaml from the declarations of the stages.

Stage `fingerprint` writes data/stamps/settings.json on every run. DVC compares sections of this
file. The file contains the resolved settings that affect an output, the planned noise, and a digest
of the code. So defaults can be in code instead of params.yaml.
`python -m sugarbush.pipeline.dvc` prints dvc.yaml.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.scalarstring import PlainScalarString

from sugarbush.errors import ParamsError
from sugarbush.pipeline.graph import STAGES
from sugarbush.pipeline.stage import Output, Stage

DVC_FILE = "dvc.yaml"
UPDATE = "sugarbush init --update"
SETTINGS_FILE = "data/stamps/settings.json"
HEAD = """\
# `sugarbush init --update` generates this file from sugarbush/pipeline/graph.py.
# DVC does not see private files. Their stages write random names to data/stamps.

"""
METRICS: dict[str, Any] = {
    "metrics": ["reports/public/metrics.json"],
    "plots": [
        {
            "votes": {
                "title": "Noisy votes by rank",
                "template": "linear",
                "x": "rank",
                "y": {"reports/public/plots/votes.csv": "votes"},
            }
        },
        {
            "survivors": {
                "title": "Survivors by round",
                "template": "linear",
                "x": "round",
                "y": {"reports/public/plots/survivors.csv": "survivors"},
            }
        },
    ],
}


def dvc_yaml() -> str:
    """Return the text of dvc.yaml."""
    yaml = YAML()
    yaml.width = 100
    yaml.indent(mapping=2, sequence=4, offset=2)
    text = io.StringIO()
    yaml.dump({"stages": {stage.name: _entry(stage) for stage in STAGES}, **METRICS}, text)
    return HEAD + text.getvalue()


def require_current_stages(base: Path) -> None:
    """Raise ParamsError if dvc.yaml or tasks/ of a project lack a stage of this version. Stages,
    metrics and plots that the user added are allowed."""
    path = base / DVC_FILE
    try:
        found = YAML(typ="safe").load(path.read_text(encoding="utf-8"))["stages"]
    except FileNotFoundError:
        raise ParamsError(f"{path}: not found. Write the file with: {UPDATE}") from None
    except (OSError, UnicodeDecodeError, YAMLError, KeyError, TypeError):
        raise ParamsError(
            f"{path}: has no `stages:`. Write the file again with: {UPDATE}"
        ) from None
    wanted = YAML(typ="safe").load(dvc_yaml())["stages"]
    old = [name for name, entry in wanted.items() if found.get(name) != entry]
    if old:
        raise ParamsError(
            f"{path}: these stages differ from this version of Sugarbush: {', '.join(old)}. Write "
            f"the file again with: {UPDATE}"
        )
    missing = [f"tasks/{s.name}.py" for s in STAGES if not (base / f"tasks/{s.name}.py").exists()]
    if missing:
        raise ParamsError(
            f"{', '.join(missing)}: not found. Write these files again with: {UPDATE}"
        )


def _entry(stage: Stage) -> dict[str, Any]:
    """Return one entry of `stages:`. With `exec`, no shell is between DVC and the stage."""
    argument = " --method ${key}" if stage.by_method else ""
    entry: dict[str, Any] = {
        "cmd": f"exec python -m tasks.{stage.name}{argument}",
        "desc": stage.description + (" (spends budget)" if stage.spends else ""),
    }
    if stage.inputs:
        entry["deps"] = [_item(path) for path in stage.inputs]
    if keys := parameter_keys(stage):
        entry["params"] = [{SETTINGS_FILE: [_item(key) for key in keys]}]
    entry["outs"] = [_output(output) for output in stage.outputs]
    if stage.always:
        entry["always_changed"] = True
    return {"foreach": "${methods}", "do": entry} if stage.by_method else entry


def parameter_keys(stage: Stage) -> list[str]:
    """Return the stage's keys in settings.json, with `{method}` in place of a method's name."""
    keys = [f"settings.{section}" for section in stage.settings]
    keys += [f"plan.{request}" for request in stage.plan]
    if stage.depends_on_code:
        keys.append("code")
    if stage.version is not None:
        keys.append(f"versions.{stage.name}")
    return keys


def _output(output: Output) -> Any:
    options = ({"cache": False} if output.keyed else {}) | (
        {"persist": True} if output.persist else {}
    )
    path = _item(output.path)
    return {path: options} if options else path


def _item(path: str) -> Any:
    return PlainScalarString(path.replace("{method}", "${key}"))


if __name__ == "__main__":
    print(dvc_yaml(), end="")
