"""No private data at all (epsilon 0): the baseline that every claim of usefulness must beat."""

from __future__ import annotations

from typing import ClassVar

from sugarbush.methods.evolving import EvolvingMethod


class Public(EvolvingMethod):
    """The same prompts as `augpe`, without votes."""

    name: ClassVar[str] = "public"
    votes_with_noise: ClassVar[bool] = False
