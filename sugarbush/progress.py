"""Shows the progress of every long step in one form: part done, rate, time left, time so far.

    terminal          one bar of at most 80 columns on stderr
    notebook          the same figures below the cell
    neither           a line after 20 seconds, and then one line a minute, on stderr
    Prefect's flow    the same lines on stdout, which become the run's progress artifact

A step of unknown length (`working`) shows its name and the time so far, but nothing in a flow.

A step over private records shows only a percentage, and no line to a flow, because a flow's
database stores each line. Other steps show their counts, which depend on released values only.
Lines to a flow have no times, because the time of a step can depend on private texts.
"""

from __future__ import annotations

import html
import os
import re
import sys
import threading
import time
from collections.abc import Generator, Iterable, Iterator, Sized
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple, Protocol, TextIO, TypeVar

from rich.console import Console
from rich.progress import Progress, ProgressColumn, Task, TaskID
from rich.table import Column
from rich.text import Text

EMBEDDINGS: Final = "embeddings of the records"  # the name of a step of two modules
FLOW_VARIABLE = "SUGARBUSH_PROGRESS_OF_FLOW"  # set by a flow for the stages that it runs
_FIRST_LINE_S, _LINE_EVERY_S = 20.0, 60.0
_LOOK_EVERY_S = 5.0
_QUIET_S = 1.0  # a shorter step leaves no line on the terminal
_NOTEBOOK_EVERY_S = 0.2
_NAME, _BAR = 24, 10  # characters on a terminal
_LINE = re.compile(r"(?P<what>.+): (?P<percent>\d+)%(?: \(.*)?")

_NO_TERMINAL = (OSError, ValueError, AttributeError)  # a closed or broken output ends no step

_active = threading.Lock()
_unmeasured: list[_Unmeasured] = []  # the steps of unknown length, the innermost last
_shown: list[_Step] = []  # the step that is shown, if any
T = TypeVar("T")
B = TypeVar("B", bound=Sized)


class Advance(Protocol):
    """Reports that `done` more units are done. `note` describes costs, retries and so on."""

    def __call__(self, done: int = 1, note: str = "") -> None: ...


