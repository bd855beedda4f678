"""Settings of `sugarbush.evolution`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, model_validator

from sugarbush.evolution.kernel_scores import RESOLUTION
from sugarbush.settings import Section


class PromptContent(StrEnum):
    """What the first prompt holds."""

    INDEPENDENT = "independent"
    METADATA = "metadata"
    EXAMPLES = "examples"
    BOTH = "both"


class FirstLength(Section):
    """Words asked for at the start: a number, or by the value of a binned attribute."""

    words: Annotated[int, Field(ge=1)]
    attribute: str | None
    words_by_value: dict[str, int] | None


class Selection(StrEnum):
    """How survivors are chosen: from noisy votes, or from noisy scores of all candidates."""

    RANK = "rank"
    SAMPLE = "sample"
    HERDED = "herded"

    @property
    def record_l2_sensitivity(self) -> int:
        """L2 sensitivity of one round to one record: 1 for votes, RESOLUTION for kernel scores."""
        return RESOLUTION if self is Selection.HERDED else 1


class FinalSet(StrEnum):
    """Which of the last candidates the final set is made of."""

    SURVIVORS = "survivors"
    DENSITY = "density"


class EvolutionSettings(Section):
    """One method's way from first candidates to the final set.

    `candidates` fixes their number; None derives it as `candidates_per_record` of the *DP* record
    count. `variations` is L: each survivor gives L-1 variations and stays itself. `threshold` is
    in standard deviations of the vote noise. `tones` are asked for in turn; `contrast` is how many
    candidates of the last round with most votes, and with fewest, a variation is shown as good and
    bad examples. `distinct` drops candidates whose text is there already. With `selection` herded
    records score every candidate, by a kernel of `score_width` in cosines, instead of voting for
    one. `final` says which of the last candidates are the final set, of as many as there are
    survivors: the survivors, or a choice by the density of the votes; `expansion` texts come from
    each of them: itself and variations that are not voted on.
    """

    prompt: PromptContent
    examples: Annotated[int, Field(ge=0)]
    candidates: Annotated[int, Field(ge=1)] | None
    candidates_per_record: Annotated[float, Field(gt=0)]
    max_candidates: Annotated[int, Field(ge=1)]
    rounds: Annotated[int, Field(ge=0)]
    variations: Annotated[int, Field(ge=1)]
    by_label: bool
    distinct: bool
    selection: Selection
    score_width: Annotated[float, Field(ge=0.005)]
    threshold: Annotated[float, Field(ge=0)]
    mask_share: Annotated[float, Field(gt=0, le=1)]
    tones: tuple[Annotated[str, Field(min_length=1)], ...]
    contrast: Annotated[int, Field(ge=0)]
    word_scale: Annotated[float, Field(ge=0)]
    min_words: Annotated[int, Field(ge=1)]
    final: FinalSet
    expansion: Annotated[int, Field(ge=1)]

    @model_validator(mode="after")
    def _scores_of_all(self) -> EvolutionSettings:
        herded = self.selection is Selection.HERDED
        if herded and (self.by_label or self.threshold or self.final is not FinalSet.SURVIVORS):
            raise ValueError(
                "selection: herded goes with by_label: false, threshold: 0 and final: survivors. "
                "A record scores the candidates of all labels, and survivors follow the density"
            )
        return self


class InitialiseSettings(Section):
    """What holds for every method's first prompt."""

    length: FirstLength
    seed: int
