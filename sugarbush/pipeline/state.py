"""Which state folder a run uses. A module of its own: `budget` loads the accountant."""

from __future__ import annotations

from pathlib import Path

from sugarbush.paths import state_root
from sugarbush.pipeline.settings import ProjectSettings
from sugarbush.privacy.settings import Purpose


def state_of(params: ProjectSettings, base: Path) -> Path:
    """The state folder of a run in `base`."""
    return state_root(base, example=params.privacy.purpose is Purpose.EXAMPLE)
