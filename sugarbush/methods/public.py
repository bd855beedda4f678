"""The baseline without private data."""

from __future__ import annotations

from sugarbush.evolution.settings import EvolutionSettings, PromptContent
from sugarbush.settings import AtLeastOne, Count


class Public(EvolutionSettings):
    """The same prompts without any private data: the baseline that a method must beat."""

    prompt: PromptContent = PromptContent.INDEPENDENT
    examples: Count = 0
    candidates: AtLeastOne | None = 500
    rounds: Count = 0
    variations: AtLeastOne = 1
