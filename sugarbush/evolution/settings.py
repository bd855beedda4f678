"""Settings of `sugarbush.evolution`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from sugarbush.data.lengths import length_at
from sugarbush.settings import AtLeastOne, Section

_SomeNumbers = Annotated[tuple[AtLeastOne, ...], Field(min_length=1)]


class PromptContent(StrEnum):
    """The content of the first prompt."""

    INDEPENDENT = "independent"
    METADATA = "metadata"
    EXAMPLES = "examples"
    BOTH = "both"


class FirstLength(Section):
    """The length of the first texts, which may depend on one attribute."""

    words: AtLeastOne | _SomeNumbers | None = None
    """Requested number of words, or quantiles; null: from the donated texts or the records."""
    attribute: str | None = None
    """Attribute that decides the length; null: every prompt requests `words`."""
    words_by_value: dict[str, int] | None = None
    """Number of words for each value of `attribute`."""

    def of(self, share: float, value: str | None = None) -> int | None:
        """Return the number of words for a request with `value` of the attribute, or None.

        `share` in [0, 1) chooses the length from the distribution that `words` describes.

        >>> [FirstLength(words=[8, 15]).of(share) for share in (0.1, 0.4, 0.9)]
        [8, 10, 15]
        """
        if value is not None and value in (self.words_by_value or {}):
            return (self.words_by_value or {})[value]
        return length_at(self.numbers, share) if self.numbers else None

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of `words`; () if nothing says how long the texts are."""
        return (self.words,) if isinstance(self.words, int) else self.words or ()

    @property
    def longest(self) -> int | None:
        """The largest number of words that a prompt may request, or None."""
        return max((*self.numbers, *(self.words_by_value or {}).values()), default=None)


class InitialiseSettings(Section):
    """The first prompts of every method."""

    length: FirstLength = FirstLength()
    again: Annotated[float, Field(ge=0, le=0.5)] = 0.2
    """Share of the first requests that is reserved to request contradicted values again."""
