"""Private Evolution as a method: first candidates, then rounds of votes and variation.

The subclasses differ in their defaults and first candidates. Source: Xie et al. 2024, Algorithm 1.
"""

from __future__ import annotations

from typing import Any, ClassVar, Unpack

from sugarbush.evolution.kernel_scores import RESOLUTION
from sugarbush.evolution.population import Population
from sugarbush.evolution.settings import EvolutionSettings, Selection
from sugarbush.evolution.voting import PrivateEmbeddings
from sugarbush.generators.interface import VariationRequest
from sugarbush.methods.generating import GeneratingMethod
from sugarbush.methods.interface import (
    FinalSet,
    MethodInputs,
    PlannedCalls,
    PromptParts,
    ShareRequest,
)
from sugarbush.privacy.data_types import Private, Released


class EvolvingMethod(EvolutionSettings, GeneratingMethod):
    """A method in which a generator writes candidates and private records vote on them."""

    votes_with_noise: ClassVar[bool] = True  # whether rounds spend budget

    def first_count(self, record_count: float | None) -> int:
        """Return the number of first candidates: candidates of a round / `variations`."""
        return max(1, super().first_count(record_count) // self.variations)

    def texts_before(self, first: int) -> int:
        """Return the number of texts before `enlarge`.

        After votes, a method has the survivors. After kernel scores, a method has all candidates of
        the last round.
        """
        return first * self.variations if self.vote_unit > 1 else first

    def share_requests(self) -> tuple[ShareRequest, ...]:
        if not (self.votes_with_noise and self.rounds):
            return ()
        return (
            ShareRequest(
                name=self.vote_part,
                share="synthesis",
                count=self.rounds,
                record_l2_sensitivity=self.vote_unit,
                setting=f"methods.{self.name}.rounds={self.rounds}",
            ),
        )

    @property
    def vote_unit(self) -> int:
        """Return 1 for votes, or RESOLUTION for kernel scores."""
        scored = self.votes_with_noise and self.selection is Selection.KERNEL_HERDING
        return RESOLUTION if scored else 1

    def evolve(
        self, inputs: MethodInputs, first: Released[Population] | None, *, forced: bool
    ) -> FinalSet:
        """Run all rounds. Finished rounds are restored.

        Raises BudgetExceededError if the cap does not allow all rounds.
        """
        return self.evolved(inputs, first, self, forced=forced)

    def private_embeddings(self, inputs: MethodInputs) -> Private[PrivateEmbeddings]:
        """Embed the private records. With `by_label`, the result has labels."""
        if not self.by_label:
            return super().private_embeddings(inputs)
        vectors = inputs.corpus.embeddings(inputs.encode_private)
        place = inputs.schema.names.index(inputs.label)
        codes = inputs.corpus.codes(inputs.schema.names)
        return vectors.zip_batch(codes, lambda own, table: PrivateEmbeddings(own, table[:, place]))

    def settings_in_use(self) -> dict[str, Any]:
        """Return the settings for cache keys.

        Old cache keys lack the settings that were added later. A later setting with its default is
        omitted, so that old finished rounds are restored. Without kernel scores, `score_width` is
        omitted.
        """
        fields = self.key_settings()
        added = {
            "contrast": 0,
            "final": "survivors",
            "tones": [],
            "distinct": False,
            "score_width": 0.2,
        }
        if self.selection is not Selection.KERNEL_HERDING:
            del fields["score_width"]
        return {name: value for name, value in fields.items() if added.get(name, ...) != value}

    def planned_calls(
        self, *, record_count: float | None, **prompt: Unpack[PromptParts]
    ) -> tuple[PlannedCalls, ...]:
        first = super().planned_calls(record_count=record_count, **prompt)
        request, calls = first[0].request, first[0].calls * (self.variations - 1)
        words = request.words or 0
        vary = VariationRequest(
            subject=request.subject,
            parent="word " * words,
            mask_share=self.mask_share,
            words=words,
        )
        rounds = (("evolve", f"round {n}", calls) for n in range(1, self.rounds + 1))
        return (*first, *self._planned(*rounds, request=vary))
