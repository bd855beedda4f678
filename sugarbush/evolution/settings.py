"""Settings of `sugarbush.evolution`."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, ClassVar

from pydantic import Field, model_validator

from sugarbush.evolution.kernel_scores import RESOLUTION
from sugarbush.settings import AtLeastOne, Count, NotNegative, Positive, Section, Share


class PromptContent(StrEnum):
    """What the first prompt contains."""

    INDEPENDENT = "independent"
    METADATA = "metadata"
    EXAMPLES = "examples"
    BOTH = "both"


class FirstLength(Section):
    """Length of the first texts: one number, or a number for each value of an attribute."""

    words: AtLeastOne = 80
    """Words that a prompt asks for."""
    attribute: str | None = None
    """The attribute that decides the length; null: every text gets `words`."""
    words_by_value: dict[str, int] | None = None
    """Words for each value of `attribute`."""


class Selection(StrEnum):
    """How survivors are chosen: from noisy votes, or from noisy kernel scores of all candidates.

    Kernel herding was called `herded`: settings may still say so, and cache keys always do.
    Settings of 0.1 that say `sample` get rank.
    """

    RANK = "rank"
    KERNEL_HERDING = "kernel_herding"

    @classmethod
    def _missing_(cls, value: object) -> Selection | None:
        return {"herded": cls.KERNEL_HERDING, "sample": cls.RANK}.get(str(value))

    @property
    def record_l2_sensitivity(self) -> int:
        """L2 sensitivity of one round to one record: 1 for votes, RESOLUTION for kernel scores."""
        return RESOLUTION if self is Selection.KERNEL_HERDING else 1


class CandidateSettings(Section):
    """What a method asks a generator for, and how many texts the records read."""

    prompt: PromptContent = PromptContent.BOTH
    """What the first prompt contains: independent (nothing), metadata, examples, or both."""
    examples: Count = 10
    """Donated examples in a prompt."""
    candidates: AtLeastOne | None = None
    """Candidates in a round; null: `candidates_per_record` times the DP record count."""
    candidates_per_record: Positive = 0.125
    """Candidates for each record of the DP count."""
    max_candidates: AtLeastOne = 2000
    """Candidates in a round, at most."""
    score_width: Annotated[float, Field(ge=0.005)] = 0.2
    """Width of the kernel in cosine distance, where records give kernel scores."""

    @property
    def shows_metadata(self) -> bool:
        """Whether a first prompt names attribute values."""
        return self.prompt in {PromptContent.METADATA, PromptContent.BOTH}

    @property
    def shows_examples(self) -> bool:
        """Whether a first prompt contains donated examples."""
        return self.prompt in {PromptContent.EXAMPLES, PromptContent.BOTH}


class EvolutionSettings(CandidateSettings):
    """One method's evolution, from the first candidates to the final set."""

    removed_settings: ClassVar[Mapping[str, Any]] = {
        "contrast": 0,
        "final": "survivors",
        "expansion": 1,
    }

    rounds: Count = 2
    """Rounds of private votes; each one spends budget."""
    variations: AtLeastOne = 4
    """Texts that a survivor becomes: itself and variations of it."""
    by_label: bool = False
    """Whether a record votes only on candidates of its own label."""
    distinct: bool = False
    """Whether repeated texts are dropped before the vote."""
    selection: Selection = Selection.RANK
    """rank (by votes), or kernel_herding (by kernel scores of all candidates)."""
    threshold: NotNegative = 0.0
    """Standard deviations of the noise that are subtracted from each vote count, down to 0."""
    mask_share: Share = 0.5
    """Share of a parent's words that a variation replaces; below 0.05: it is rephrased."""
    tones: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """Tones that variations ask for in turn, such as [formal, angry]; []: none."""
    word_scale: NotNegative = 0.0
    """Spread of the length of variations, in words, before it is multiplied by mask_share."""
    min_words: AtLeastOne = 25
    """Words that a variation asks for, at least."""

    @property
    def shows_metadata(self) -> bool:
        """Whether a first prompt names attribute values; with votes by label it names the label."""
        return self.by_label or super().shows_metadata

    def key_settings(self) -> dict[str, Any]:
        """All settings as cache keys spell them, so that finished rounds stay known."""
        fields = {**self.model_dump(mode="json"), **self.removed_settings}
        if self.selection is Selection.KERNEL_HERDING:
            fields["selection"] = "herded"
        return fields

    @model_validator(mode="after")
    def _scores_of_all(self) -> EvolutionSettings:
        herding = self.selection is Selection.KERNEL_HERDING
        if herding and (self.by_label or self.threshold):
            raise ValueError(
                "selection: kernel_herding goes with by_label: false and threshold: 0. A record "
                "scores the candidates of all labels, and survivors follow the density"
            )
        return self


class InitialiseSettings(Section):
    """The first prompts of every method."""

    length: FirstLength = FirstLength()
    seed: int = 1
    """Seed of the first prompts."""
