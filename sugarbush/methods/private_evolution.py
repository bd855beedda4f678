"""Private Evolution as a method: rounds in which records score, and the best candidates vary.

The subclasses differ in their defaults and first candidates. Source: Xie et al. 2024, Algorithm 1.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from sugarbush.evolution.enlargers import ByPredictedScores, MostVoted
from sugarbush.evolution.parts import Parts, Start
from sugarbush.evolution.prompts import Prompts
from sugarbush.evolution.scorers import KernelScorer, NearestVotes
from sugarbush.evolution.selectors import ByHerding, ByRank
from sugarbush.evolution.settings import PromptContent
from sugarbush.evolution.variation import FillIn
from sugarbush.methods.interface import MethodContext
from sugarbush.methods.of_parts import PartsMethod
from sugarbush.settings import AtLeastOne, Count, Share


class PromptSettings(PartsMethod):
    """A method with settings of the first prompts and of the number of candidates."""

    prompt: PromptContent = PromptContent.BOTH
    """Content of the first prompt: independent (no data), metadata, examples, or both."""
    examples: Count = 10
    """Number of donated examples in a prompt."""
    candidates: AtLeastOne | None = None
    """Number of candidates in a round; null: from the DP record count."""

    def in_project(self, context: MethodContext) -> Self:
        """Return the method with metadata alone in its prompts if there are no donated examples."""
        if context.has_donated or self.prompt is not PromptContent.BOTH:
            return self
        return self.model_copy(update={"prompt": PromptContent.METADATA})

    def prompts(self) -> Prompts:
        return Prompts(content=self.prompt, examples=self.examples, candidates=self.candidates)


class ScorerName(StrEnum):
    """What a record gives to each candidate, and how survivors are chosen."""

    VOTES = "votes"
    KERNEL = "kernel"


class RoundSettings(PromptSettings):
    """The rounds of a method, from the first candidates to the final set."""

    rounds: Count = 2
    """Number of rounds of private scores. Each round spends budget."""
    variations: AtLeastOne = 4
    """Number of candidates from each survivor: the survivor itself and its variations."""
    scorer: ScorerName = ScorerName.VOTES
    """votes (for the nearest candidates; the best survive), or kernel (scores and herding)."""
    votes: Annotated[int, Field(ge=1, le=100)] = 1
    """Number of nearest candidates that share a record's vote."""
    mask_share: Share = 0.5
    """Fraction of a parent's words that a variation replaces; below 0.05: a paraphrase."""
    tones: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """Tones of the variations, used in turn, such as [formal, angry]; []: no tone."""

    @model_validator(mode="after")
    def _scores_are_for_all(self) -> Self:
        if self.scorer is ScorerName.KERNEL and self.votes > 1:
            raise ValueError("scorer: kernel scores all candidates. Set votes: 1, or scorer: votes")
        return self


class PrivateEvolution(RoundSettings):
    """A method with rounds of variation, scores and selection."""

    word_scale: ClassVar[float] = 0.0  # see `FillIn`

    def with_rounds(self, start: Start, *, by_label: bool = False) -> Parts:
        """Return the parts of rounds that begin with `start`."""
        varier = FillIn(
            copies=self.variations - 1,
            mask_share=self.mask_share,
            tones=self.tones,
            word_scale=self.word_scale,
        )
        if self.scorer is ScorerName.KERNEL:
            return Parts(
                start=start,
                scorer=KernelScorer(),
                selector=ByHerding(),
                varier=varier,
                rounds=self.rounds,
                enlarger=ByPredictedScores(),
            )
        return Parts(
            start=start,
            scorer=NearestVotes(votes=self.votes, by_label=by_label),
            selector=ByRank(),
            varier=varier,
            rounds=self.rounds,
            enlarger=MostVoted(),
        )
