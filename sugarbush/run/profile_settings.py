"""Settings of `sugarbush.profiling`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sugarbush.privacy.settings import LARGEST_EPSILON, SMALLEST_EPSILON
from sugarbush.settings import NOT_IN_OUTPUT, Section


class ProfileSettings(Section):
    """What `sugarbush profile` measures, and what it may spend. No stage of a run reads this."""

    epsilon: Annotated[float, Field(ge=SMALLEST_EPSILON, le=LARGEST_EPSILON), NOT_IN_OUTPUT] = 0.2
    """Epsilon of a profile; privacy.epsilon is for a run together with its profile."""
    columns: Annotated[tuple[str, ...] | None, NOT_IN_OUTPUT] = None
    """Columns with public names whose values are counted; null: all in the header of the file."""
