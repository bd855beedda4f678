"""The methods of synthesis, one file each. Entry points in group `sugarbush.methods` add others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sugarbush.errors import ParamsError
from sugarbush.registry import METHODS, load_plugin

if TYPE_CHECKING:
    from sugarbush.methods.interface import Method


def method_class(name: str) -> type[Method]:
    """Load the class of a method. Raises ParamsError with the known names if `name` is unknown."""
    found: type[Method] = load_plugin(METHODS, name)
    if getattr(found, "name", None) != name:
        raise ParamsError(f"the plug-in of method '{name}' has another name: {found.name!r}")
    return found
