"""Imports the public names of a package when they are first used."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from inspect import getsource
from typing import Any

from sugarbush.optional_packages import is_present


def lazy_names(package: str) -> Callable[[str], Any]:
    """Return a module's `__getattr__`. The public names are those of its block `if TYPE_CHECKING`.

    `from module import name as name` publishes a name, and `other = name` publishes an imported
    name as `other`. So the program and type checkers read one list. A name of an optional package
    that is not here is not in `__all__`, and its use raises AttributeError.
    """
    sources = dict(_sources(ast.parse(getsource(sys.modules[package]))))

    def find(name: str) -> Any:
        if name == "__all__":
            return sorted(name for name, (module, _) in sources.items() if is_present(module))
        if name not in sources:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, attribute = sources[name]
        if not is_present(module):
            raise AttributeError(f"{package}.{name} needs the module {module}, which is not here")
        value = getattr(import_module(module), attribute)
        setattr(sys.modules[package], name, value)
        return value

    return find


def _sources(tree: ast.Module) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield each public name, with its module and its name there."""
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    renamed = {}
    for node in block.body:
        match node:
            case ast.ImportFrom(module=str(module), names=names):
                for alias in names:
                    renamed[alias.asname or alias.name] = (module, alias.name)
                    if alias.asname == alias.name:
                        yield alias.name, (module, alias.name)
            case ast.Assign(targets=[ast.Name(public)], value=ast.Name(name)):
                yield public, renamed[name]
