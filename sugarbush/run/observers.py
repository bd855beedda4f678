"""Runs the installed observers of stages, such as one that reports stages to an organisation.

A package registers an observer as an entry point of the group `sugarbush.stage_observers`. An error
of an observer ends no stage, because the stage may have spent budget.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sugarbush.registry import STAGE_OBSERVERS, load_plugin, plugin_names


@dataclass(frozen=True, kw_only=True)
class StageExecution:
    """One execution of a stage. All values follow from settings and none from a record.

    `inputs` and `outputs` are the declared paths of the stage, relative to the project's folder
    `base`. Some of them are private folders. `published` is the folder of the files that may be
    published.
    """

    stage: str
    method: str | None
    dataset: str
    base: Path
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    published: Path


class StageObserver(Protocol):
    """Observes stages. The entry point is a class without arguments."""

    def require_packages(self, base: Path) -> None:
        """Raise ParamsError if a package that the observer needs is missing.

        Called before a record is read. `base` is the project's folder.
        """

    def observing(self, execution: StageExecution) -> AbstractContextManager[object]:
        """Return the context in which the stage runs. It receives an error of the stage."""


def require_packages(base: Path) -> None:
    """Raise ParamsError if an installed observer cannot be imported or lacks a package."""
    for observer in _observers():
        observer.require_packages(base)


@contextmanager
def observed(execution: StageExecution) -> Iterator[None]:
    """Run a stage under all installed observers.

    Guarantee: no error of an observer ends the stage or replaces an error of the stage. Only the
    type of an observer's error is printed, because its message may contain an address with a key.
    """
    contexts: list[AbstractContextManager[object]] = []
    for observer in _observers():
        with _never_fails(execution.stage):
            context = observer.observing(execution)
            context.__enter__()
            contexts.append(context)
    try:
        yield
    except BaseException as error:
        for context in reversed(contexts):
            with _never_fails(execution.stage, of_stage=error):
                context.__exit__(type(error), error, error.__traceback__)
        raise
    for context in reversed(contexts):
        with _never_fails(execution.stage):
            context.__exit__(None, None, None)


def _observers() -> list[StageObserver]:
    return [load_plugin(STAGE_OBSERVERS, name)() for name in plugin_names(STAGE_OBSERVERS)]


@contextmanager
def _never_fails(stage: str, *, of_stage: BaseException | None = None) -> Iterator[None]:
    """Print the type of an error. The stage's own error, which a context may raise again, is not
    printed."""
    try:
        yield
    except Exception as error:
        if error is not of_stage:
            with suppress(OSError):
                print(
                    f"sugarbush: an observer of stage {stage} failed ({type(error).__name__}). The "
                    "stage goes on",
                    file=sys.stderr,
                    flush=True,
                )
