"""A baseline with epsilon 0, because it uses no private data. Useful methods must be better."""

from __future__ import annotations

from typing import ClassVar, Self

from pydantic import model_validator

from sugarbush.evolution.settings import PromptContent
from sugarbush.methods.evolving import EvolvingMethod
from sugarbush.settings import AtLeastOne, Count


class Public(EvolvingMethod):
    """The method `augpe` without labels and votes.

    >>> Public(candidates=100).share_requests()
    ()
    """

    name: ClassVar[str] = "public"
    votes_with_noise: ClassVar[bool] = False

    prompt: PromptContent = PromptContent.INDEPENDENT
    examples: Count = 0
    candidates: AtLeastOne | None = 500
    rounds: Count = 0
    variations: AtLeastOne = 1

    @model_validator(mode="after")
    def _has_no_rounds(self) -> Self:
        if self.rounds:
            raise ValueError("public has no votes, so it has no rounds. Remove the setting rounds")
        if self.candidates is None:
            raise ValueError("public releases no DP record count. Set candidates to a number")
        return self
