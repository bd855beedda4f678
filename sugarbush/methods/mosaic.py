"""Mosaic: each record scores many texts, and the scores decide which texts are released.

The generator writes texts from rows of the DP table and donated examples. Every record gives each
text a kernel score, and only noisy sums of the scores are released. The noisy sums are a DP kernel
mean embedding of the corpus. Stage `enlarge` writes further texts and predicts their scores by
regression. Kernel herding then chooses the release. The same noisy sum contains the sums of the
records' embeddings by attribute value, which help to read the labels of the texts.

**One release of scores, or rounds.** Usually the records score once, with the whole share
`synthesis`. First texts may be far from the records if prompts show no donated examples and the
generator draws texts of a pool. Then there are ROUNDS rounds. Round 1 scores the first texts.
Herding chooses a quarter of the texts, the next round scores them with three variations of each,
and so on. Each round has an equal part of the share (of mu squared). The last round has the sums by
attribute value.

Guarantee: the noisy sums of each round are one discrete Gaussian mechanism. The L2 sensitivity is
RESOLUTION for one record (`sugarbush.evolution.scorers`), and `records_per_user` * RESOLUTION
for one user. All later steps are post-processing, so neither the size of the release nor the number
of scored texts affects the privacy cost of a run.

Proof for the rounds. Let R_t be the noisy sums of round t. The texts C_t that round t scores are a
function of the public inputs, the DP table, public seeds and R_1, .., R_(t-1): herding and the
generator read nothing else. So for every value of the earlier outputs, C_t is fixed, and R_t is a
discrete Gaussian mechanism with the noise and the sensitivity of the plan, for neighbours that
differ in one record or one user. The number of rounds and the noise are fixed before the first
draw. So the rounds are an adaptive composition of mechanisms that are each dominated by the same
pair of distributions, and the composition of the pairs dominates it (Zhu, Dong, Wang 2022, Theorem
10). The ledger and the plan count this composition: one event for each round.

Sources:

    first texts                       Chien et al. 2026 (MAPLE)
    kernel mean embeddings under DP   Balog, Tolstikhin, Schölkopf 2018
    herding                           Chen, Welling, Smola 2010
    measurements                      docs/decisions/mosaic.md
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Final, Self

from pydantic import PrivateAttr

from sugarbush.evolution.enlargers import ByPredictedScores
from sugarbush.evolution.parts import Parts
from sugarbush.evolution.prompts import Prompts
from sugarbush.evolution.scorers import ScoresAndClassSums
from sugarbush.evolution.selectors import ByHerding
from sugarbush.evolution.starts import FromTable
from sugarbush.evolution.variation import FillIn
from sugarbush.methods.interface import MethodContext
from sugarbush.methods.private_evolution import PromptSettings

ROUNDS: Final = 4
_VARIATIONS: Final = 3  # of each survivor
# Shares of mu^2 for the sums by class; docs/decisions/class-sums.md
_CLASS_SHARE: Final = 0.1
_CLASS_SHARE_OF_MANY: Final = 0.3
_MANY_SCORED: Final = 2000


class Mosaic(PromptSettings):
    """Mosaic. Each record scores `candidates` texts, and kernel herding chooses the release.

    The records score once. In a project with a pool as generator and without donated examples in
    its prompts, they score in four rounds, each with `candidates` texts.

    Without `candidates`, the number of scored texts follows `release.texts` of the project, so that
    a small release needs few calls: four per released text, but at least 400 and at most 2,000.
    Without `release.texts`, the number is two per record of the DP count. A release of another size
    needs no new charge if the number of scored texts stays the same, for example with `candidates`.

    >>> Mosaic().prompts().candidate_count(None, texts=300)
    1200
    >>> [request.count for request in Mosaic().budget_requests()]  # DP table, and one noisy sum
    [0, 1]
    """

    name: ClassVar[str] = "mosaic"

    _in_rounds: bool = PrivateAttr(default=False)

    def in_project(self, context: MethodContext) -> Self:
        """Return the method for the project. If `candidates` is null, `release.texts` decides it.
        The prompts and the generator decide whether there are rounds.
        """
        method = super().in_project(context)
        count = method.candidates
        if count is None and context.texts is not None:
            count = method.prompts().candidate_count(None, texts=context.texts)
        shows_examples = method.prompts().shows_examples and method.examples > 0
        method = method.model_copy(update={"candidates": count})
        method._in_rounds = not shows_examples and not context.follows_requests  # noqa: SLF001
        return method

    def prompts(self) -> Prompts:
        return replace(super().prompts(), per_record=2.0, per_text=4, least=400)

    def parts(self) -> Parts:
        return self.rounds() if self._in_rounds else self.one_release()

    def one_release(self) -> Parts:
        """Return the parts of one release of scores.

        If the settings say that 2,000 texts are scored, as for a release of 500 texts or more, the
        release is for training: labels matter more and the selection matters less. Settings decide
        the share, never the records.
        """
        many = (self.candidates or 0) >= _MANY_SCORED
        return Parts(
            start=FromTable(self.prompts()),
            scorer=ScoresAndClassSums(class_share=_CLASS_SHARE_OF_MANY if many else _CLASS_SHARE),
            enlarger=ByPredictedScores(),
        )

    def rounds(self) -> Parts:
        """Return the parts of ROUNDS rounds of scores."""
        return replace(
            self.one_release(),
            scorer=ScoresAndClassSums(class_share=_CLASS_SHARE),
            selector=ByHerding(),
            varier=FillIn(copies=_VARIATIONS),
            rounds=ROUNDS,
            scores_first=True,
        )
