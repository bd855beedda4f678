"""Tells a stage whether the operator wants new noise in place of its finished results.

`sugarbush run --force`, and a forced run of the flow, set a variable for their stages. DVC does not
pass `dvc repro -f` to a stage, so such a stage runs again, restores its results and costs nothing.
"""

from __future__ import annotations

import os

VARIABLE = "SUGARBUSH_NEW_DRAW"


def wants_new_draw() -> bool:
    """Return whether this stage draws and charges again, although a finished result may exist."""
    return os.environ.get(VARIABLE) == "1"


def environment_for(*, new_draw: bool) -> dict[str, str]:
    """Return the variable for the stages of a run."""
    return {VARIABLE: "1" if new_draw else "0"}
