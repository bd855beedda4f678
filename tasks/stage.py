"""How every stage starts and how it ends badly.

A stage is `python -m tasks.<name>` in the folder that holds params.yaml. What goes wrong is told in
one message on the operator's terminal and in reports/internal/errors.log, and nowhere else: exact
tallies and pass or fail are outside the guarantee. Under a flow, whose database keeps every line,
the terminal is told by the flow and the stage only says where to look.
"""

from __future__ import annotations

import argparse
import errno
import os
import sys
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

from sugarbush.errors import StorageError, SugarbushError
from sugarbush.params import Method, Params, load_params
from sugarbush.paths import Roots, make_private

QUIET_VARIABLE = "SUGARBUSH_QUIET_ERRORS"
LOG = "errors.log"
_OUR_FAULT = 70


def main(name: str, run: Callable[[Path, Params], None]) -> None:
    """Run a stage in the current folder; exit 1 or 2 with one message when it fails."""
    argparse.ArgumentParser(prog=f"python -m tasks.{name}").parse_args()
    guarded(name, lambda base: run(base, load_params()))


def main_of_method(name: str, run: Callable[[Path, Params, Method], None]) -> None:
    """Run one method's part of a stage in the current folder."""
    parser = argparse.ArgumentParser(prog=f"python -m tasks.{name}")
    parser.add_argument("--method", required=True, type=Method, choices=list(Method))
    method: Method = parser.parse_args().method
    guarded(f"{name}@{method}", lambda base: run(base, load_params(), method))


def guarded(name: str, run: Callable[[Path], None]) -> None:
    """Run, and turn every failure into one message without private content."""
    base = Path()
    try:
        run(base)
    except SugarbushError as error:
        _fail(base, name, str(error), error.exit_code)
    except OSError as error:
        if error.errno not in {errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS}:
            _fail_by_our_fault(base, name, error)
        _fail(base, name, f"{error.filename or 'a file'}: {error.strerror}", StorageError.exit_code)
    except Exception as error:
        _fail_by_our_fault(base, name, error)


def _fail_by_our_fault(base: Path, name: str, error: Exception) -> NoReturn:
    """The kind of error and where it arose. Its message may hold private text and is dropped."""
    frames = traceback.extract_tb(error.__traceback__)
    where = "\n".join(f"  {frame.filename}:{frame.lineno} in {frame.name}" for frame in frames)
    message = (
        f"a fault in Sugarbush: {type(error).__name__} (its message is withheld, since it may hold "
        f"data). Please report it with these lines:\n{where}"
    )
    _fail(base, name, message, _OUR_FAULT)


def _fail(base: Path, name: str, message: str, code: int) -> NoReturn:
    log = Roots(base).internal / LOG
    try:
        make_private(log.parent)
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "a", encoding="utf-8") as file:
            now = datetime.now(UTC).isoformat(timespec="seconds")
            file.write(f"{now} {name}: {message}\n")
    except (OSError, SugarbushError):
        pass
    if os.environ.get(QUIET_VARIABLE):
        print(f"{name} failed; see {log}", file=sys.stderr)
    else:
        print(f"{name}: {message}", file=sys.stderr)
    sys.exit(code)
