"""Starts Python modules as forks of one process, which has imported what DVC and its stages need.

A new process imports for seconds. A fork, too, has its own memory, folder, variables and exit code.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

PIPE, STDOUT = subprocess.PIPE, subprocess.STDOUT  # flows use this module in place of subprocess
_WITH_PARENT = "sugarbush.pipeline.run_with_parent"
_NEEDED = (
    "dvc.cli", "dvc.stage.run", "dvc.repo.reproduce", "dvc.repo.status", "dvc.commands.repro",
    "dp_accounting", "openai", "opendp.prelude", "scipy.optimize", "sugarbush.run.error_report",
    "sugarbush.run.context", "sugarbush.pipeline.stages.evaluate",
)  # fmt: skip
_SIZE = 1 << 16


class Popen:
    """Stands in for `subprocess.Popen` of `python -m MODULE ...`, with one pipe for all output."""

    def __init__(
        self, command: Sequence[str], *, cwd: Path | str, env: Mapping[str, str], **_: Any
    ) -> None:
        assert list(command[:2]) == [sys.executable, "-m"], command
        arguments = list(command[2:])
        if arguments[0] == _WITH_PARENT:  # the parent of a fork is another process
            del arguments[:2]
        read, write = os.pipe()
        self._ended, ended = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ended:
            order = json.dumps([arguments, str(cwd), dict(env)]).encode()
            paths = [path for path in env["PYTHONPATH"].split(os.pathsep) if path != str(cwd)]
            socket.send_fds(_server(os.pathsep.join(paths)), [order], [write, ended.fileno()])
        os.close(write)
        self._process = int(self._ended.recv(_SIZE))
        self.stdout = os.fdopen(read, encoding="utf-8")
        self.returncode: int | None = None

    def __enter__(self) -> Popen:
        return self

    def __exit__(self, *_: object) -> None:
        self.stdout.close()
        with self._ended:
            self.returncode = int(self._ended.recv(_SIZE))

    def terminate(self) -> None:
        os.kill(self._process, signal.SIGTERM)


@cache
def _server(path: str) -> socket.socket:
    """Start the process with the imports. It ends with this process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, __file__], stdin=theirs.fileno(), env=os.environ | {"PYTHONPATH": path}
        )
    atexit.register(process.wait)  # after the next one
    atexit.register(ours.close)
    return ours


def _serve(orders: socket.socket) -> None:
    gc.disable()
    for name in _NEEDED:
        import_module(name)
    gc.freeze()
    gc.enable()
    started: list[int] = []
    while True:
        order, fds, _, _ = socket.recv_fds(orders, _SIZE, 2)
        if not order:
            break
        started.append(os.fork())
        if not started[-1]:
            orders.close()
            _report(*json.loads(order), *fds)
        for fd in fds:
            os.close(fd)
        started = [each for each in started if not os.waitpid(each, os.WNOHANG)[0]]
    for each in started:
        os.waitpid(each, 0)


def _report(
    arguments: list[str], folder: str, variables: dict[str, str], output: int, ended: int
) -> None:
    """Run a module in a fork of this fork; write its process id and its exit code to `ended`."""
    for stream in (1, 2):
        os.dup2(output, stream)
    os.close(output)
    child = os.fork()
    if child:
        os.write(ended, str(child).encode())
        os.close(1)
        os.close(2)
        _, status = os.waitpid(child, 0)
        os.write(ended, str(os.waitstatus_to_exitcode(status)).encode())
        os._exit(0)
    os.close(ended)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    sys.path[:1] = [folder, *variables["PYTHONPATH"].split(os.pathsep)]
    sys.argv = arguments
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    sys.exit()


if __name__ == "__main__":
    with socket.socket(fileno=0) as listening:
        _serve(listening)
