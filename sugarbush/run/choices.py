"""Tells a stage what the operator of a run chose: new noise, or to go on without a fit.

`sugarbush run --force` and `--yes`, and a forced run of the flow, set variables for their stages.
DVC does not pass `dvc repro -f` to a stage, so such a stage runs again, restores its results and
costs nothing.
"""

from __future__ import annotations

import os

_NEW_DRAW, _GO_ON = "SUGARBUSH_NEW_DRAW", "SUGARBUSH_GO_ON"


def wants_new_draw() -> bool:
    """Return whether this stage draws and charges again, although a finished result may exist."""
    return os.environ.get(_NEW_DRAW) == "1"


def goes_on() -> bool:
    """Return whether the run goes on although the first texts are unlike the records."""
    return os.environ.get(_GO_ON) == "1"


def environment_for(*, new_draw: bool, go_on: bool = False) -> dict[str, str]:
    """Return the variables for the stages of a run."""
    return {_NEW_DRAW: "1" if new_draw else "0", _GO_ON: "1" if go_on else "0"}
