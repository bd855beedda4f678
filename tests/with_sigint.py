"""Runs a command that Ctrl-C stops: python tests/with_sigint.py PROGRAM [ARGUMENT ..]

A shell that starts tests in the background makes its children ignore SIGINT.
"""

from __future__ import annotations

import os
import signal
import sys

signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])
