"""Which state folder a run uses. A module of its own: `budget` loads the accountant."""

from __future__ import annotations

from pathlib import Path

from sugarbush.params import Params, Purpose
from sugarbush.paths import state_root


def state_of(params: Params, base: Path) -> Path:
    """The state folder of a run in `base`."""
    return state_root(base, example=params.privacy.purpose is Purpose.EXAMPLE)
