"""Runs a module that ends when its parent process ends.

    python -m sugarbush.pipeline.run_with_parent PARENT MODULE ...

A flow or a `sugarbush run` that is killed with -9 cannot clean up. DVC and its stage would then
continue and spend budget. This program asks the Linux kernel to end DVC when its parent ends. The
stage makes the same request (parent_death.py), so the stage ends with DVC. The request needs its
own program, because code between fork and exec may deadlock in a process with threads.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from contextlib import suppress

import psutil

_PR_SET_PDEATHSIG = 1


def command(module: str, *arguments: str) -> list[str]:
    """Return a command that runs `module` and ends when this process ends."""
    own = "sugarbush.pipeline.run_with_parent"
    return [sys.executable, "-m", own, str(os.getpid()), module, *arguments]


def end_with_children(pid: int) -> None:
    """End a process and its children. They ignore Ctrl-C, which only the first process handles."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for each in (*process.children(recursive=True), process):
            with suppress(psutil.NoSuchProcess):
                each.terminate()


def main() -> None:
    """Ask the kernel to end this process with its parent, then become the module.

    The module and its stages ignore Ctrl-C, so that a stage that starts prints no traceback.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent, *arguments = sys.argv[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(parent):  # the parent had ended before the request to the kernel
        sys.exit(1)
    os.execv(sys.executable, [sys.executable, "-m", *arguments])


if __name__ == "__main__":
    main()
