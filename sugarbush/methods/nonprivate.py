"""The baseline without noise."""

from __future__ import annotations

from sugarbush.evolution.settings import EvolutionSettings


class NonPrivate(EvolutionSettings):
    """maple without noise, on data declared public: the best that a method can reach."""
