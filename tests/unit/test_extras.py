"""Tests that the core runs without the packages of the extras, and that a message names them."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest

from sugarbush.extras import EXTRAS, message_of
from tests.integration.project import TINY_ENCODER
from tests.settings import ROOT

OPTIONAL = (
    "prefect", "dvc", "opacus", "peft", "faker", "presidio_analyzer", "plotly", "fastapi",
    "sqlalchemy", "distributed", "gguf", "snsynth", "s3fs", "spacy",
)  # fmt: skip
SMALL = """
    import pandas as pd
    import sugarbush as sb

    FRAME = pd.DataFrame({"message": [f"Order {i} arrived late" for i in range(200)]})
    TOPICS = {"subject": "letters", "attributes": [
        {"name": "topic", "values": ["late"], "keywords": {"late": ["late"]}}]}

    def written(method, **more):
        corpus = sb.prepare(
            FRAME, text="message", schema=TOPICS, state="state",
            settings={"embedding": {"model": "tiny"}, "synthesize_metadata": {"degree": 1}},
            privacy=sb.Privacy(epsilon=1, delta=1e-6, dataset="letters"), **more)
        return sb.synthesize(corpus, method=method, texts=12)
"""


def without_extras(folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a process where no optional package can be imported."""
    hidden = f"import sys\nfor name in {OPTIONAL}:\n    sys.modules[name] = None\n"
    (folder / "program.py").write_text(hidden + textwrap.dedent(program))
    command = [sys.executable, "program.py"]
    environment = {
        "PYTHONPATH": f"{ROOT}:{TINY_ENCODER}", "PATH": "/usr/bin:/bin", "HOME": str(folder),
        "SUGARBUSH_STATE": str(folder / "state"),
    }  # fmt: skip
    return subprocess.run(
        command, cwd=folder, env=environment, text=True, capture_output=True, check=False
    )


def run_command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = f"""
        from sugarbush.cli.main import app
        app({list(arguments)!r}, prog_name="sugarbush")
    """
    return without_extras(folder, program)


@pytest.mark.slow
def test_the_library_writes_measures_and_reports_without_extras(tmp_path: Path) -> None:
    finished = without_extras(
        tmp_path,
        SMALL
        + """
    release = written(
        sb.Mosaic(candidates=20, prompt="metadata"), generator=sb.Simulator(any_texts=True))
    assert len(release.texts) == 12
    release.save("release")
    assert "epsilon" in release.report().html
    table = sb.dp_table(FRAME.assign(topic="late"), schema=TOPICS | {"attributes": [
        {"name": "topic", "values": ["late"], "column": "topic"}]},
        privacy=sb.Privacy(epsilon=1, delta=1e-6, dataset="table"), state="state")
    print("rows", len(table.value))
    """,
    )
    assert finished.returncode == 0, finished.stderr[-2000:]
    assert "rows" in finished.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "line"),
    [
        ("sb.DPFT()", "training a language model needs the package opacus. In a clone: "),
        ("sb.CRT()", "training a language model needs the package opacus. In a clone: "),
    ],
)
def test_a_method_that_trains_names_its_extra_before_any_charge(
    tmp_path: Path, method: str, line: str
) -> None:
    finished = without_extras(
        tmp_path,
        SMALL
        + f"""
    try:
        written({method})
    except sb.ParamsError as error:
        print(error)
    print("charges", len(sb.open_ledger("letters", state="state").entries()))
    """,
    )
    assert finished.returncode == 0, finished.stderr[-2000:]
    assert line + "pip install '.[train]'" in finished.stdout
    assert "charges 0" in finished.stdout


@pytest.mark.slow
def test_a_project_needs_the_extra_flows_and_says_so_in_one_line(tmp_path: Path) -> None:
    for arguments in (("--help",), ("settings", "--help"), ("run", "--help")):
        assert run_command(tmp_path, *arguments).returncode == 0
    assert run_command(tmp_path, "init", "demo").returncode == 0
    finished = run_command(tmp_path / "demo", "run")
    said = (finished.stdout + finished.stderr).strip().splitlines()
    assert finished.returncode == 2
    assert said == [
        "sugarbush: a project with stages and its weekly flow needs the package dvc. "
        "In a clone: pip install '.[flows]'"
    ]
    assert not list((tmp_path / "demo").rglob("*.parquet"))


@pytest.mark.slow
def test_the_learned_redactor_names_its_extra(tmp_path: Path) -> None:
    (tmp_path / "texts.csv").write_text("text\nAnn Lee lives in Paris\n")
    arguments = ("redact", "texts.csv", "out.csv", "--text", "text")
    finished = run_command(tmp_path, *arguments)
    assert finished.returncode == 2
    assert "needs the package faker. In a clone: pip install '.[redaction]'" in finished.stderr
    assert not (tmp_path / "out.csv").exists()
    patterns = run_command(tmp_path, *arguments, "--detectors", "regex")
    assert patterns.returncode == 0, patterns.stderr


def test_each_extra_is_declared_and_none_is_a_dependency_of_the_core() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(EXTRAS) <= set(project["optional-dependencies"])
    core = {line.split(">")[0].split("<")[0].replace("-", "_") for line in project["dependencies"]}
    assert not core & {*OPTIONAL, *(p for _, packages in EXTRAS.values() for p in packages)}


def test_an_error_of_another_package_stays() -> None:
    assert message_of(ModuleNotFoundError("no", name="numpy")) is None
    assert message_of(ImportError("cannot import name", name="opacus")) is None  # it is installed
