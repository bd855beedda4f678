"""MAPLE."""

from __future__ import annotations

from sugarbush.evolution.settings import EvolutionSettings


class Maple(EvolutionSettings):
    """Private evolution from DP metadata and donated examples (Chien et al. 2026)."""
