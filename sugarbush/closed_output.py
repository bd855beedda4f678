"""Lets a program continue if the reader of its output ends, as in `sugarbush run | head`.

Otherwise the next line that is printed would end a run between a charge and its result.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO


class _UntilClosed:
    """A text stream that drops everything after its reader has ended."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except BrokenPipeError:
            self._drop()
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except BrokenPipeError:
            self._drop()

    def _drop(self) -> None:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, self._stream.fileno())
        os.close(nothing)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def output_may_close() -> Iterator[None]:
    """Let stdout and stderr of this process lose their readers without an error."""
    streams: Any = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = map(_UntilClosed, streams)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        sys.stdout, sys.stderr = streams
