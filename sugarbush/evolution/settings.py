"""Settings of `sugarbush.evolution`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from sugarbush.settings import AtLeastOne, Section


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

    def of(self, number: int, value: str | None = None) -> int:
        """Return the number of words for request `number` with `value` of the attribute.

        >>> [FirstLength(words=[8, 15]).of(number) for number in range(3)]
        [8, 15, 8]
        """
        if value is not None and value in (self.words_by_value or {}):
            return (self.words_by_value or {})[value]
        return self.words if isinstance(self.words, int) else self.words[number % len(self.words)]

    @property
    def longest(self) -> int:
        """The largest number of words that a prompt may request."""
        words = (self.words,) if isinstance(self.words, int) else self.words
        return max(*words, *(self.words_by_value or {}).values(), 1)


class InitialiseSettings(Section):
    """The first prompts of every method."""

    length: FirstLength = FirstLength()
    again: Annotated[float, Field(ge=0, le=0.5)] = 0.2
    """Share of the first requests that is kept to request contradicted values again."""
