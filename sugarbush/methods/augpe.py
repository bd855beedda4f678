"""AugPE: first prompts without private data, then ten rounds in which records vote by label.

Source: Xie et al. 2024, "Differentially Private Synthetic Data via Foundation Model APIs 2: Text".
"""

from __future__ import annotations

from typing import ClassVar

from sugarbush.errors import InvariantError
from sugarbush.evolution.initialisation import Targets, targets_by_label
from sugarbush.evolution.settings import PromptContent
from sugarbush.methods.evolving import EvolvingMethod
from sugarbush.methods.interface import LABELS, MethodInputs, ShareRequest
from sugarbush.privacy.data_types import Released
from sugarbush.settings import AtLeastOne, Count, NotNegative


class AugPE(EvolvingMethod):
    """AugPE. The DP counts of a label decide the labels of the first candidates.

    >>> AugPE(rounds=3).vote_part
    'votes:augpe'
    """

    name: ClassVar[str] = "augpe"

    prompt: PromptContent = PromptContent.INDEPENDENT
    examples: Count = 0
    candidates: AtLeastOne | None = 2000
    max_candidates: AtLeastOne = 20_000
    rounds: Count = 10
    variations: AtLeastOne = 7
    by_label: bool = True
    word_scale: NotNegative = 20.0

    def share_requests(self) -> tuple[ShareRequest, ...]:
        labels = ShareRequest(name=LABELS, share="metadata", count=1)
        return (*((labels,) if self.by_label else ()), *super().share_requests())

    def targets(self, inputs: MethodInputs, *, count: int | None, seed: int) -> Released[Targets]:
        """Return targets in proportion to the DP counts. Without `by_label`, any value fits."""
        metadata = inputs.metadata
        if not self.by_label:
            open_ = super().targets(inputs, count=count, seed=seed)
            return Released(open_.value, metadata.ledger_ids)
        if metadata.labels is None or metadata.label is None:
            raise InvariantError("augpe by label needs the DP counts of a label")
        targets = targets_by_label(
            self.first_count(float(metadata.labels.sum())) if count is None else count,
            inputs.schema,
            attribute=metadata.label,
            label_counts=metadata.labels,
        )
        return Released(targets, metadata.ledger_ids)
