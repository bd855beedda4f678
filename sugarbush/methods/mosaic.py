"""Mosaic: the records score many texts once, and the release follows the scores.

The generator writes texts from rows of the DP table and donated examples. Every record gives each
text a kernel score, and one noisy sum of all scores is released. It is a DP kernel mean embedding
of the corpus at these texts. Kernel herding chooses the release; scores of texts that are written
later are predicted by regression (stage `enlarge`). There are no rounds and no variations.

Guarantee: the noisy sum is one discrete Gaussian mechanism. Its L2 sensitivity is RESOLUTION for
one record (`sugarbush.evolution.kernel_scores`), and `records_per_user` * RESOLUTION for one user.
It gets the whole share `synthesis`. Everything after it is post-processing: the size of the
release costs nothing.

Sources: the start is MAPLE's (Chien et al. 2026). Kernel mean embeddings under DP: Balog,
Tolstikhin, Schölkopf 2018. Herding: Chen, Welling, Smola 2010. `docs/decisions/mosaic.md` has the
measurements.
"""

from __future__ import annotations

from typing import ClassVar

from sugarbush.evolution.enlarge import RATIO
from sugarbush.evolution.initialisation import Targets
from sugarbush.evolution.kernel_scores import RESOLUTION
from sugarbush.evolution.population import Population
from sugarbush.evolution.settings import EvolutionSettings, Selection
from sugarbush.methods.generating import GeneratingMethod
from sugarbush.methods.interface import FinalSet, MethodInputs, ShareRequest
from sugarbush.methods.maple import TABLE, table_targets
from sugarbush.privacy.data_types import Released
from sugarbush.settings import Positive


class Mosaic(GeneratingMethod):
    """The records score `candidates` texts once, and herding chooses the release.

    The number of scored texts does not depend on the size of the release, so another size is free.

    >>> [request.count for request in Mosaic().share_requests()]  # the DP table, and one noisy sum
    [0, 1]
    """

    name: ClassVar[str] = "mosaic"

    candidates_per_record: Positive = 2.0

    def share_requests(self) -> tuple[ShareRequest, ...]:
        """The DP table, and one noisy sum of kernel scores."""
        scores = ShareRequest(
            name=self.vote_part, share="synthesis", count=1, record_l2_sensitivity=RESOLUTION
        )
        return (TABLE, scores)

    @property
    def vote_unit(self) -> int:
        """Scores have the unit 1/RESOLUTION of a vote."""
        return RESOLUTION

    @property
    def scoring(self) -> EvolutionSettings:
        """The settings of the one round of kernel scores."""
        return EvolutionSettings(
            rounds=1,
            variations=1,
            selection=Selection.KERNEL_HERDING,
            score_width=self.score_width,
            distinct=True,
        )

    def targets(self, inputs: MethodInputs, *, count: int | None, seed: int) -> Released[Targets]:
        """One row of the DP table for each text."""
        return table_targets(self, inputs, count=count, seed=seed)

    def evolve(
        self, inputs: MethodInputs, first: Released[Population] | None, *, forced: bool
    ) -> FinalSet:
        """The noisy scores of all different first texts, and half of these texts.

        Scores that were drawn before are restored. Raises BudgetExceededError before the draw if
        the cap does not allow it.
        """
        survivors = max(1, (0 if first is None else len(first.value)) // RATIO)
        return self.evolved(inputs, first, self.scoring, forced=forced, survivors=survivors)
