"""Runs one stage in several processes with one GPU each, which torchrun starts.

The stage's own process is replaced by torchrun (by exec), which starts the stage several times. So
DVC sees one process id, and killing that process ends all of them. On a CPU the processes
communicate by gloo. Sums of gradients without noise pass between them, on the loopback interface
only.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import distributed

T = TypeVar("T")

_RANK, _LOCAL_RANK = "RANK", "LOCAL_RANK"  # as torchrun sets them


@contextmanager
def processes(number: int, *, restart: Sequence[str]) -> Iterator[None]:
    """Connect this process with the other ones of `number` processes. Does not return in the
    process that becomes torchrun.

    `restart` are the arguments that start this stage again, such as `-m tasks.finetune`.
    """
    if number == 1 and _RANK not in os.environ:
        yield
        return
    if _RANK not in os.environ:
        _become_torchrun(number, restart)
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ[_LOCAL_RANK]))
    distributed.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    try:
        yield
    finally:
        distributed.destroy_process_group()


def is_first() -> bool:
    """Whether this is the only process or process 0; torchrun need not have started yet."""
    return os.environ.get(_RANK, "0") == "0"


def broadcast_from_first(value: T | None) -> T | None:
    """Return the value that process 0 passes, in every process."""
    said = [value]
    if distributed.is_initialized():
        distributed.broadcast_object_list(said, src=0)
    return said[0]


def _become_torchrun(number: int, restart: Sequence[str]) -> None:
    threads = max(1, (os.cpu_count() or 1) // number)
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))  # torchrun warns if it is not set
    sys.stdout.flush()
    if sys.platform == "linux":
        os.environ.update(dict.fromkeys(("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"), "lo"))
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--standalone")
    command = (*torchrun, "--nproc-per-node", str(number), *restart)
    os.execv(command[0], command)
