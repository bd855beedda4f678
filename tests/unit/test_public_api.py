"""Tests of the public names of `sugarbush`.

The list of names is complete, each name has an example that runs, and the import is quick.
"""

from __future__ import annotations

import ast
import doctest
import inspect
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import sugarbush as sb
from tests.settings import ROOT

# The names without an example, and the reasons.
WITHOUT_EXAMPLE = {
    "Artifacts": "reads the folder of a finished run; docs/inspect.ipynb shows it",
    "BudgetExceededError": "an error",
    "Corpus": "made by prepare",
    "Evaluation": "made by evaluate",
    "GeneratorError": "an error",
    "InputError": "an error",
    "LedgerError": "an error",
    "MethodInputs": "made by the pipeline; docs/how-to/add-a-method.md shows it",
    "ParamsError": "an error",
    "Profile": "made by profile",
    "PrivacyError": "an error",
    "PrivateModel": "made by train_dpsgd",
    "Redaction": "made by redact",
    "Release": "made by synthesize",
    "PrivateFactWarning": "a warning",
    "SchemaError": "an error",
    "SugarbushError": "an error",
    "train_dpsgd": "needs a language model; docs/how-to/python-api.md shows it",
}
# Packages that only some calls need, so importing a name must not load them.
HEAVY = {"torch", "transformers", "sentence_transformers", "openai", "dvc", "prefect", "sklearn"}
(_GUARDED,) = (
    node for node in ast.parse(Path(str(sb.__file__)).read_text()).body if isinstance(node, ast.If)
)
FOR_TYPE_CHECKERS = [node for node in _GUARDED.body if isinstance(node, ast.ImportFrom)]
FURTHER_EXAMPLES = (
    "sugarbush.arguments",
    "sugarbush.html_table",
    "sugarbush.optional_packages",
    "sugarbush.preparation.findings",
    "sugarbush.privacy.mechanisms",
    "sugarbush.registry",
    "sugarbush.report.downloads",
    "sugarbush.report.quality",
    "sugarbush.report.statements",
)
MODULES = sorted({str(node.module) for node in FOR_TYPE_CHECKERS})

IMPORTS = """
import json, socket, sys
before = set(sys.modules)

def refuse(*_):
    raise AssertionError("an import must not use the network")

socket.socket.connect = socket.getaddrinfo = refuse
import sugarbush as sb

def loaded():
    found = {name.partition(".")[0] for name in set(sys.modules) - before}
    return sorted(found - set(sys.stdlib_module_names))

first = loaded()
sb.__version__
for name in sb.__all__:
    getattr(sb, name)
print(json.dumps([first, loaded()]))
"""


@pytest.fixture(scope="module")
def loaded() -> list[list[str]]:
    """Return the packages that are loaded after the import, and after all names were used."""
    finished = subprocess.run(
        [sys.executable, "-c", IMPORTS], cwd=ROOT, text=True, capture_output=True, timeout=900,
        check=True,
    )  # fmt: skip
    found: list[list[str]] = json.loads(finished.stdout)
    return found


def test_type_checkers_see_the_same_names() -> None:
    seen = [str(alias.asname) for node in FOR_TYPE_CHECKERS for alias in node.names]
    seen[seen.index("None")] = "Privacy"  # `Privacy` is a second name of PrivacySettings
    assert sorted(seen) == sb.__all__


def test_an_import_loads_no_other_package(loaded: list[list[str]]) -> None:
    assert loaded[0] == ["sugarbush"]


def test_no_name_loads_a_heavy_package(loaded: list[list[str]]) -> None:
    assert not HEAVY & set(loaded[1])


def test_the_version_is_that_of_the_package() -> None:
    assert sb.__version__[0].isdigit()


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'synthesise'"):
        sb.synthesise  # noqa: B018


@pytest.mark.parametrize("name", sb.__all__)
def test_a_public_name_is_documented_with_an_example(name: str) -> None:
    value: Any = getattr(sb, name)
    assert name in dir(sb)
    described = value.__doc__ or ""
    assert inspect.cleandoc(described).strip()
    assert not described.startswith(f"{value.__name__}("), "a docstring that a dataclass generates"
    assert (">>>" in described) != (name in WITHOUT_EXAMPLE)


@pytest.mark.parametrize("name", [*FURTHER_EXAMPLES, *MODULES])
def test_the_examples_of_a_module_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUGARBUSH_STATE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    result = doctest.testmod(import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0
    assert not any(tmp_path.iterdir()), "an example must not write where it runs"
