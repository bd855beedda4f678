"""Tests that two processes of torchrun train like one process: one charge, one noise per step."""

import os
import subprocess
import sys

import pytest
import torch

from tests.integration.dpsgd import two_processes
from tests.unit.training.dpsgd.small_runs import ledger_in
from tests.unit.training.dpsgd.tiny import tiny_gpt2


def largest_difference(one, other):
    return max(float((one[name] - other[name]).abs().max()) for name in one)


@pytest.mark.slow
def test_two_processes_equal_one_without_noise_and_share_one_noise_and_one_charge(tmp_path):
    subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
            *("--nproc-per-node", "2", "-m", two_processes.__name__, str(tmp_path)),
        ],
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        timeout=900,
        capture_output=True,
    )
    exact, noisy = (
        [torch.load(tmp_path / name / f"rank{rank}.pt", weights_only=True) for rank in (0, 1)]
        for name in ("exact", "noisy")
    )
    one = two_processes.train_in(tmp_path / "one", two_processes.MECHANISM).state_dict()
    assert largest_difference(*exact) == 0
    assert largest_difference(exact[0], one) < 1e-6
    assert largest_difference(one, tiny_gpt2().state_dict()) > 1e-3
    assert largest_difference(*noisy) == 0
    assert largest_difference(noisy[0], one) > 1e-3
    for name in ("exact", "noisy"):
        assert len(ledger_in(tmp_path / name).entries()) == 1
