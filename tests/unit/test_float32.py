"""Tests that products with less than float32 precision are found, however they were chosen."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
import torch

from sugarbush.embedding.encoder import Encoder
from sugarbush.embedding.settings import EmbeddingSettings
from sugarbush.errors import PrivacyError
from sugarbush.float32 import float32_problem

CHOICES: dict[str, Callable[[], object]] = {
    "high": lambda: torch.set_float32_matmul_precision("high"),
    "medium": lambda: torch.set_float32_matmul_precision("medium"),
    "cuda, the older setting": lambda: setattr(torch.backends.cuda.matmul, "allow_tf32", True),
    "cuda": lambda: setattr(torch.backends.cuda.matmul, "fp32_precision", "tf32"),
    "oneDNN": lambda: setattr(torch.backends.mkldnn.matmul, "fp32_precision", "bf16"),
    "all": lambda: setattr(torch.backends, "fp32_precision", "tf32"),
}


@pytest.fixture
def full_precision_afterwards() -> Iterator[None]:
    yield
    torch.backends.fp32_precision = "none"
    for backend in (torch.backends.cuda.matmul, torch.backends.mkldnn.matmul):
        backend.fp32_precision = "ieee"
    torch.set_float32_matmul_precision("highest")
    assert float32_problem() is None


def embed() -> None:
    Encoder(EmbeddingSettings(max_tokens=8), cache=None).encode(["a letter"])


@pytest.mark.usefixtures("full_precision_afterwards")
@pytest.mark.parametrize("choose", CHOICES.values(), ids=CHOICES)
def test_every_setting_of_reduced_precision_is_refused(choose: Callable[[], object]) -> None:
    embed()  # settings may change after the model is loaded
    choose()
    with pytest.raises(PrivacyError, match="precision"):
        embed()


def test_autocast_is_refused() -> None:
    with (
        torch.autocast("cpu", dtype=torch.bfloat16),
        pytest.raises(PrivacyError, match="autocast"),
    ):
        embed()


def test_a_precision_that_no_setting_shows_is_refused() -> None:
    """oneDNN reads the variable, and PyTorch's settings still say float32.

    Only CPUs with instructions for bfloat16 obey the variable. On the others, the product of two
    random matrices has the precision of float32, and `float32_problem` has to return None.
    """
    script = """
import torch
from sugarbush.float32 import float32_problem
torch.manual_seed(0)
left, right = torch.randn(256, 256), torch.randn(256, 256)
product = torch.nn.functional.linear(left.to_mkldnn(), right.to_mkldnn()).to_dense()
error = (product - left.double() @ right.double().T).abs().max()
print(float(error) > 1e-2, float32_problem())
"""
    variables = {**os.environ, "ONEDNN_DEFAULT_FPMATH_MODE": "BF16"}
    command = [sys.executable, "-c", script]
    found = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    reduced, problem = found.stdout.strip().split(" ", maxsplit=1)
    assert (reduced == "True") == ("ONEDNN_DEFAULT_FPMATH_MODE" in problem)
    assert reduced == "True" or problem == "None"
