"""Tests of the three files that pin the versions of all dependencies."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tests.settings import ROOT

ORDINARY, NEWEST, SMARTNOISE = FILES = (
    "constraints.txt",
    "constraints-newest.txt",
    "constraints-smartnoise.txt",
)
OF_TORCH = re.compile(r"torch|triton|nvidia-.*|cuda-.*")


def pinned(file: str) -> list[Requirement]:
    return [Requirement(line) for line in (ROOT / file).read_text().splitlines()]


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(*extras: str) -> Iterator[Requirement]:
    """Yield the dependencies of the package and of extras, also of extras that an extra names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [*project["dependencies"]]
    waiting = [*extras]
    while waiting:
        for line in project["optional-dependencies"][waiting.pop()]:
            requirement = Requirement(line)
            if requirement.name == "sugarbush":
                waiting += requirement.extras
            else:
                lines.append(line)
    yield from map(Requirement, lines)


@pytest.mark.parametrize("file", FILES)
def test_a_file_of_constraints_names_no_place_and_no_wheel_of_one_machine(file: str) -> None:
    for requirement in pinned(file):
        assert requirement.url is None and not requirement.extras
        (specifier,) = requirement.specifier
        assert specifier.operator == "==" and "+" not in specifier.version, requirement


def test_the_ordinary_environment_is_the_newest_except_for_torch() -> None:
    one, other = (
        {str(r) for r in pinned(file) if not OF_TORCH.fullmatch(canonical(r.name))}
        for file in (ORDINARY, NEWEST)
    )
    assert one == other


@pytest.mark.parametrize(
    ("file", "extras"),
    [
        (ORDINARY, ("dev", "all", "track", "docs")),
        (NEWEST, ("dev", "all", "track", "docs")),
        (SMARTNOISE, ("smartnoise",)),
    ],
)
def test_every_declared_dependency_is_pinned_to_a_version_that_it_allows(
    file: str, extras: tuple[str, ...]
) -> None:
    versions: dict[str, set[str]] = {}
    for requirement in pinned(file):
        (specifier,) = requirement.specifier
        versions.setdefault(canonical(requirement.name), set()).add(specifier.version)
    for requirement in declared(*extras):
        found = versions.get(canonical(requirement.name), set())
        assert found, f"{file} lacks {requirement.name}. Write the files again: make constraints"
        assert all(requirement.specifier.contains(v, prereleases=True) for v in found), requirement


def test_no_environment_has_a_release_candidate() -> None:
    """uv chooses one without a word if the versions of other packages exclude every release."""
    versions = [(r, Version(s.version)) for f in FILES for r in pinned(f) for s in r.specifier]
    assert not [str(requirement) for requirement, v in versions if v.pre and v.pre[0] == "rc"]


def test_the_lowest_torch_that_is_allowed_is_tested() -> None:
    (torch,) = (r for r in declared() if r.name == "torch")
    (lowest,) = (s.version for s in torch.specifier if s.operator == ">=")
    (tested,) = (r for r in pinned(ORDINARY) if r.name == "torch")
    (specifier,) = tested.specifier
    assert specifier.version.startswith(f"{lowest}.")