class _State:
    """The counters of one step."""

    def __init__(self, total: int, *, what: str, unit: str, private: bool) -> None:
        self.total, self.what, self.unit, self.private = total, what, unit, private
        self.done, self.note = 0, ""
        self.inside, self.part = 0, 0.0  # units of a running batch, and the part of it that is done
        self.started = self.changed = time.monotonic()

    def advance(self, done: int, note: str) -> None:
        self.done += done
        self.inside, self.part = 0, 0.0
        self.note = self.note if self.private else note or self.note
        if done:
            self.changed = time.monotonic()

    def reach(self, part: float) -> None:
        self.part = max(self.part, part)  # a batch may have two steps
        self.changed = time.monotonic()

    @property
    def reached(self) -> float:
        """The units that are done, and the part of a running batch."""
        return self.done + self.inside * self.part

    @property
    def percent(self) -> int:
        """The part that is done. Tenths do not tell how many private records there are."""
        steps = 10 if self.private else 100
        if not self.total:
            return 100
        return min(100, int(steps * self.reached / self.total) * (100 // steps))

    @property
    def counts(self) -> str:
        return f"{self.percent}%" if self.private else f"{self.done:,}/{self.total:,}"

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self.started

    @property
    def rate(self) -> str:
        """The units per second. A rate over private records would tell their number."""
        if self.private or not self.done:
            return ""
        per_s = self.done / max(self.elapsed_s, 1e-9)
        return f"{per_s:.1f}/s" if per_s >= 1 else f"{60 * per_s:.1f}/min"

    @property
    def left(self) -> str:
        """The time left, by the time of the units that are done. It falls while a unit runs.

        Before 2% are done, or if the unit takes longer than expected, no time is stated: the first
        units of a step often take longer than the rest.
        """
        if self.reached * 50 < self.total or not self.reached:
            return ""
        known_s = self.changed - self.started
        left_s = known_s * self.total / self.reached - self.elapsed_s
        return f"{duration(left_s)} left" if left_s >= 0 else ""

    def line(self) -> str:
        """Return the state in one line, such as `first texts: 40% (12 of 30 answers), 2.0/s`."""
        if not self.total:
            return f"{self.what}: {duration(self.elapsed_s)} so far"
        shown = (self.public_line(), self.rate, f"{duration(self.elapsed_s)} so far", self.left)
        return ", ".join(each for each in shown if each)

    def public_line(self) -> str:
        """Return the state without times. A flow reads this line with `read_line`."""
        line = f"{self.what}: {self.percent}%"
        if self.private:
            return line
        note = f", {self.note}" if self.note else ""
        return f"{line} ({self.done:,} of {self.total:,} {self.unit}{note})"


class _View(Protocol):
    def update(self, state: _State) -> None: ...
    def close(self, state: _State) -> None: ...


@contextmanager
def progress(
    total: int, *, what: str, unit: str = "steps", private: bool = False
) -> Iterator[Advance]:
    """Show the progress of a step of `total` units. Yields the function that reports progress.

    Guarantee: if `private` is true, no view shows a count, a rate or a note, and a flow sees
    nothing. A step inside another step shows nothing, because the outer step already shows the time
    left. The yielded function may be called from several threads.

    >>> with progress(2, what="first texts", unit="answers") as advance:
    ...     advance(1)
    ...     advance(1, "cost 0.01")
    """
    state = _State(total, what=what, unit=unit, private=private)
    if total <= 0 or not _active.acquire(blocking=False):
        yield _inside(state) if total > 0 else _ignore
        return
    outer = _unmeasured[-1] if _unmeasured else None
    if outer is not None:
        outer.pause()
    try:
        step = _Step(state)
        with suppress(*_NO_TERMINAL):
            step.view = _view(state)
        _shown.append(step)
        try:
            yield step
        finally:
            _shown.remove(step)
            with suppress(*_NO_TERMINAL):
                step.view.close(state)
    finally:
        if outer is not None:
            outer.show()
        _active.release()


class _Step:
    """Reports the progress of a step that is shown."""

    def __init__(self, state: _State) -> None:
        self.state = state
        self.view: _View = _Nothing()
        self._lock = threading.Lock()

    def __call__(self, done: int = 1, note: str = "") -> None:
        with self._lock, suppress(*_NO_TERMINAL):
            self.state.advance(done, note)
            self.view.update(self.state)

    def move(self, own: _State, done: int) -> None:
        """Count `done` units of a step inside this one, which is the running batch."""
        with self._lock, suppress(*_NO_TERMINAL):
            own.done += done
            self.state.reach(own.done / own.total)
            self.view.update(self.state)


def _inside(own: _State) -> Advance:
    """Return the function of a step inside the shown one. It moves a step of the same name on."""
    step = next((shown for shown in _shown if shown.state.what == own.what), None)
    if step is None:
        return _ignore

    def advance(done: int = 1, note: str = "") -> None:
        step.move(own, done)

    return advance


def over_batches(
    batches: Iterable[B], total: int, *, what: str, unit: str, private: bool = False
) -> Generator[B]:
    """Yield `batches`, and show how many of `total` units are finished. A step of the same name
    shows how far its batch is. If the caller may fail, it closes the result, which ends the step.

    >>> list(over_batches(["ab", "c"], 3, what="embeddings", unit="texts"))
    ['ab', 'c']
    """
    with progress(total, what=what, unit=unit, private=private) as advance:
        for batch in batches:
            if isinstance(advance, _Step):
                advance.state.inside = len(batch)
            yield batch
            advance(len(batch))


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show that a step of unknown length runs, and for how long. It shows no count.

    A step inside it shows its own line in the meantime. A step inside `progress` shows nothing.

    >>> with working("reading letters.csv"):
    ...     pass
    """
    if _active.locked():
        yield
        return
    outer = _unmeasured[-1] if _unmeasured else None
    if outer is not None:
        outer.pause()
    own = _Unmeasured(what)
    _unmeasured.append(own)
    own.show()
    try:
        yield
    finally:
        own.pause()
        _unmeasured.remove(own)
        if outer is not None:
            outer.show()


class _Unmeasured:
    """A step of unknown length. Its line can be replaced by the line of a step inside it."""

    def __init__(self, what: str) -> None:
        self._state = _State(0, what=what, unit="", private=True)
        self._view: _View | None = None

    def show(self) -> None:
        with suppress(*_NO_TERMINAL):
            self._view = _view(self._state)
            self._view.update(self._state)

    def pause(self) -> None:
        view, self._view = self._view, None
        if view is not None:
            with suppress(*_NO_TERMINAL):
                view.close(self._state)


def with_progress(
    items: Iterable[T], total: int, *, what: str, unit: str = "steps", private: bool = False
) -> Iterator[T]:
    """Yield `items`, and show how many of `total` are finished.

    >>> list(with_progress("ab", 2, what="rounds"))
    ['a', 'b']
    """
    with progress(total, what=what, unit=unit, private=private) as advance:
        for item in items:
            yield item
            advance()


def read_line(line: str) -> tuple[str, int] | None:
    """Return what a stage does and the percentage that is done, or None for another line.

    >>> read_line("first texts: 40% (12 of 30 answers)")
    ('first texts', 40)
    """
    match = _LINE.fullmatch(line)
    return (match["what"], int(match["percent"])) if match else None


def duration(seconds: float) -> str:
    """Return a time in two parts at most.

    >>> duration(5), duration(65), duration(7300)
    ('5 s', '1:05 min', '2:01 h')
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}:{rest:02} min"
    return f"{minutes // 60}:{minutes % 60:02} h"


def _ignore(done: int = 1, note: str = "") -> None:
    """Report nothing."""


def _view(state: _State) -> _View:
    if os.environ.get(FLOW_VARIABLE):
        return _Nothing() if state.private else _Lines(sys.stdout, state, public=True)
    if (shell := _notebook()) is not None:
        return _Notebook(shell)
    console = Console(file=sys.stderr)
    return _Bar(console, state) if console.is_terminal else _Lines(sys.stderr, state)


class _Nothing:
    def update(self, state: _State) -> None:
        pass

    def close(self, state: _State) -> None:
        pass


class _Lines:
    """Prints a line after 20 seconds and then one a minute, also while nothing is done. A shorter
    step prints nothing."""

    def __init__(self, file: TextIO, state: _State, *, public: bool = False) -> None:
        self._file, self._state, self._public = file, state, public
        self._next = time.monotonic() + _FIRST_LINE_S
        self._lock, self._ended = threading.Lock(), threading.Event()
        self._watch = threading.Thread(target=self._look, daemon=True)
        self._watch.start()

    def update(self, state: _State) -> None:
        with self._lock:
            if (now := time.monotonic()) >= self._next:
                self._next = now + _LINE_EVERY_S
                line = state.public_line() if self._public else state.line()
                # Not `print`: Prefect stores what a flow with log_prints prints, also to stderr.
                self._file.write(f"{line}\n")
                self._file.flush()

    def close(self, state: _State) -> None:
        self._ended.set()
        self._watch.join()  # no line after the end of the step

    def _look(self) -> None:
        while not self._ended.wait(_LOOK_EVERY_S):
            with suppress(*_NO_TERMINAL):
                self.update(self._state)


class _OneLine(ProgressColumn):
    """Name, bar and figures of a step. A narrow terminal cuts the note at the end."""

    max_refresh = 0.5

    def render(self, task: Task) -> Text:
        state: _State = task.fields["state"]
        if not state.total:
            text = f"{state.what}  {duration(state.elapsed_s)} so far"
            return Text(text, no_wrap=True, overflow="ellipsis")
        name = state.what if len(state.what) <= _NAME else state.what[: _NAME - 1] + "…"
        full = _BAR * state.percent // 100
        line = Text(f"{name} ", no_wrap=True, overflow="ellipsis")
        line.append("━" * full, style="bar.complete").append("─" * (_BAR - full), style="bar.back")
        figures = (state.counts, state.rate, state.left, f"{duration(state.elapsed_s)} so far")
        line.append(" " + "  ".join(each for each in figures if each))
        return line.append(f"  {state.note}", style="dim") if state.note else line


class _Bar:
    """A bar on a terminal. It ends as one line, or as nothing after less than a second."""

    def __init__(self, console: Console, state: _State) -> None:
        self._console = console
        column = _OneLine(table_column=Column(no_wrap=True, overflow="ellipsis"))
        self._progress = Progress(column, console=console, transient=True)
        total = state.total or None
        self._task: TaskID = self._progress.add_task(state.what, total=total, state=state)
        self._progress.start()

    def update(self, state: _State) -> None:
        self._progress.update(self._task, completed=state.done)

    def close(self, state: _State) -> None:
        self._progress.stop()
        if state.elapsed_s < _QUIET_S or not state.total:
            return
        note = f", {state.note}" if state.note else ""
        counts = state.counts if state.private else f"{state.done:,} {state.unit}"
        line = f"{state.what}: {counts} in {duration(state.elapsed_s)}{note}"
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)


class _Notebook:
    """A bar below the cell of a notebook, which disappears at the end."""

    def __init__(self, shell: Any) -> None:
        self._handle = shell(_NotebookHtml(""), display_id=True)
        self._last_update = 0.0

    def update(self, state: _State) -> None:
        if (now := time.monotonic()) - self._last_update >= _NOTEBOOK_EVERY_S:
            self._last_update = now
            bar = f'<progress max="100" value="{state.percent}"></progress>' if state.total else ""
            self._handle.update(_NotebookHtml(f"{bar} {html.escape(state.line())}"))

    def close(self, state: _State) -> None:
        self._handle.update(_NotebookHtml(""))


class _NotebookHtml(NamedTuple):
    text: str

    def _repr_html_(self) -> str:
        return self.text


def _notebook() -> Any:
    """Return IPython's `display` in the kernel of a notebook, otherwise None."""
    if (ipython := sys.modules.get("IPython")) is None or "ipykernel" not in sys.modules:
        return None
    in_kernel = type(ipython.get_ipython()).__name__ == "ZMQInteractiveShell"
    return ipython.display.display if in_kernel else None
