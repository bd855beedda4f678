"""Computes a digest of the code that stages run, also of the packages with plug-ins."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from sugarbush.registry import (
    DETECTORS,
    ENCODERS,
    FORMATS,
    GENERATORS,
    METHODS,
    METRICS,
    packages_of,
)


def code_digest() -> str:
    """Return a digest of all files of Sugarbush and of the packages with plug-ins, and of the
    versions of these packages.

    A list of the modules that a stage uses would be wrong after the next import. Almost every stage
    uses almost every module, so one digest makes no more stages stale than exact lists would.
    """
    plugins = {
        module: package
        for group in (GENERATORS, METHODS, ENCODERS, METRICS, DETECTORS, FORMATS)
        for module, package in packages_of(group).items()
    }
    whole = hashlib.sha256(json.dumps(plugins, sort_keys=True).encode())
    for module in sorted({"sugarbush", *plugins}):
        for name, path in sorted(_files(module)):
            content = path.read_bytes()
            whole.update(f"{module} {name} {len(content)}\0".encode() + content)
    return whole.hexdigest()[:16]


def _files(module: str) -> Iterator[tuple[str, Path]]:
    """Yield each file of a module or package with its name there: code, templates, word lists."""
    spec = find_spec(module)
    if spec is None:
        return
    for folder in map(Path, spec.submodule_search_locations or ()):
        for path in folder.rglob("*"):
            name = path.relative_to(folder)
            hidden = any(each.startswith((".", "__pycache__")) for each in name.parts)
            if path.is_file() and not hidden:
                yield name.as_posix(), path
    if spec.submodule_search_locations is None and spec.origin is not None:
        yield Path(spec.origin).name, Path(spec.origin)
