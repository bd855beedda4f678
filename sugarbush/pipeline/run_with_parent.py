"""Run a module that ends when its parent process ends.

    python -m sugarbush.pipeline.run_with_parent PARENT MODULE ...

A flow that is killed with -9 can clean up nothing, and DVC and its stage would go on spending. On
Linux the kernel ends DVC when its parent is gone, and the stage, which asks for the same of its
own parent (parent_death.py), with it. A program of its own, because code between fork and exec may
deadlock in a process with threads.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Ask to die with the parent, and become the module."""
    parent, *arguments = sys.argv[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(parent):  # it died before it was asked for
        sys.exit(1)
    os.execv(sys.executable, [sys.executable, "-m", *arguments])


if __name__ == "__main__":
    main()
