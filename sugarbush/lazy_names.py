"""Imports the public names of a package when they are first used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazy_names(package: str, modules: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """Return a module's `__getattr__`.

    `modules` maps each submodule to its public names. An entry `name=other` publishes the
    submodule's `name` as `other`.
    """
    sources: dict[str, tuple[str, str]] = {}
    for module, names in modules.items():
        for entry in names:
            name, _, public = entry.partition("=")
            sources[public or name] = (f"{package}.{module}", name)

    def find(name: str) -> Any:
        if name == "__all__":
            return sorted(sources)
        if name not in sources:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, attribute = sources[name]
        value = getattr(import_module(module), attribute)
        setattr(sys.modules[package], name, value)
        return value

    return find
