"""Tests that code that comes with a model is never run. The tests read our source code."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.settings import ROOT

# These calls load a model, a tokenizer, an encoder or a configuration. They could run code that
# comes with a model.
LOADS = {"from_pretrained", "from_config", "SentenceTransformer", "CrossEncoder", "SparseEncoder"}
# Functions of transformers and datasets, called by their name alone or through the library's name.
LIBRARY_LOADS = {"pipeline", "load_dataset", "AutoModel", "AutoProcessor"}
LIBRARIES = {"transformers", "datasets", "sentence_transformers"}


def loads(tree: ast.Module) -> Iterator[ast.Call]:
    """Return every call that loads a model by name or path.

    `snapshot_download` is not included, because it only copies files. Another call loads them.
    """
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in LIBRARIES
        for alias in node.names
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        owner, _, name = called.rpartition(".")
        of_library = owner.split(".")[0] in LIBRARIES or (not owner and name in imported)
        if name in LOADS or (name in LIBRARY_LOADS and of_library):
            yield node


def refuses_code(call: ast.Call) -> bool:
    """Return whether the call has `trust_remote_code=False`, and no `**` that could change it."""
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    value = given.get("trust_remote_code")
    return isinstance(value, ast.Constant) and value.value is False and None not in given


def test_every_load_in_the_package_refuses_code_that_comes_with_a_model() -> None:
    found = {
        f"{path.relative_to(ROOT)}:{call.lineno}": refuses_code(call)
        for path in sorted((ROOT / "sugarbush").rglob("*.py"))
        for call in loads(ast.parse(path.read_text()))
    }
    assert len(found) >= 9
    assert [place for place, refuses in found.items() if not refuses] == []


@pytest.mark.parametrize(
    ("line", "refuses"),
    [
        ("AutoModel.from_pretrained(name)", [False]),
        ("AutoModel.from_pretrained(name, trust_remote_code=False)", [True]),
        ("AutoModel.from_pretrained(name, trust_remote_code=trust)", [False]),
        ("AutoModel.from_pretrained(name, trust_remote_code=False, **more)", [False]),
        ("transformers.pipeline('ner', model=name)", [False]),
        ("from transformers import pipeline\npipeline('ner')", [False]),
        ("sentence_transformers.SentenceTransformer(name)", [False]),
        ("pipeline()", []),
    ],
)
def test_a_load_is_recognised(line: str, refuses: list[bool]) -> None:
    assert [refuses_code(call) for call in loads(ast.parse(line))] == refuses
