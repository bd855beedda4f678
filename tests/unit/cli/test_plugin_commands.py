"""Tests that plug-ins add commands, and that the help stays cheap and complete."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.settings import ROOT

COMMANDS = (
    "init", "profile", "check", "run", "report", "publish", "settings", "budget", "estimate",
    "show", "cache", "clean", "audit", "redact", "train-redactor", "label", "app", "schema",
)  # fmt: skip
OPTIONAL = {"redactor": ("redact", "train-redactor", "label"), "app": ("app",)}
LIST = """
import sys
from typer.main import get_command
from sugarbush.cli.main import app
command = get_command(app)
print(*command.list_commands(None))
"""
# An editable installation finds modules of the checkout.
WITHOUT_CHECKOUT = """
import sys
sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in str(finder)]
"""
HEAVY = ("torch", "pandas", "numpy", "sugarbush.run.context", "sugarbush.app.server",
         "sugarbush.redactor.redaction")  # fmt: skip


def run(program: str, path: Path) -> subprocess.CompletedProcess[str]:
    """Run a program with the packages of `path`, and with its installed plug-ins."""
    environment = {"PYTHONPATH": str(path), "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-P", "-c", program]
    return subprocess.run(command, env=environment, text=True, capture_output=True, check=True)


def install(folder: Path, name: str, commands: Mapping[str, str]) -> None:
    """Write the metadata of an installed package with these commands."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [f"{command} = {function}\n" for command, function in commands.items()]
    (info / "entry_points.txt").write_text("".join(["[sugarbush.commands]\n", *lines]))


def test_commands_keep_their_order_and_the_list_imports_no_body() -> None:
    program = f"{LIST}print([name for name in {HEAVY} if name in sys.modules])"
    commands, heavy = run(program, ROOT).stdout.splitlines()
    assert tuple(commands.split()) == COMMANDS
    assert heavy == "[]"


@pytest.mark.parametrize("folder", OPTIONAL)
def test_commands_of_a_missing_folder_are_not_listed(tmp_path: Path, folder: str) -> None:
    ignored = shutil.ignore_patterns("__pycache__", folder)
    shutil.copytree(ROOT / "sugarbush", tmp_path / "sugarbush", ignore=ignored)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    install(tmp_path, "sugarbush", project["entry-points"]["sugarbush.commands"])
    listed = run(WITHOUT_CHECKOUT + LIST, tmp_path)
    assert listed.stdout.split() == [name for name in COMMANDS if name not in OPTIONAL[folder]]
    assert not listed.stderr


def test_another_package_adds_a_command_before_the_groups(tmp_path: Path) -> None:
    (tmp_path / "guest.py").write_text("def greet(name: str) -> None:\n    print('Hello', name)\n")
    install(tmp_path, "guest", {"greet": "guest:greet"})
    path = Path(f"{ROOT}:{tmp_path}")
    assert run(LIST, path).stdout.split() == [*COMMANDS[:-1], "greet", "schema"]
    called = run("from sugarbush.cli.main import app; app(['greet', 'Ann'])", path)
    assert called.stdout == "Hello Ann\n"


def test_a_command_that_cannot_be_imported_hides_no_other_one(tmp_path: Path) -> None:
    install(tmp_path, "guest", {"greet": "no_such_module:greet"})
    listed = run(LIST, Path(f"{ROOT}:{tmp_path}"))
    assert tuple(listed.stdout.split()) == COMMANDS
    assert "the command 'greet' of guest cannot be imported" in listed.stderr
