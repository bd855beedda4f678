"""`sugarbush check`: prints what each check found."""

from __future__ import annotations

from rich.console import Console

from sugarbush.cli.printing import say_on
from sugarbush.project.check import checks
from sugarbush.project.checked import Checked
from sugarbush.project.rehearsal import REHEARSAL
from sugarbush.run.context import Project


def run_checks(project: Project, console: Console, *, internal: bool = False) -> None:
    """Print a line for each passed check. Raises the error of the first failed check.

    With `internal`, also print the listed values that look misspelt. These lines are not DP.
    """
    for checked in checks(project, internal=internal):
        print_checked(checked, console)


def print_checked(checked: Checked, console: Console) -> None:
    """Print what a check found. Only its first line may be broken at the width of the console."""
    if checked.subject == REHEARSAL:
        say_on(console)(checked.lines)
    else:
        console.print(checked.lines, markup=False, soft_wrap=not checked.subject)
