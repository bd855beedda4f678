"""Shows the progress of a batch of requests on stderr: answers, rate, time left and cost."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

_LINE_EVERY_S = 30.0

Advance = Callable[[int, str], None]


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(f"{task.speed or 0:.1f}/s")


@contextmanager
def progress(
    total: int, *, what: str, unit: str = "answers", console: Console | None = None
) -> Iterator[Advance]:
    """Show a progress bar on a terminal. Without a terminal, print a line every half minute.

    Yields a function `advance(answers, note)`. `note` describes the cost so far.
    """
    console = console or Console(file=sys.stderr)
    if console.is_terminal:
        columns: tuple[ProgressColumn, ...] = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            _Rate(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
        )
        with Progress(*columns, console=console) as bar:
            task = bar.add_task(what, total=total, note="")
            yield lambda answers, note: bar.update(task, advance=answers, note=note)
    else:
        yield _Lines(total, what, unit, console).advance


class _Lines:
    def __init__(self, total: int, what: str, unit: str, console: Console) -> None:
        self._total, self._what, self._unit, self._console = total, what, unit, console
        self._done = 0
        self._started = self._shown = time.monotonic()

    def advance(self, answers: int, note: str) -> None:
        self._done += answers
        now = time.monotonic()
        if now - self._shown < _LINE_EVERY_S:
            return
        self._shown = now
        rate = self._done / (now - self._started)
        left_min = (self._total - self._done) / rate / 60 if rate else float("inf")
        self._console.print(
            f"{self._what}: {self._done}/{self._total} {self._unit}, {rate:.1f}/s, "
            f"{left_min:.0f} min left, {note}",
            highlight=False,
        )
