"""A missing package is refused before a record is read, wherever a run starts."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

import sugarbush as sb
from sugarbush import extras
from sugarbush.cli.main import app
from sugarbush.errors import ParamsError
from sugarbush.pipeline.graph import STAGES
from sugarbush.pipeline.run_stage import execute
from sugarbush.run.context import Project
from sugarbush.run.usable_inputs import require_packages, require_usable_project
from tests.integration.project import SCHEMA
from tests.synthesized import synthesize_frame
from tests.unit.pipeline.small_project import write_project

FIRST = [stage for stage in STAGES if stage.name in ("fingerprint", "prepare")]
SOURCES = {"sources": [{"file": "texts.xlsx", "text_column": "text"}]}
LOCAL = {"provider": "huggingface", "huggingface": {"model": "models/tiny.gguf"}}
# The package, its extra, and the settings that need it
NEEDS: list[tuple[str, str, dict[str, Any]]] = [
    ("gguf", "gguf", {"generator": LOCAL}),
    ("accelerate", "gguf", {"generator": LOCAL}),
    ("opacus", "train", {"methods": {"dpft": {}}}),
    ("peft", "train", {"methods": {"dpft": {}}}),
    ("faker", "redaction", {"methods": {"crt": {"detectors": ["regex", "learned"]}}}),
    (
        "faker",
        "redaction",
        {"methods": {"crt": {"detectors": ["regex"], "conservative": "learned"}}},
    ),
    ("presidio_analyzer", "redaction", {"methods": {"crt": {"detectors": ["presidio"]}}}),
    ("spacy", "redaction", {"methods": {"crt": {"detectors": ["spacy:en"]}}}),
    ("openpyxl", "xlsx", {"prepare__file": "letters.XLSX"}),
    ("openpyxl", "xlsx", {"prepare__donated": "donated.xlsx"}),
    ("openpyxl", "xlsx", {"generator": {"provider": "pool", "pool": SOURCES}}),
    ("sqlalchemy", "sql", {"prepare__file": "sqlite:///letters.db"}),
    ("psycopg", "sql", {"prepare__file": "postgresql://127.0.0.1/letters"}),
    ("s3fs", "s3", {"prepare__file": "s3://bucket/letters.csv"}),
    ("s3fs", "s3", {"prepare__donated": "s3://bucket/donated.csv"}),
    ("distributed", "cluster", {"run__cluster": "tcp://127.0.0.1:8786"}),
    ("snsynth", "smartnoise", {"synthesize_metadata__engine": "smartnoise"}),
]
cases = pytest.mark.parametrize("need", NEEDS, ids=[f"{p}-{i}" for i, (p, *_) in enumerate(NEEDS)])


@pytest.fixture
def hide(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function that hides a package. All other packages of extras seem installed."""

    def hidden(package: str) -> None:
        monkeypatch.setattr(
            extras, "find_spec", lambda name: None if name == package else find_spec("json")
        )

    return hidden


def without_records(folder: Path, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> Project:
    """Return a project without its private and donated files: reading them is another error."""
    monkeypatch.setenv("SUGARBUSH_STATE", str(folder / "state"))
    project = write_project(folder / "project", **changes)
    for name in ("letters.jsonl", "donated.jsonl"):
        (project.base / name).unlink()
    return project


@pytest.mark.slow
@cases
def test_a_missing_package_is_refused_before_a_record_is_read(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    hide: Callable[[str], None],
    need: tuple[str, str, dict[str, Any]],
) -> None:
    package, extra, changes = need
    project = without_records(tmp_path, monkeypatch, **changes)
    hide(package)
    expected = rf"needs the package {package}\. In a clone: pip install '\.\[{extra}\]'"
    for stage in FIRST:
        with pytest.raises(ParamsError, match=expected):
            execute(stage, project)
    with pytest.raises(ParamsError, match=expected):
        require_usable_project(project)
    monkeypatch.chdir(project.base)
    checked = CliRunner().invoke(app, ["check"])
    assert checked.exit_code == ParamsError.exit_code
    said = " ".join((checked.stdout + checked.stderr).split())
    assert f"needs the package {package}. In a clone: pip install '.[{extra}]'" in said
    assert not list(tmp_path.rglob("ledgers"))


@pytest.mark.parametrize("variable", ["OPENLINEAGE_URL", "MLFLOW_TRACKING_URI"])
def test_a_receiver_without_its_package_is_refused_before_a_record_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hide: Callable[[str], None], variable: str
) -> None:
    package = "openlineage" if "LINEAGE" in variable else "mlflow"
    project = without_records(tmp_path, monkeypatch)
    monkeypatch.setenv(variable, "http://127.0.0.1:9")
    hide(package)
    with pytest.raises(ParamsError, match=rf"package {package}\. In a clone: .*\[track\]"):
        execute(FIRST[0], project)


@pytest.mark.parametrize("package", ["gguf", "accelerate"])
def test_the_python_api_refuses_a_missing_package_before_the_frame_is_read(
    tmp_path: Path, hide: Callable[[str], None], package: str
) -> None:
    hide(package)
    frame = pd.DataFrame({"unread": ["a frame without the columns of the schema"] * 200})
    with pytest.raises(ParamsError, match=rf"package {package}\. In a clone: .*\[gguf\]"):
        synthesize_frame(
            frame, text="text", schema=SCHEMA, state=tmp_path,
            generator=sb.HuggingFace(model="tiny.gguf"), privacy=sb.Privacy(dataset="letters"),
        )  # fmt: skip


def test_settings_that_need_no_package_are_not_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    project = without_records(tmp_path, monkeypatch)
    require_packages(project.settings, project.base)
