"""Tests that only the modules listed in `audited` open private data or make released values.

The tests read the source code, and also find indirect ways. So a reviewer only has to read the
listed modules.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from sugarbush.privacy import noise
from tests.settings import ROOT
from tests.unit import audited

STORE, PATHS = "sugarbush.data.private_store", "sugarbush.paths"
CLEANER = "sugarbush.cli.cleaning"


@cache
def modules() -> dict[str, ast.Module]:
    """Return the syntax trees of all modules that run in a project, by module name."""
    files = [p for folder in ("sugarbush", "tasks", "flows") for p in (ROOT / folder).rglob("*.py")]
    return {_name(path): ast.parse(path.read_text()) for path in sorted(files)}


def _name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def modules_with(found: type[ast.AST], test: object) -> set[str]:
    """Return the names of modules with a node of type `found` for which `test` returns true."""
    assert callable(test)
    return {
        name
        for name, tree in modules().items()
        if any(isinstance(node, found) and test(node) for node in ast.walk(tree))
    }


def _called(node: ast.Call) -> str:
    return ast.unparse(node.func).partition("[")[0].rpartition(".")[2]


def test_everything_is_read() -> None:
    assert {STORE, PATHS, "tasks.evolve", "flows.pipeline"} <= set(modules())


def test_the_private_root_is_handed_to_the_private_store_alone() -> None:
    for name, tree in modules().items():
        handed = {
            id(argument)
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and _called(node) == "PrivateStore"
            for argument in node.args
        }
        if name == CLEANER:
            calls = [_called(node) for node in ast.walk(tree) if isinstance(node, ast.Call)]
            assert not {"open", "read_bytes"} & set(calls), "removes, and opens nothing"
            assert calls.count("read_text") == 1  # params.yaml
            assert "(base / FILE).read_text(" in ast.unparse(tree)
            continue
        for node in _private_roots(tree):
            assert id(node) in handed, f"{name}, line {node.lineno}: uses the private root"


def _private_roots(tree: ast.Module) -> Iterator[ast.Attribute]:
    """Return the uses of data/private: `roots.private`, `project.roots.private` and
    `Roots(...).private`.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "private":
            owner = ast.unparse(node.value)
            if owner.rpartition(".")[2] == "roots" or owner.startswith("Roots("):
                yield node


def test_the_private_store_is_made_by_the_project_and_the_reader_of_results() -> None:
    makers = modules_with(ast.Call, lambda node: _called(node) == "PrivateStore")
    assert makers == {"sugarbush.run.inputs", "sugarbush.release.folders"}


def test_nobody_spells_the_private_root() -> None:
    for name, tree in modules().items():
        if name in {STORE, PATHS}:
            continue
        docstrings = {id(text) for text in _docstrings(tree)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                spelled = "data/private" in node.value and id(node) not in docstrings
                assert not spelled, f"{name}, line {node.lineno}: spells the private root"
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
                right = node.right
                joined = isinstance(right, ast.Constant) and right.value == "private"
                assert not joined, f"{name}, line {node.lineno}: joins the private root"


def _docstrings(tree: ast.Module) -> Iterator[ast.Constant]:
    """Return every string that is a separate statement: all docstrings, also those of fields."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.value


def test_released_values_are_built_where_listed() -> None:
    built = modules_with(ast.Call, lambda node: _called(node) == "Released")
    assert built == set(audited.BUILDS_RELEASED)


def test_sessions_on_prepared_records_have_one_constructor() -> None:
    built = modules_with(ast.Call, lambda node: _called(node) == "PrivacySession")
    assert built == set(audited.BUILDS_SESSIONS)


def test_private_values_are_opened_where_listed() -> None:
    opened = modules_with(ast.Attribute, lambda node: node.attr == "_per_unit")
    assert opened == set(audited.OPENS_PRIVATE)


def test_real_texts_are_opened_where_listed() -> None:
    opened = modules_with(ast.Attribute, lambda node: node.attr == "real_texts")
    assert opened | {STORE} == set(audited.OPENS_REAL_TEXTS)


def test_paths_of_private_records_are_asked_for_where_listed() -> None:
    named = modules_with(ast.Attribute, lambda node: node.attr in {"prepared_file", "codes_file"})
    assert named == set(audited.NAMES_PRIVATE_FILES)


def test_remote_files_are_opened_where_listed() -> None:
    systems = {"fsspec", "s3fs", "boto3", "smart_open", "sqlalchemy", "psycopg", "asyncpg"}
    found = modules_with(
        ast.Import, lambda node: any(a.name.partition(".")[0] in systems for a in node.names)
    ) | modules_with(ast.ImportFrom, lambda node: (node.module or "").partition(".")[0] in systems)
    assert found == set(audited.OPENS_REMOTE_FILES)


def test_noise_is_imported_where_listed() -> None:
    found = {}
    for name, tree in modules().items():
        names = [
            alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module == noise.__name__
            for alias in node.names
        ]
        if names:
            found[name] = tuple(names)
    assert found == audited.IMPORTS_NOISE


def test_the_module_of_noise_is_imported_by_name_only() -> None:
    """If a module imported all of `noise`, its imports would not show which functions it calls."""
    for name, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                assert noise.__name__ not in {alias.name for alias in node.names}, name
            if isinstance(node, ast.ImportFrom) and node.module == "sugarbush.privacy":
                assert "noise" not in {alias.name for alias in node.names}, name
