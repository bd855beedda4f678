"""Tests that a stage imports only what it uses. Imports take most of the time of a small stage."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipelines import FinishedPipelines, copied

SLOW = (
    "dp_accounting dvc matplotlib openai prefect scipy sentence_transformers sklearn torch "
    "transformers"
)
PROGRAM = """
import sys
from pathlib import Path
from sugarbush.pipeline import graph, run_stage, stage
from sugarbush.run import error_report as entry_point
from sugarbush.run import settings
assert not set(sys.modules) & {"pandas", "pyarrow"}, "a skipped stage needs neither"
from sugarbush.pipeline.stages import fingerprint, make_example
assert "pandas" not in sys.modules, "most runs start these stages, which read no table"
from sugarbush.pipeline.stages import evolve, extract_metadata, fingerprint, initialise, prepare
from sugarbush.pipeline.opening import open_project
if sys.argv[1:]:
    for stage in (fingerprint, prepare, extract_metadata):
        stage.run(open_project(Path()))
    project = open_project(Path())
    initialise.run(project, project.settings.method("maple"))
print(*sorted(set("@".split()) & set(sys.modules)))
""".replace("@", SLOW)


def loaded(*arguments: str, folder: Path, **variables: str) -> list[str]:
    finished = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], check=True, stdout=subprocess.PIPE, text=True,
        timeout=900, cwd=folder, env=variables or None,
    )  # fmt: skip
    return finished.stdout.splitlines()[-1].split()


@pytest.mark.slow
def test_what_most_runs_do_not_need_is_not_loaded_with_the_stages() -> None:
    assert loaded(folder=Path()) == []


@pytest.mark.slow
def test_a_stage_that_draws_no_noise_loads_no_accounting(
    finished: FinishedPipelines, tmp_path: Path
) -> None:
    own = copied(finished("maple"), tmp_path)
    # A classifier reads the labels of first texts whose request left an attribute open.
    classifier = {"scipy", "sklearn"}
    assert set(loaded("run", folder=own.path, **own.environment)) <= classifier
