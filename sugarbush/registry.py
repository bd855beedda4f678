"""Plug-ins by name: generators, methods, formats, metrics, and the optional packages.

A package registers a plug-in as an entry point of one of the groups below. The built-in generators,
methods and formats are registered in the same way, in Sugarbush's own pyproject.toml:

    [project.entry-points."sugarbush.generators"]
    parrot = "my_package.parrot:Parrot"

Sugarbush registers its own optional packages in the same way, and no other module imports them.
Without the folder of such a package, its plug-ins are not installed.
"""

from __future__ import annotations

import re
import sys
from functools import lru_cache
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from typing import Any

from sugarbush.errors import ParamsError
from sugarbush.optional_packages import is_present

GENERATORS = "sugarbush.generators"
METHODS = "sugarbush.methods"
ENCODERS = "sugarbush.encoders"
METRICS = "sugarbush.metrics"
COMMANDS = "sugarbush.commands"
DETECTORS = "sugarbush.detectors"
CALL_MODES = "sugarbush.call_modes"
STAGE_OBSERVERS = "sugarbush.stage_observers"
FORMATS = "sugarbush.formats"

_OF_THIS_PROCESS: dict[tuple[str, str], Any] = {}


def use_class(group: str, name: str, plugin: Any) -> None:
    """Use a class under `name` in this process, for example a method in a notebook.

    Nothing happens if an installed package registers this class. Raises ParamsError for another
    name than a short one of a-z, 0-9, '_' and '-', or if a package registers another class under
    this name.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_-]{0,40}", name):
        raise ParamsError(
            f"{plugin.__name__}: `name` must be a short name of a-z, 0-9, '_', '-', such as joint"
        )
    installed = _entry_points(group, tuple(sys.path)).select(name=name)
    if not installed:
        _OF_THIS_PROCESS[group, name] = plugin
    elif load_plugin(group, name) is not plugin:
        raise ParamsError(
            f"{_package(next(iter(installed)))} has another plug-in named '{name}'. Give yours "
            "another name"
        )


def plugin_names(group: str) -> tuple[str, ...]:
    """Return the sorted names that are registered in `group`, without loading a plug-in."""
    here = {name for kind, name in _OF_THIS_PROCESS if kind == group}
    return tuple(sorted(_entry_points(group, tuple(sys.path)).names | here))


def package_of(group: str, name: str) -> str | None:
    """Return name and version of the package that registers `name`, or None for Sugarbush."""
    if (group, name) in _OF_THIS_PROCESS:
        return f"{_OF_THIS_PROCESS[group, name].__module__} uninstalled"
    entry_point = next(iter(_entry_points(group, tuple(sys.path)).select(name=name)), None)
    if entry_point is None or entry_point.dist is None or entry_point.dist.name == "sugarbush":
        return None
    return f"{entry_point.dist.name} {entry_point.dist.version}"


def packages_of(group: str) -> dict[str, str | None]:
    """Map the top-level module of each plug-in of `group` to name and version of its package."""
    plugins = _entry_points(group, tuple(sys.path))
    return {each.module.partition(".")[0]: package_of(group, each.name) for each in plugins}


def load_plugin(group: str, name: str) -> Any:
    """Load the object that is registered as `name` in `group`.

    Raises ParamsError if the object cannot be imported, or if the number of packages that register
    the name is not 1.

    >>> load_plugin("sugarbush.generators", "simulator").name
    'simulator'
    """
    if (group, name) in _OF_THIS_PROCESS:
        return _OF_THIS_PROCESS[group, name]
    kind = group.rpartition(".")[2].removesuffix("s").replace("_", " ")
    candidates = tuple(_entry_points(group, tuple(sys.path)).select(name=name))
    if not candidates:
        names = ", ".join(plugin_names(group)) or "none"
        raise ParamsError(
            f"'{name}' is not an installed {kind}. Known: {names}. Other packages add a {kind} as "
            f"an entry point of the group '{group}'."
        )
    if len(candidates) > 1:
        packages = " and ".join(sorted(map(_package, candidates)))
        raise ParamsError(
            f"{packages} both register a {kind} named '{name}'. Uninstall a package, or rename "
            "its entry point."
        )
    try:
        return candidates[0].load()
    except (ImportError, AttributeError) as error:
        raise ParamsError(
            f"the {kind} '{name}' of {_package(candidates[0])} cannot be imported: {error}"
        ) from None


@lru_cache(maxsize=16)
def _entry_points(group: str, path: tuple[str, ...]) -> EntryPoints:
    """Find the entry points on `path`. Cached, because a search reads every installed package."""
    return EntryPoints(each for each in entry_points(group=group) if is_present(each.module))


def _package(entry_point: EntryPoint) -> str:
    return entry_point.dist.name if entry_point.dist is not None else entry_point.value
