"""Mosaic: each record scores many texts once, and the scores decide which texts are released.

The generator writes texts from rows of the DP table and donated examples. Every record gives each
text a kernel score, and only noisy sums of the scores are released. The noisy sums are a DP kernel
mean embedding of the corpus. Stage `enlarge` writes further texts and predicts their scores by
regression. Kernel herding then chooses the release. The same noisy sum contains the sums of the
records' embeddings by attribute value, which help to read the labels of the texts.

Guarantee: the noisy sums are one discrete Gaussian mechanism, which spends the share `synthesis`.
The L2 sensitivity is RESOLUTION for one record (`sugarbush.evolution.scorers`), and
`records_per_user` * RESOLUTION for one user. All later steps are post-processing, so neither the
size of the release nor the number of scored texts affects the privacy cost of a run.

Sources:

    first texts                       Chien et al. 2026 (MAPLE)
    kernel mean embeddings under DP   Balog, Tolstikhin, Schölkopf 2018
    herding                           Chen, Welling, Smola 2010
    measurements                      docs/decisions/mosaic.md
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Self

from sugarbush.evolution.enlargers import ByPredictedScores
from sugarbush.evolution.parts import Parts
from sugarbush.evolution.prompts import Prompts
from sugarbush.evolution.scorers import ScoresAndClassSums
from sugarbush.evolution.starts import FromTable
from sugarbush.methods.interface import MethodContext
from sugarbush.methods.private_evolution import PromptSettings

_CLASS_SHARE = 0.1  # of mu^2; docs/decisions/class-sums.md


class Mosaic(PromptSettings):
    """Mosaic. Each record scores `candidates` texts once, and kernel herding chooses the release.

    Without `candidates`, the number of scored texts follows `release.texts` of the project, so that
    a small release needs few calls: four per released text, but at least 400 and at most 2,000.
    Without `release.texts`, it is two per record of the DP count. A release of another size needs
    no new charge if the number of scored texts stays the same, for example with `candidates`.

    >>> Mosaic().prompts().candidate_count(None, texts=300)
    1200
    >>> [request.count for request in Mosaic().budget_requests()]  # DP table, and one noisy sum
    [0, 1]
    """

    name: ClassVar[str] = "mosaic"

    def in_project(self, context: MethodContext) -> Self:
        """Return the method for the project. `release.texts` decides an open `candidates`."""
        method = super().in_project(context)
        if method.candidates is not None or context.texts is None:
            return method
        count = method.prompts().candidate_count(None, texts=context.texts)
        return method.model_copy(update={"candidates": count})

    def prompts(self) -> Prompts:
        return replace(super().prompts(), per_record=2.0, per_text=4, least=400)

    def parts(self) -> Parts:
        return Parts(
            start=FromTable(self.prompts()),
            scorer=ScoresAndClassSums(class_share=_CLASS_SHARE),
            enlarger=ByPredictedScores(),
        )
