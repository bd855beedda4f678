"""Tests that each optional package of Sugarbush is a folder that can be deleted.

A copy of Sugarbush without the folder imports every other module and runs the command. One message
refuses the settings that need the package. No module outside the folder imports it.
"""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import textwrap
import tomllib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

from sugarbush.registry import CALL_MODES, DETECTORS, STAGE_OBSERVERS, plugin_names
from tests.integration.llm.server import KEY, MODEL, FaultServer, running
from tests.settings import ROOT

PROGRAMS = ("sugarbush", "tasks", "flows", "examples", "research")
# An editable installation would find the deleted package in the checkout.
FIRST = """
    import sys
    sys.meta_path[:] = [each for each in sys.meta_path if "editable" not in repr(each).lower()]
"""
HELP = """
    from sugarbush.cli.main import app
    app(["--help"])
"""
IMPORT_ALL = """
    import importlib, pkgutil
    import sugarbush
    from sugarbush.extras import message_of

    assert "PACKAGE" not in {each.name for each in pkgutil.iter_modules(sugarbush.__path__)}
    for each in pkgutil.walk_packages(sugarbush.__path__, "sugarbush."):
        if each.name.startswith("sugarbush.template"):
            continue  # files for a new project
        try:
            importlib.import_module(each.name)
        except ImportError as error:
            assert message_of(error), f"{each.name}: {error!r}"
    exec("from sugarbush import *", {})
"""
REFUSED = """
    from pathlib import Path
    from sugarbush.errors import SugarbushError

    def refusal(action, *arguments, **settings):
        try:
            action(*arguments, **settings)
        except SugarbushError as error:
            assert len(str(error).splitlines()) == 1, error
            return str(error)
        raise AssertionError("nothing is refused")
"""
REDACTOR = """
    import sugarbush as sb
    from sugarbush.run.settings import parse_params
    from sugarbush.training import make_policy, make_public_policy

    assert "redact" not in sb.__all__ and not hasattr(sb, "redact")
    missing = "no installed package provides the detector 'learned'"
    assert missing in refusal(parse_params, {"methods": {"crt": {}}})
    other = {"detectors": ["regex"], "conservative": "learned"}
    assert missing in refusal(parse_params, {"methods": {"crt": other}})
    assert missing in refusal(make_policy, ["regex", "learned"], threshold=0.3)
    Path("tuned").mkdir()
    Path("tuned/redactor.json").write_text("{}")
    assert missing in refusal(make_public_policy, "tuned")
    (method,) = parse_params({"methods": {"crt": {"detectors": ["regex"]}}}).chosen
    assert method.facts.extras == (("train",),)
    policy = make_policy(method.detectors, threshold=0.3)
    assert policy.redact(["Call 555-010-1234 today"]) == ["Call <MASK> today"]
"""
TRACKING = """
    import os
    from sugarbush.run.observers import StageExecution, observed, require_packages

    os.environ["OPENLINEAGE_URL"] = os.environ["MLFLOW_TRACKING_URI"] = "http://127.0.0.1:9"
    require_packages(Path())
    execution = StageExecution(stage="report", method=None, dataset="d", base=Path(), inputs=(),
                               outputs=(), published=Path("reports/public"))
    with observed(execution):
        pass
"""
BATCH_FILES = """
    import os
    import sugarbush as sb
    from sugarbush.generators.interface import GeneratorContext, RandomRequest
    from sugarbush.privacy.data_types import Released

    address = {"model": "MODEL", "base_url": os.environ["ADDRESS"], "key_variable": "THE_KEY"}
    missing = "no installed package provides mode=batch"
    assert missing in refusal(sb.OpenAI, **address, mode="batch")
    context = GeneratorContext(seed=1, state=Path("state"), account="letters", stage="evolve",
                               base=Path(), embed=None, say=print)
    requests = Released((RandomRequest(subject="letters to a shop", words=40, sample=0),), ("e",))
    generator = sb.OpenAI(**address, max_calls=9).open(context)
    (answer,) = generator.generate(requests).value
    assert answer.text, answer
    Path("state/batches").mkdir()
    Path("state/batches/b.json").write_text("{}")
    others = Released((RandomRequest(subject="letters to a shop", words=40, sample=1),), ("e",))
    assert "no installed package can collect the answers" in refusal(generator.generate, others)
"""


