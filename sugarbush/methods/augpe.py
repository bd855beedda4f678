"""AugPE: first prompts without private data, then ten rounds in which records vote by label.

Source: Xie et al. 2024, "Differentially Private Synthetic Data via Foundation Model APIs 2: Text".
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Self

from pydantic import model_validator

from sugarbush.evolution.parts import Parts
from sugarbush.evolution.prompts import Prompts
from sugarbush.evolution.settings import PromptContent
from sugarbush.evolution.starts import FromLabels, Open
from sugarbush.methods.private_evolution import PrivateEvolution, ScorerName
from sugarbush.settings import AtLeastOne, Count


class AugPE(PrivateEvolution):
    """AugPE. The DP counts of a label decide the labels of the first candidates.

    >>> [request.name for request in AugPE(rounds=3).budget_requests()]
    ['labels', 'votes:augpe']
    """

    name: ClassVar[str] = "augpe"
    word_scale: ClassVar[float] = 20.0

    prompt: PromptContent = PromptContent.INDEPENDENT
    examples: Count = 0
    candidates: AtLeastOne | None = 2000
    rounds: Count = 10
    variations: AtLeastOne = 7
    by_label: bool = True
    """Whether a record votes only on candidates with its own label."""

    def prompts(self) -> Prompts:
        return replace(super().prompts(), most=20_000, with_label=self.by_label)

    def parts(self) -> Parts:
        start = FromLabels(self.prompts()) if self.by_label else Open(self.prompts())
        return self.with_rounds(start, by_label=self.by_label)

    @model_validator(mode="after")
    def _kernel_scores_have_no_labels(self) -> Self:
        if self.by_label and self.scorer is ScorerName.KERNEL:
            raise ValueError("scorer: kernel needs by_label: false. Set it, or set scorer: votes")
        return self
