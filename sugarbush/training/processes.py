"""Runs one stage in several processes with one GPU each, which torchrun starts.

The stage's process becomes torchrun (by exec), and torchrun starts the stage several times. So DVC
sees one process id. If DVC ends this process, all processes end. On a CPU the processes communicate
by gloo. The processes exchange sums of gradients without noise, so they use the loopback interface
only.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")

_RANK, _LOCAL_RANK = "RANK", "LOCAL_RANK"  # the environment variables that torchrun sets


@contextmanager
def processes(number: int, *, restart: Sequence[str]) -> Iterator[None]:
    """Connect the `number` processes of this stage. The process that becomes torchrun never
    returns.

    `restart` contains the arguments that start this stage again, such as `-m tasks.finetune`.
    """
    if number == 1 and _RANK not in os.environ:
        yield
        return
    if _RANK not in os.environ:
        _become_torchrun(number, restart)
    import torch  # slow, and the process that becomes torchrun would import it twice
    from torch import distributed

    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ[_LOCAL_RANK]))
    distributed.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    try:
        yield
    finally:
        distributed.destroy_process_group()


def is_first() -> bool:
    """Return whether this is process 0, or the only process. torchrun may not be running."""
    return os.environ.get(_RANK, "0") == "0"


def broadcast_from_first(value: T | None) -> T | None:
    """Return, in every process, the value that process 0 passes."""
    from torch import distributed

    said = [value]
    if distributed.is_initialized():
        distributed.broadcast_object_list(said, src=0)
    return said[0]


def _become_torchrun(number: int, restart: Sequence[str]) -> None:
    threads = max(1, (os.cpu_count() or 1) // number)
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))  # otherwise torchrun warns
    sys.stdout.flush()
    if sys.platform == "linux":
        os.environ.update(dict.fromkeys(("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"), "lo"))
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--standalone")
    command = (*torchrun, "--nproc-per-node", str(number), *restart)
    os.execv(command[0], command)
