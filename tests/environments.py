"""Makes environments that contain exactly what `pip install '.[EXTRA]'` would install.

The packages are links to the packages of the environment that runs the tests, so no network is
needed. Only distributions are linked that the core or an extra requires, directly or through other
distributions. Every other installed package is missing, as in an empty environment.
"""

from __future__ import annotations

import re
import subprocess
import sysconfig
import tomllib
import venv
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import Distribution, distribution, distributions
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.settings import ROOT

TINY_ENCODER = ROOT / "tests" / "plugins"  # on PYTHONPATH, it adds the encoder `tiny`
_NAME = "sugarbush"
_COMMAND = "from sugarbush.cli.main import app; app(prog_name='sugarbush')"
_METADATA = f"{_NAME}-0.dist-info"
_NEITHER = re.compile(r"__pycache__|\.pth$|^\.\.")  # bytecode, hooks, scripts: not linked


def declared() -> dict[str, Any]:
    """Return the section `project` of pyproject.toml."""
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return project


def closure(*extras: str) -> dict[str, Distribution]:
    """Return the distributions that `pip install '.[extras]'` needs, by their names.

    The test fails if a distribution is not installed here, or if its version does not satisfy a
    requirement. The exception are the overrides of uv in pyproject.toml.
    """
    found: dict[str, Distribution] = {}
    overrides = {canonicalize_name(each.name): each for each in _overrides()}
    waiting = [(_NAME, Requirement(line)) for line in _lines(extras)]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        needed_by, requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if name == _NAME or (name, frozenset(requirement.extras)) in seen:
            continue
        seen.add((name, frozenset(requirement.extras)))
        found[name] = distribution(name)
        asked = overrides.get(name, requirement).specifier
        assert asked.contains(found[name].version, prereleases=True), (
            f"{needed_by} needs {requirement}, and {found[name].version} is installed"
        )
        waiting += [
            (name, each)
            for each in map(Requirement, found[name].requires or ())
            if _applies(each, requirement.extras)
        ]
    return found


def _overrides() -> Iterator[Requirement]:
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    return map(Requirement, tool["uv"]["override-dependencies"])


def _lines(extras: Iterable[str]) -> list[str]:
    project = declared()
    optional = project["optional-dependencies"]
    return project["dependencies"] + [line for extra in extras for line in optional[extra]]


def _applies(requirement: Requirement, extras: Iterable[str]) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras))


@dataclass(frozen=True)
class Environment:
    """A virtual environment in `folder` with the package of this checkout."""

    folder: Path

    def python(
        self, *arguments: str, cwd: Path, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run its Python in the folder `cwd`, which is also the home folder."""
        own = {
            "PATH": f"{self.folder}/bin:/usr/bin:/bin",
            "HOME": str(cwd),
            "SUGARBUSH_STATE": str(cwd / "state"),
            "PYTHONPATH": str(TINY_ENCODER),
            "HF_HUB_OFFLINE": "1",
            "DO_NOT_TRACK": "1",
            "DVC_NO_ANALYTICS": "1",
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "OMP_NUM_THREADS": "1",
            **variables,
        }
        command = [str(self.folder / "bin" / "python"), *arguments]
        return subprocess.run(
            command, cwd=cwd, env=own, text=True, capture_output=True, check=False
        )

    def sugarbush(
        self, *arguments: str, cwd: Path, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run the command `sugarbush`."""
        return self.python("-c", _COMMAND, *arguments, cwd=cwd, **variables)


def environment_with(folder: Path, *extras: str) -> Environment:
    """Make an environment with the core and the extras in `folder`."""
    venv.EnvBuilder(symlinks=True, with_pip=False).create(folder)
    versions = f"python{sysconfig.get_python_version()}"
    packages = folder / "lib" / versions / "site-packages"
    for found in closure(*extras).values():
        _link(found, packages)
    (packages / _NAME).symlink_to(ROOT / _NAME)
    metadata = packages / _METADATA
    metadata.mkdir()
    project = declared()
    (metadata / "METADATA").write_text(f"Name: {_NAME}\nVersion: {project['version']}\n")
    (metadata / "entry_points.txt").write_text("\n".join(_entry_points(project)))
    return Environment(folder)


def _entry_points(project: dict[str, Any]) -> Iterator[str]:
    for group, entries in project["entry-points"].items():
        yield f"[{group}]"
        yield from (f"{name} = {value}" for name, value in entries.items())


def _link(found: Distribution, packages: Path) -> None:
    """Link the files of a distribution: a whole folder, unless other distributions share it."""
    owners, root = _owners(), Path(str(found.locate_file("")))
    linked = {file if owners[top] > 1 else top for file, top in _files(found)}
    for name in sorted(linked):
        link = packages / name
        if (root / name).exists() and not link.exists():
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(root / name)


def _files(found: Distribution) -> Iterator[tuple[str, str]]:
    """Yield the path of each installed file, and its first folder."""
    for line in (found.read_text("RECORD") or "").splitlines():
        file = line.rsplit(",", 2)[0].strip('"')
        if not _NEITHER.search(file):
            yield file, file.partition("/")[0]


@cache
def _owners() -> Counter[str]:
    """Count the installed distributions with files in each folder of site-packages."""
    return Counter(top for each in distributions() for top in {top for _, top in _files(each)})
