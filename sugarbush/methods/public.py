"""A baseline with epsilon 0, because it uses no private data. Useful methods must be better."""

from __future__ import annotations

from typing import ClassVar, Self

from pydantic import model_validator

from sugarbush.evolution.enlargers import MostVoted
from sugarbush.evolution.parts import Parts
from sugarbush.evolution.settings import PromptContent
from sugarbush.evolution.starts import Open
from sugarbush.methods.private_evolution import PromptSettings
from sugarbush.settings import AtLeastOne, Count


class Public(PromptSettings):
    """Asks the generator, and releases the answers.

    >>> Public(candidates=100).budget_requests()
    ()
    """

    name: ClassVar[str] = "public"

    prompt: PromptContent = PromptContent.INDEPENDENT
    examples: Count = 0
    candidates: AtLeastOne | None = 500

    def parts(self) -> Parts:
        return Parts(start=Open(self.prompts()), enlarger=MostVoted())

    @model_validator(mode="after")
    def _has_a_number(self) -> Self:
        if self.candidates is None:
            raise ValueError("public releases no DP record count. Set candidates to a number")
        return self
