"""The methods of synthesis. Other packages add methods by entry points of `sugarbush.methods`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sugarbush.errors import ParamsError
from sugarbush.registry import METHODS, load_plugin

if TYPE_CHECKING:
    from sugarbush.methods.interface import Method


def method_class(name: str) -> type[Method]:
    """Load the class of a method. If `name` is unknown, a ParamsError lists the known names."""
    method: type[Method] = load_plugin(METHODS, name)
    if getattr(method, "name", None) != name:
        raise ParamsError(f"the plug-in of method '{name}' names itself {method.name!r}")
    return method
