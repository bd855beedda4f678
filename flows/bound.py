"""Run DVC so that it does not outlive the process that started it.

`python -m flows.bound repro …` asks the kernel (Linux) to end this process with its parent and
becomes DVC. The stages that DVC runs ask for the same.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1

if __name__ == "__main__":
    parent = os.getppid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it died before the kernel was asked
            sys.exit(1)
    os.execv(sys.executable, [sys.executable, "-m", "dvc", *sys.argv[1:]])
