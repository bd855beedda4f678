"""Aug-PE."""

from __future__ import annotations

from sugarbush.evolution.settings import EvolutionSettings, PromptContent
from sugarbush.settings import AtLeastOne, Count, NotNegative


class AugPE(EvolutionSettings):
    """Private evolution from prompts without private data (Xie et al. 2024)."""

    prompt: PromptContent = PromptContent.INDEPENDENT
    examples: Count = 0
    candidates: AtLeastOne | None = 2000
    max_candidates: AtLeastOne = 20_000
    rounds: Count = 10
    variations: AtLeastOne = 7
    by_label: bool = True
    word_scale: NotNegative = 20.0
