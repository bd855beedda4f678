"""Starts a stage, and reports its failure.

A stage is `python -m tasks.<name>` in the folder that contains params.yaml. A failure is one
message on the operator's terminal and in reports/internal/errors.log. The message goes nowhere
else, because it may contain an exact count. The guarantee does not cover failures.

A flow's database stores every line that a stage prints. A worker of DVC's queue has no terminal. So
in both cases, the stage prints only the path of the log. The output of libraries on stderr then
goes to reports/internal too, because a progress bar shows the number of records.
"""

from __future__ import annotations

import errno
import gc
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from io import TextIOWrapper
from pathlib import Path
from typing import TextIO

from sugarbush.errors import ParamsError, StorageError, SugarbushError, printable
from sugarbush.extras import message_of
from sugarbush.paths import Roots, checkout_root, make_private, open_owner_only

QUIET_VARIABLE = "SUGARBUSH_QUIET_ERRORS"
LOG = "errors.log"
LAST = "last_error.json"
CHATTER = "stderr.log"
_OUR_FAULT = 70
_INTERRUPTED = 130
_DISK_REFUSED = {
    errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG,
    errno.ENOTDIR,
}  # fmt: skip


def run_with_error_report(name: str, run: Callable[[Path], None]) -> None:
    """Call `run`, and report every failure as one message without private content."""
    base = Path()
    # DVC keeps what an experiment in a copy of the checkout prints.
    quiet = bool(os.environ.get(QUIET_VARIABLE)) or checkout_root(base) != base.absolute()
    with _chatter_set_aside(base) if quiet else nullcontext(sys.stderr) as terminal:
        try:
            run(base)
        except KeyboardInterrupt:
            sys.exit(_INTERRUPTED)
        except Exception as error:
            message, code = format_error(error)
            last = {"stage": name, "type": type(error).__name__, "message": message}
            log = _write_down(base, last | {"exit_code": code})
            print(f"{name} failed; see {log}" if quiet else f"{name}: {message}", file=terminal)
            _end_objects_of(error)
            sys.exit(code)


def _end_objects_of(error: BaseException | None) -> None:
    """Delete the local variables in an error's traceback.

    At the end of the process, some of these objects would otherwise print their own errors.
    """
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__
    gc.collect()


def format_error(error: Exception) -> tuple[str, int]:
    """Return the message for the operator and the exit code."""
    if isinstance(error, SugarbushError):
        return printable(str(error)), error.exit_code
    if isinstance(error, OSError) and error.errno in _DISK_REFUSED:
        return f"{error.filename or 'a file'}: {error.strerror}", StorageError.exit_code
    if isinstance(error, ImportError) and (message := message_of(error)) is not None:
        return message, ParamsError.exit_code
    if isinstance(error, MemoryError):
        return "not enough memory", StorageError.exit_code
    # The message of an unknown error may contain private text, so only its type and the code lines
    # are printed.
    frames = traceback.extract_tb(error.__traceback__)
    where = "\n".join(f"  {frame.filename}:{frame.lineno} in {frame.name}" for frame in frames)
    return (
        f"a bug in Sugarbush: {type(error).__name__} (its message is hidden, because it may "
        f"contain data). Please report the bug with these lines:\n{where}"
    ), _OUR_FAULT


def _write_down(base: Path, last: dict[str, str | int]) -> Path:
    """Append to the error log. For the process that started the run, also write the last error to a
    separate file. DVC deletes the copy of an experiment, so both files are in the checkout that
    contains the copy."""
    folder = Roots(checkout_root(base)).internal
    now = datetime.now(UTC).isoformat(timespec="seconds")
    try:
        make_private(folder)
        with _open_private(folder / LOG, os.O_APPEND) as file:
            file.write(f"{now} {last['stage']}: {last['message']}\n")
        with _open_private(folder / LAST, os.O_TRUNC) as file:
            json.dump({"time": now} | last, file)
    except (OSError, SugarbushError):
        pass  # the operator must see the message, even if the disk is full
    return folder / LOG


def _open_private(path: Path, how: int) -> TextIOWrapper:
    return os.fdopen(open_owner_only(path, os.O_WRONLY | how), "a", encoding="utf-8")


@contextmanager
def _chatter_set_aside(base: Path) -> Iterator[TextIO]:
    """Redirect stderr to a private file, and yield the terminal."""
    sys.stderr.flush()
    with os.fdopen(os.dup(2), "w", encoding="utf-8", errors="replace") as terminal:
        try:
            folder = make_private(Roots(checkout_root(base)).internal)
            with _open_private(folder / CHATTER, os.O_APPEND) as file:
                os.dup2(file.fileno(), 2)
        except (OSError, SugarbushError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            yield terminal
        finally:
            sys.stderr.flush()
            os.dup2(terminal.fileno(), 2)
