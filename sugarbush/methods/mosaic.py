"""Mosaic: each record scores many texts once, and the scores decide which texts are released.

The generator writes texts from rows of the DP table and donated examples. Every record gives each
text a kernel score, and only noisy sums of the scores are released. The noisy sums are a DP kernel
mean embedding of the corpus. Stage `enlarge` writes further texts and predicts their scores by
regression. Kernel herding then chooses the release. There are no rounds and no variations.

Guarantee: the noisy sums are one discrete Gaussian mechanism, which spends the share `synthesis`.
The L2 sensitivity is RESOLUTION for one record (`sugarbush.evolution.kernel_scores`), and
`records_per_user` * RESOLUTION for one user. All later steps are post-processing, so neither the
size of the release nor the number of scored texts affects the privacy cost of a run.

Sources:

    first texts                       Chien et al. 2026 (MAPLE)
    kernel mean embeddings under DP   Balog, Tolstikhin, Schölkopf 2018
    herding                           Chen, Welling, Smola 2010
    measurements                      docs/decisions/mosaic.md
"""

from __future__ import annotations

from typing import ClassVar, Final, Self

import numpy as np

from sugarbush.evolution.enlarge import RATIO, Requests, without_repeated_texts
from sugarbush.evolution.initialisation import Targets
from sugarbush.evolution.kernel_scores import RESOLUTION
from sugarbush.evolution.population import Population
from sugarbush.evolution.settings import EvolutionSettings, Selection
from sugarbush.generators.interface import Answer
from sugarbush.methods.generating import GeneratingMethod
from sugarbush.methods.interface import FinalSet, MethodContext, MethodInputs, ShareRequest
from sugarbush.methods.maple import TABLE, table_targets
from sugarbush.privacy.data_types import Released
from sugarbush.settings import AtLeastOne, Positive

_SCORED_PER_TEXT: Final = 4  # scored texts per released text, if release.texts is set
_LEAST_SCORED: Final = 400


class Mosaic(GeneratingMethod):
    """Mosaic. Each record scores `candidates` texts once, and kernel herding chooses the release.

    Without `candidates`, the number of scored texts follows `release.texts` of the project, so that
    a small release needs few calls: four per released text, but at least 400 and at most
    `max_candidates`. Without `release.texts`, it is two per record of the DP count. A release of
    another size needs no new charge if the number of scored texts stays the same, for example with
    `candidates`.

    >>> Mosaic.scored_texts(300), Mosaic.scored_texts(20)
    (1200, 400)
    >>> [request.count for request in Mosaic().share_requests()]  # the DP table, and one noisy sum
    [0, 1]
    """

    name: ClassVar[str] = "mosaic"

    candidates: AtLeastOne | None = None
    """Number of scored texts; null: 4 per text of release.texts (at least 400), or 2 per record."""
    candidates_per_record: Positive = 2.0

    def in_project(self, context: MethodContext) -> Self:
        """Return the method for the project. `release.texts` decides an open `candidates`."""
        method, texts = super().in_project(context), context.release.texts
        if method.candidates is not None or texts is None:
            return method
        count = min(self.scored_texts(texts), method.max_candidates)
        return method.model_copy(update={"candidates": count})

    @staticmethod
    def scored_texts(texts: int) -> int:
        """Return the number of texts that are enough to choose `texts` texts from."""
        return max(_SCORED_PER_TEXT * texts, _LEAST_SCORED)

    def share_requests(self) -> tuple[ShareRequest, ...]:
        scores = ShareRequest(
            name=self.vote_part, share="synthesis", count=1, record_l2_sensitivity=RESOLUTION
        )
        return (TABLE, scores)

    @property
    def vote_unit(self) -> int:
        """The L2 norm of a record's scores, RESOLUTION, corresponds to one vote."""
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
        return table_targets(self, inputs, count=count, seed=seed)

    def first_answers(self, inputs: MethodInputs) -> tuple[Requests, tuple[Answer, ...]]:
        """Return the first requests and their answers. If so many answers repeat each other that
        the release would need texts without a score, as many further requests follow at once, in
        place of the requests of stage enlarge."""
        first, answers = super().first_answers(inputs)
        asked, needed = len(answers), RATIO * inputs.texts
        texts = [answer.text for answer in answers if answer.text is not None]
        missing = min(needed - len(without_repeated_texts(texts)), asked)
        if asked < needed or missing <= 0:
            return first, answers
        further = self.first_requests(inputs, count=asked + missing).map(
            lambda both: (both[0].take(np.arange(asked, asked + missing)), both[1][asked:])
        )
        answers += self._answers(inputs, further.map(lambda both: both[1]))
        return first.map(
            lambda both: (both[0].join(further.value[0]), both[1] + further.value[1])
        ), answers

    def evolve(
        self, inputs: MethodInputs, first: Released[Population] | None, *, forced: bool
    ) -> FinalSet:
        """Return the noisy scores of all distinct first texts, and half of these texts.

        Finished scores are restored. Raises BudgetExceededError before the charge.
        """
        survivors = max(1, (0 if first is None else len(first.value)) // RATIO)
        return self.evolved(inputs, first, self.scoring, forced=forced, survivors=survivors)
