"""Finds out which optional packages of Sugarbush are here, because each of them may be deleted."""

from __future__ import annotations

from importlib.util import find_spec


def is_present(module: str) -> bool:
    """Return whether the package of Sugarbush that contains `module` is here. Nothing is imported.

    A folder that contains only caches is no package. A module of another package is always
    present, because its import says best what is missing.

    >>> is_present("sugarbush.registry"), is_present("sugarbush.deleted.module")
    (True, False)
    """
    top, _, rest = module.partition(".")
    if top != "sugarbush":
        return True
    spec = find_spec(f"{top}.{rest.partition('.')[0]}")
    return spec is not None and spec.origin is not None
