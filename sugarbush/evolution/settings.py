"""Settings of `sugarbush.evolution`."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, ClassVar

from pydantic import Field, model_validator

from sugarbush.evolution.kernel_scores import RESOLUTION
from sugarbush.settings import AtLeastOne, Count, NotNegative, Positive, Section, Share


class PromptContent(StrEnum):
    """The content of the first prompt."""

    INDEPENDENT = "independent"
    METADATA = "metadata"
    EXAMPLES = "examples"
    BOTH = "both"


class FirstLength(Section):
    """The length of the first texts. It may depend on one attribute."""

    words: AtLeastOne = 80
    """Number of words that a prompt requests."""
    attribute: str | None = None
    """The attribute that decides the length; null: every text gets `words`."""
    words_by_value: dict[str, int] | None = None
    """Number of words for each value of `attribute`."""


class Selection(StrEnum):
    """How survivors are chosen: from noisy votes, or from noisy kernel scores of all candidates.

    The old name of kernel herding is `herded`. Settings may contain it, and cache keys always do.
    Version 0.1 also had `sample`, which now means rank.
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
    """Settings of the requests to the generator, and the number of candidates."""

    prompt: PromptContent = PromptContent.BOTH
    """Content of the first prompt: independent (no data), metadata, examples, or both."""
    examples: Count = 10
    """Number of donated examples in a prompt."""
    candidates: AtLeastOne | None = None
    """Number of candidates in a round; null: `candidates_per_record` times the DP record count."""
    candidates_per_record: Positive = 0.125
    """Number of candidates for each record of the DP record count."""
    max_candidates: AtLeastOne = 2000
    """Maximum number of candidates in a round."""
    score_width: Annotated[float, Field(ge=0.005)] = 0.2
    """Width of the kernel, as a cosine distance. Only kernel scores use it."""

    @property
    def shows_metadata(self) -> bool:
        """Whether a first prompt names attribute values."""
        return self.prompt in {PromptContent.METADATA, PromptContent.BOTH}

    @property
    def shows_examples(self) -> bool:
        """Whether a first prompt contains donated examples."""
        return self.prompt in {PromptContent.EXAMPLES, PromptContent.BOTH}


class EvolutionSettings(CandidateSettings):
    """The rounds of one method, from the first candidates to the final set."""

    removed_settings: ClassVar[Mapping[str, Any]] = {
        "contrast": 0,
        "final": "survivors",
        "expansion": 1,
    }

    rounds: Count = 2
    """Number of rounds of private votes. Each round spends budget."""
    variations: AtLeastOne = 4
    """Number of candidates from each survivor: the survivor itself and its variations."""
    by_label: bool = False
    """Whether a record votes only on candidates with its own label."""
    distinct: bool = False
    """Whether repeated texts are dropped before the vote."""
    selection: Selection = Selection.RANK
    """rank (by votes), or kernel_herding (by kernel scores of all candidates)."""
    threshold: NotNegative = 0.0
    """Each vote count is lowered by this many standard deviations of the noise, but not below 0."""
    mask_share: Share = 0.5
    """Share of a parent's words that a variation replaces; below 0.05: the parent is rephrased."""
    tones: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """Tones of the variations, used in turn, such as [formal, angry]; []: none."""
    word_scale: NotNegative = 0.0
    """mask_share times this number is the standard deviation of a variation's length, in words."""
    min_words: AtLeastOne = 25
    """Minimum number of words that a variation requests."""

    @property
    def shows_metadata(self) -> bool:
        """Whether a first prompt names attribute values; with `by_label` it names the label."""
        return self.by_label or super().shows_metadata

    def key_settings(self) -> dict[str, Any]:
        """Return all settings with their names in cache keys, which must not change."""
        fields = {**self.model_dump(mode="json"), **self.removed_settings}
        if self.selection is Selection.KERNEL_HERDING:
            fields["selection"] = "herded"
        return fields

    @model_validator(mode="after")
    def _scores_of_all(self) -> EvolutionSettings:
        herding = self.selection is Selection.KERNEL_HERDING
        if herding and (self.by_label or self.threshold):
            raise ValueError(
                "selection: kernel_herding needs by_label: false and threshold: 0, because a "
                "record scores the candidates of all labels. Set these values, or selection: rank"
            )
        return self


class InitialiseSettings(Section):
    """The first prompts of every method."""

    length: FirstLength = FirstLength()
    seed: int = 1
    """Seed of the first prompts."""