@dataclass(frozen=True, kw_only=True)
class Room:
    """An optional package, its entry point, and the program that uses Sugarbush without it.

    `importers` are the files that may import the package.
    """

    package: str
    group: str
    name: str
    program: str
    importers: frozenset[str] = field(default=frozenset())


ROOMS = [
    Room(
        package="redactor", group=DETECTORS, name="learned", program=REDACTOR,
        importers=frozenset({
            "sugarbush/__init__.py",  # for type checkers; the name is found when it is used
            "research/leakage/grid.py",  # only for a grid that names the detector
        }),
    ),
    Room(package="tracking", group=STAGE_OBSERVERS, name="tracking", program=TRACKING),
    Room(package="batch_files", group=CALL_MODES, name="batch", program=BATCH_FILES),
]  # fmt: skip
every_room = pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.package)


def copy_without(room: Room, target: Path) -> Path:
    """Copy Sugarbush without a room, with the entry points of all rooms."""
    shutil.copytree(
        ROOT / "sugarbush", target / "sugarbush", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.rmtree(target / "sugarbush" / room.package)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    info = target / "sugarbush-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sugarbush\nVersion: 0\n")
    lines = [
        line
        for group, points in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in points.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return target


def python(site: Path, *programs: str, **variables: str) -> str:
    """Run programs as one in an empty folder with the copy in `site`. Return the output."""
    home = site.parent / "home"
    home.mkdir(exist_ok=True)
    environment = os.environ | {"PYTHONPATH": str(site), "HOME": str(home)} | variables
    environment["SUGARBUSH_STATE"] = str(home / "state")
    finished = subprocess.run(
        [sys.executable, "-c", "".join(map(textwrap.dedent, [FIRST, *programs]))], cwd=home,
        env=environment, text=True, capture_output=True, timeout=900, check=False,
    )  # fmt: skip
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


@pytest.mark.slow
@every_room
def test_without_its_folder_all_else_works_and_one_message_says_what_is_missing(
    room: Room, tmp_path: Path
) -> None:
    site = copy_without(room, tmp_path / "site")
    python(site, IMPORT_ALL.replace("PACKAGE", room.package))
    assert "check" in python(site, HELP)
    with running(FaultServer()) as server:
        python(
            site, REFUSED, room.program.replace("MODEL", MODEL), ADDRESS=server.base_url,
            THE_KEY=KEY, NO_PROXY="*",
        )  # fmt: skip


@every_room
def test_an_entry_point_names_the_room(room: Room) -> None:
    assert room.name in plugin_names(room.group)


@every_room
def test_no_module_outside_the_folder_imports_it(room: Room) -> None:
    own = ROOT / "sugarbush" / room.package
    found = {
        str(path.relative_to(ROOT))
        for program in PROGRAMS
        for path in (ROOT / program).rglob("*.py")
        if not path.is_relative_to(own) and f"sugarbush.{room.package}" in imported(path)
    }
    assert found == room.importers


@cache
def imported(path: Path) -> set[str]:
    """Return the names of all imported modules, and of the packages that contain them."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    parts = [name.split(".") for name in names]
    return {".".join(each[:count]) for each in parts for count in range(1, len(each) + 1)}


def test_tracking_knows_neither_the_pipeline_nor_a_project() -> None:
    names = set().union(*map(imported, (ROOT / "sugarbush/tracking").glob("*.py")))
    packages = {name for name in names if name.startswith("sugarbush.") and name.count(".") == 1}
    assert packages == {"sugarbush.tracking", "sugarbush.extras"}
