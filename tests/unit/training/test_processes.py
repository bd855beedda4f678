"""Training in several processes exchanges sums of gradients on this machine only."""

from __future__ import annotations

import os
import sys

import pytest

from sugarbush.training import processes

PRIVATE = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")


@pytest.mark.skipif(sys.platform != "linux", reason="the interface has this name on Linux")
def test_sums_of_gradients_pass_the_loopback_interface_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in (*PRIVATE, "OMP_NUM_THREADS"):
        monkeypatch.setenv(name, "eth0")  # monkeypatch restores what the call sets
    started = []
    monkeypatch.setattr(os, "execv", lambda *arguments: started.append(arguments))
    processes._become_torchrun(2, ["-m", "tasks.finetune"])
    assert started
    assert {os.environ[name] for name in PRIVATE} == {"lo"}
