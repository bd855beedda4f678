"""Tests of the pages of the documentation: the sidebar, and the messages of troubleshooting.md."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.settings import ROOT

DOCS = ROOT / "docs"
MOST_ENTRIES = 10  # of one level of the sidebar
NOT_IN_THE_SITE = ("log", "pages")  # the measurements, which only the repository has


def navigation() -> list[Any]:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    entries: list[Any] = yaml.safe_load(text)["nav"]
    return entries


def groups(entries: list[Any], name: str = "top") -> Iterator[tuple[str, list[Any]]]:
    yield name, entries
    for entry in entries:
        if isinstance(entry, dict):
            ((title, content),) = entry.items()
            if isinstance(content, list):
                yield from groups(content, title)


def pages(entries: list[Any]) -> Iterator[str]:
    for _, group in groups(entries):
        for entry in group:
            content = next(iter(entry.values())) if isinstance(entry, dict) else entry
            if isinstance(content, str):
                yield content


def test_the_sidebar_has_four_groups_and_no_long_list() -> None:
    assert [next(iter(entry)) for entry in navigation()] == [
        "Start", "How to", "Reference", "Background"
    ]  # fmt: skip
    for name, group in groups(navigation()):
        # The records of decisions are in closed groups, by subject.
        within = [each for each in group if not str(each).startswith("decisions/")]
        assert len(within) <= MOST_ENTRIES, name


def test_each_page_is_in_the_sidebar_once() -> None:
    files = sorted(
        path.relative_to(DOCS).as_posix()
        for path in DOCS.rglob("*.md")
        if not path.relative_to(DOCS).as_posix().startswith(NOT_IN_THE_SITE)
    )
    assert sorted(pages(navigation())) == files


def source_strings() -> str:
    """Return the texts in the sources of the package. A value in an f-string becomes `...`."""
    found = []
    for path in (ROOT / "sugarbush").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts = (
                    each.value if isinstance(each, ast.Constant) else "..." for each in node.values
                )
                found.append("".join(map(str, parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return "\n".join(found)


MESSAGES = re.findall(
    r"^\| `([^`]+)` \|", (DOCS / "troubleshooting.md").read_text(encoding="utf-8"), re.MULTILINE
)


@pytest.fixture(scope="module")
def sources() -> str:
    return source_strings()


def test_the_page_lists_messages() -> None:
    assert len(MESSAGES) >= 20


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_of_the_page_is_a_message_of_the_package(message: str, sources: str) -> None:
    """Each `...` may be several values and the words between them."""
    pieces = [re.escape(piece) for piece in message.split("...") if piece.strip()]
    assert re.search(r"[^\n]*?".join(pieces), sources), message
