"""Run a module that ends when its parent process ends.

    python -m sugarbush.pipeline.run_with_parent PARENT MODULE ...

A flow that is killed with -9 cannot clean up, and DVC and its stage would continue and spend
budget. On Linux the kernel ends DVC when its parent ends. The stage asks the kernel for the same
(parent_death.py) and ends with DVC. This is a separate program, because code between fork and exec
may deadlock in a process with threads.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Ask the kernel to end this process with its parent, then become the module."""
    parent, *arguments = sys.argv[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(parent):  # the parent ended before the request to the kernel
        sys.exit(1)
    os.execv(sys.executable, [sys.executable, "-m", *arguments])


if __name__ == "__main__":
    main()
