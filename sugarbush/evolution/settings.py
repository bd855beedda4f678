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
    """The length of the first texts, which may depend on one attribute."""

    words: AtLeastOne | Annotated[tuple[AtLeastOne, ...], Field(min_length=1)] = 80
    """Number of words that a prompt requests, or a list of numbers that prompts use in turn."""
    attribute: str | None = None
    """Attribute that decides the length; null: every prompt requests `words`."""
    words_by_value: dict[str, int] | None = None
    """Number of words for each value of `attribute`."""

    def of(self, place: int, value: str | None = None) -> int:
        """Return the number of words for request number `place` with `value` of the attribute.

        >>> [FirstLength(words=[8, 15]).of(place) for place in range(3)]
        [8, 15, 8]
        """
        if value is not None and value in (self.words_by_value or {}):
            return (self.words_by_value or {})[value]
        return self.words if isinstance(self.words, int) else self.words[place % len(self.words)]

    @property
    def longest(self) -> int:
        """The largest number of words that a prompt may request."""
        words = (self.words,) if isinstance(self.words, int) else self.words
        return max(*words, *(self.words_by_value or {}).values(), 1)


class Selection(StrEnum):
    """How survivors are chosen: by noisy votes, or by noisy kernel scores of all candidates.

    Settings and cache keys of earlier versions name kernel herding `herded`. The setting `sample`
    of version 0.1 means rank.
    """

    RANK = "rank"
    KERNEL_HERDING = "kernel_herding"

    @classmethod
    def _missing_(cls, value: object) -> Selection | None:
        return {"herded": cls.KERNEL_HERDING, "sample": cls.RANK}.get(str(value))

    @property
    def record_l2_sensitivity(self) -> int:
        """The L2 sensitivity to one record: 1 for votes, RESOLUTION for kernel scores."""
        return RESOLUTION if self is Selection.KERNEL_HERDING else 1


class CandidateSettings(Section):
    """Settings of the prompts and of the number of candidates."""

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
    """Width of the kernel for kernel scores, as a cosine distance."""

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
    """Whether copies of a candidate are dropped before the vote."""
    selection: Selection = Selection.RANK
    """rank (by votes), or kernel_herding (by kernel scores of all candidates)."""
    threshold: NotNegative = 0.0
    """Votes become max(votes - threshold * stddev of the noise, 0)."""
    mask_share: Share = 0.5
    """Fraction of a parent's words that a variation replaces; below 0.05: a paraphrase."""
    tones: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """Tones of the variations, used in turn, such as [formal, angry]; []: no tone."""
    word_scale: NotNegative = 0.0
    """Standard deviation of a variation's length in words, divided by mask_share."""
    min_words: AtLeastOne = 25
    """Minimum number of words that a variation requests."""

    @property
    def shows_metadata(self) -> bool:
        """Whether a first prompt names attribute values, such as the label with `by_label`."""
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
                "selection: kernel_herding needs by_label: false and threshold: 0. Set these "
                "values, or set selection: rank"
            )
        return self


class InitialiseSettings(Section):
    """The first prompts of every method."""

    length: FirstLength = FirstLength()
    again: Annotated[float, Field(ge=0, le=0.5)] = 0.2
    """Share of the first requests that is kept to request contradicted values again."""
