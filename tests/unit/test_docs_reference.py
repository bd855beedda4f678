"""Tests that docs/reference/api.md shows every public name of `sugarbush` with its signature.

mkdocstrings reads the source with griffe and imports nothing. So the tests read the page in the
same way, and compare the signatures with those of the imported names.
"""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import griffe
import pytest

import sugarbush as sb
from tests.settings import ROOT

PAGE = (ROOT / "docs/reference/api.md").read_text(encoding="utf-8")
ENTRY = re.compile(r"^::: (?P<path>[\w.]+)(?:\n +options:\n +heading: (?P<heading>[\w.]+))?", re.M)
PATHS = {
    (m["heading"] or m["path"]).removeprefix("sugarbush."): m["path"] for m in ENTRY.finditer(PAGE)
}


@pytest.fixture(scope="module")
def package() -> griffe.Module:
    extensions = griffe.load_extensions(ROOT / "docs/show_examples.py")
    loaded = griffe.load("sugarbush", search_paths=[ROOT], extensions=extensions)
    assert isinstance(loaded, griffe.Module)
    return loaded


def parameters_shown(package: griffe.Module, name: str) -> list[str]:
    entry: Any = package[PATHS[name].removeprefix("sugarbush.")]
    if entry.is_alias:
        entry = entry.final_target
    function = entry if entry.is_function else entry.all_members["__init__"]
    return [each.name for each in function.parameters if each.name != "self"]


def test_the_page_has_one_entry_for_each_public_name() -> None:
    assert len(list(ENTRY.finditer(PAGE))) == len(sb.__all__)
    assert sorted(PATHS) == sb.__all__


def test_a_class_is_shown_with_its_arguments() -> None:
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert "merge_init_into_class: true" in settings


@pytest.mark.slow
@pytest.mark.parametrize("name", sb.__all__)
def test_an_entry_has_a_docstring_and_the_signature_of_the_name(
    name: str, package: griffe.Module
) -> None:
    value = getattr(sb, name)
    entry = package[PATHS[name].removeprefix("sugarbush.")]
    assert entry.docstring is not None
    if is_plain_error(value):
        return
    assert parameters_shown(package, name) == list(inspect.signature(value).parameters)


def is_plain_error(value: Any) -> bool:
    """Return whether it is an exception or a warning without arguments of its own."""
    plain = (Exception.__init__, UserWarning.__init__)
    return inspect.isclass(value) and value.__init__ in plain


@pytest.mark.slow
@pytest.mark.skipif(find_spec("mkdocstrings") is None, reason="the extra `docs` is not installed")
def test_the_site_builds_and_shows_every_entry_with_a_signature(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    page = (tmp_path / "reference/api.html").read_text(encoding="utf-8")
    entries = re.split(r'<h2 id="(sugarbush\.[\w.]+)"', page)
    shown = dict(zip(entries[1::2], entries[2::2], strict=True))
    assert sorted(shown) == sorted(PATHS.values())
    for name, path in PATHS.items():
        if not is_plain_error(getattr(sb, name)):
            assert "doc-signature" in shown[path].partition("<h3")[0], name
