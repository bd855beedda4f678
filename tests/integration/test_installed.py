"""Tests of the package without the checkout: a wheel in a new environment, and a new project."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from prefect.settings import get_current_settings

from sugarbush.project.template import project_files
from tests.integration.project import TINY_ENCODER, letters
from tests.settings import ROOT

pytestmark = [
    pytest.mark.xdist_group("flow"),  # these tests share one Prefect server
    pytest.mark.slow,
    pytest.mark.filterwarnings("default"),
]

_SOURCES = ("sugarbush", "pyproject.toml", "README.md", "LICENSE")
_WHERE = """
import json, sys
import sugarbush.cli.main, sugarbush.pipeline.graph
from importlib.metadata import entry_points
import sugarbush.run.settings as settings
settings.default_fields()
files = [m.__file__ for m in sys.modules.values() if getattr(m, "__file__", None)]
print(json.dumps([files, sys.path]))
"""
SMALL = (
    "methods={maple: {}}",
    "prepare.min_records=20",
    "methods.maple.candidates=12",
    "methods.maple.rounds=1",
    "release.texts=12",
    "methods.maple.variations=2",
    "evaluate.bootstrap=0",
    "synthesize_metadata.degree=1",
    "privacy.cap=50",
    "generator.provider=simulator",
    "generator.simulator.any_texts=true",
    "embedding.model=tiny",  # from another package; test_real_complaints has the bundled encoder
)


@dataclass(frozen=True)
class Installed:
    """An environment with the wheel, and a folder for projects."""

    wheel: Path
    python: Path
    folder: Path

    def run(self, *command: str, cwd: Path | None = None, code: int = 0, **variables: str) -> str:
        """Run a command in the environment, without the checkout, and return its output."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "DVC_", "GIT_", "VIRTUAL_ENV"))
        }
        scripts = self.python.parent
        environment = kept | {
            "PATH": os.pathsep.join([str(scripts), os.environ["PATH"]]),
            "SUGARBUSH_STATE": str(self.folder / "state"),
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
            **variables,
        }
        finished = subprocess.run(
            [str(scripts / command[0]), *command[1:]],
            cwd=cwd or self.folder,
            env=environment,
            text=True,
            capture_output=True,
            check=False,
            timeout=900,
        )
        assert finished.returncode == code, finished.stdout + finished.stderr
        return finished.stdout + finished.stderr


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Build the wheel from the tracked and new files, and install it without its dependencies.

    The dependencies come from the tests' environment, whose path is added after the path of the new
    environment. So no network is needed.
    """
    folder = tmp_path_factory.mktemp("installed")
    source, wheels = folder / "source", folder / "wheels"
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", *_SOURCES],
        cwd=ROOT,
        text=True,
        capture_output=True,
        check=True,
    )
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    offline = ["--no-deps", "--no-index", "--quiet"]
    build = [*pip, "wheel", *offline, "--no-build-isolation", "--wheel-dir", str(wheels)]
    subprocess.run([*build, str(source)], check=True, cwd=folder)
    (wheel,) = wheels.glob("sugarbush-*.whl")
    environment = folder / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    python = environment / "bin" / "python"
    subprocess.run([*pip, "--python", str(python), "install", *offline, str(wheel)], check=True)
    paths = sysconfig.get_paths()
    own = next((environment / "lib").glob("python3*/site-packages"))
    (own / "dependencies.pth").write_text(
        f"{paths['purelib']}\n{paths['platlib']}\n{TINY_ENCODER}\n"
    )
    return Installed(wheel=wheel, python=python, folder=folder)


def test_the_wheel_has_one_package_with_its_types_templates_and_data(installed: Installed) -> None:
    with zipfile.ZipFile(installed.wheel) as wheel:
        names = set(wheel.namelist())
        (top_level,) = [name for name in names if name.endswith("top_level.txt")]
        assert wheel.read(top_level).split() == [b"sugarbush"]
    information = top_level.rpartition("/")[0]
    assert {name.split("/")[0] for name in names} == {"sugarbush", information}
    tracked = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "sugarbush"],
        cwd=ROOT,
        text=True,
        capture_output=True,
        check=True,
    ).stdout.splitlines()
    here = {name for name in tracked if (ROOT / name).is_file()}
    assert {name for name in names if name.startswith("sugarbush/")} == here
    assert {"sugarbush/py.typed", "sugarbush/template/params.yaml"} <= here


def test_nothing_is_imported_from_the_checkout(installed: Installed) -> None:
    printed = installed.run("python", "-c", _WHERE)
    files, path = json.loads(printed.splitlines()[-1])
    own = [file for file in files if "sugarbush" in Path(file).parts]
    assert own
    assert all(Path(file).is_relative_to(installed.python.parents[1]) for file in own)
    assert not [entry for entry in path if Path(entry) == ROOT]
    assert installed.run("sugarbush", "--version").startswith("sugarbush ")


@pytest.mark.usefixtures("prefect_database")
def test_a_project_for_ones_own_file_runs_from_the_installed_package(installed: Installed) -> None:
    rows = [{"message": letter["text"], "product": letter["product"]} for letter in letters(120)]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (installed.folder / "own.jsonl").write_text(lines)
    of = ("--from", "own.jsonl", "--text", "message", "--subject", "letters to a shop")
    installed.run("sugarbush", "init", "release", *of)
    project = installed.folder / "release"
    written = {str(p.relative_to(project)) for p in project.rglob("*") if p.is_file()}
    assert project_files().keys() <= written

    changes = [part for change in SMALL for part in ("-S", change)]
    checked = installed.run("sugarbush", "check", *changes, cwd=project)
    for part in ("settings", "schema", "data", "generator", "budget"):
        assert f"{part:<10} ok" in checked
    printed = installed.run("sugarbush", "run", *changes, cwd=project)
    assert re.search(r"stage \d+ of \d+  evolve@maple: running", printed)
    assert "pretrain" not in printed
    released = project / "data/released/enlarge/maple"
    assert list(released.rglob("synthetic.jsonl"))
    card = json.loads((project / "reports/public/release_card.json").read_text())
    assert 0 < card["promise"]["epsilon"] <= 1
    assert "release_card.md" in installed.run("sugarbush", "report", cwd=project)

    lock = yaml.safe_load((project / "dvc.lock").read_text())
    assert "evolve@maple" in lock["stages"]
    repro = installed.run("python", "-m", "dvc", "repro", cwd=project)
    assert "Stage 'evolve@maple' didn't change, skipping" in repro
    address = get_current_settings().api.url
    assert address is not None
    flow = installed.run("python", "-m", "flows.pipeline", cwd=project, PREFECT_API_URL=address)
    assert "stages were up to date" in flow
    spent = installed.run("sugarbush", "budget", cwd=project)
    assert "a run spends nothing" in spent.replace("\n", " ")
