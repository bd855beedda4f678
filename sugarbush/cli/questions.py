"""Asks on a terminal for the settings `publication`, which no program can derive."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from rich.console import Console

from sugarbush.cli.printing import say_on
from sugarbush.errors import ParamsError
from sugarbush.project.assignments import changed_settings, changed_text, write_settings
from sugarbush.report.settings import PublicationSettings
from sugarbush.run.settings import FILE
from sugarbush.settings import meanings

_SECTION = "publication"
_SEVERAL = ";"  # between the items of a list


def ask_publication(
    base: Path, console: Console, *, read: Callable[[str], str] | None = None
) -> None:
    """Ask for each setting of `publication`, and write the answers to params.yaml.

    An empty answer skips the question and keeps the present value. The end of the input (Ctrl-D)
    skips all other questions. `read` shows a question and returns the answer; the default needs a
    terminal. Raises ParamsError without a terminal, and if params.yaml cannot be read.
    """
    if read is None:
        if not sys.stdin.isatty():
            raise ParamsError(
                "--ask needs a terminal. Without one, write the settings `publication` in "
                f"{FILE}; see `sugarbush settings publication`"
            )
        read = input
    present = changed_settings(base).params.publication
    explained = {meaning.name: meaning.text for meaning in meanings(present)}

    say = say_on(console)
    say("These answers are published with the release. Press Enter to skip a question.")
    answers: dict[str, Any] = {}
    try:
        for name, value in present:
            say(f"\n{name}: {explained[name]}")
            answer = _answer(name, value, say=say, read=read)
            if answer is not None:
                answers[name] = answer
    except EOFError:
        say("")
    written = changed_text((base / FILE).read_text(encoding="utf-8"), {_SECTION: answers})
    write_settings(base, written)
    say(f"{FILE}: {len(answers)} answers written.")


def _answer(
    name: str, value: Any, *, say: Callable[[str], None], read: Callable[[str], str]
) -> Any | None:
    """Return a valid answer as a value for params.yaml, or None if the question is skipped."""
    if isinstance(value, tuple) and not value:
        value = None
    shown = _SEVERAL.join(value) if isinstance(value, tuple) else value
    several = f" (several: with {_SEVERAL})" if _is_list(name) else ""
    while True:
        text = read(f"{name}{several}{'' if shown is None else f' [{shown}]'}: ").strip()
        if not text:
            return None
        answer = [item.strip() for item in text.split(_SEVERAL)] if _is_list(name) else text
        try:
            PublicationSettings.model_validate({name: answer})
        except (ValidationError, ParamsError) as error:
            say(_problem(error))
            continue
        return answer


def _is_list(name: str) -> bool:
    return isinstance(PublicationSettings.model_fields[name].get_default(), tuple)


def _problem(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return "; ".join(each["msg"].removeprefix("Value error, ") for each in error.errors())
    return str(error)
