"""Tests that no modules of the package import one another in a circle.

Imports in functions and for type checkers count too: two modules of a circle cannot be understood,
tested or moved apart.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import networkx as nx
import pytest

import sugarbush

PACKAGE = Path(str(sugarbush.__file__)).parent
# Circles that exist. A module of another package must not join them.
EXEMPT: tuple[str, ...] = ()


def modules(package: Path) -> dict[str, Path]:
    """Return the file of each module of a package by the module's name."""
    found = {}
    for path in package.rglob("*.py"):
        parts = path.relative_to(package.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(path: Path, names: Mapping[str, Path]) -> Iterator[str]:
    """Yield the modules among `names` that a file imports anywhere."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in names)
        elif isinstance(node, ast.ImportFrom):
            assert node.module and not node.level, f"{path}: a relative import"
            for alias in node.names:
                submodule = f"{node.module}.{alias.name}"
                if (name := submodule if submodule in names else node.module) in names:
                    yield name


def circles(package: Path) -> list[list[str]]:
    """Return the modules of each circle of imports: the strongly connected components."""
    names, graph = modules(package), nx.DiGraph()
    for name, path in names.items():
        graph.add_edges_from((name, other) for other in imports(path, names) if other != name)
    components = nx.strongly_connected_components(graph)
    return sorted(sorted(each) for each in components if len(each) > 1)


def test_no_modules_import_one_another() -> None:
    found = [
        circle for circle in circles(PACKAGE) if not all(name.startswith(EXEMPT) for name in circle)
    ]
    assert not found


@pytest.mark.parametrize(
    "line",
    [
        "import shop.second",
        "from shop import second",
        "from shop.second import value",
        "def late():\n    from shop.second import value",
        "if TYPE_CHECKING:\n    from shop.second import value",
    ],
)
def test_a_circle_is_seen(tmp_path: Path, line: str) -> None:
    package = tmp_path / "shop"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "first.py").write_text(line)
    (package / "second.py").write_text("import shop.third")
    (package / "third.py").write_text("import shop.first")
    assert circles(package) == [["shop.first", "shop.second", "shop.third"]]
    (package / "third.py").write_text("import json")
    assert circles(package) == []
