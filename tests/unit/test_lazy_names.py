"""Tests that each public name of a package can be imported, but is loaded only at its first use."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

PACKAGES = (
    "audits", "data", "embedding", "evaluation", "examples", "generators", "pipeline", "privacy",
    "redactor", "release", "report", "run", "training",
)  # fmt: skip


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_can_be_imported(package: str) -> None:
    module = import_module(f"sugarbush.{package}")
    assert module.__all__
    for name in module.__all__:
        assert getattr(module, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'exposures'"):
        _ = import_module("sugarbush.audits").exposures


def test_packages_import_nothing_heavy() -> None:
    names = ", ".join(f"sugarbush.{package}" for package in PACKAGES)
    code = f"import sys, {names}; print('torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"
