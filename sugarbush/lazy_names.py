"""Imports the public names of a package when they are first used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from sugarbush.optional_packages import is_present


def lazy_names(package: str, modules: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """Return a module's `__getattr__`.

    `modules` maps each submodule to its public names. An entry `name=other` publishes the
    submodule's `name` as `other`. A name of an optional package that is not here is not in
    `__all__`, and its use raises AttributeError.
    """
    sources: dict[str, tuple[str, str]] = {}
    for module, names in modules.items():
        for entry in names:
            name, _, public = entry.partition("=")
            sources[public or name] = (f"{package}.{module}", name)

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
