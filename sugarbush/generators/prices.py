"""Defines the price of tokens, and computes the cost of calls."""

from __future__ import annotations

import datetime
from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from sugarbush.settings import Section


class Price(Section):
    """The price of a million tokens. Use the same currency for all prices."""

    input: Annotated[float, Field(ge=0)]
    """Price of a million prompt tokens."""
    output: Annotated[float, Field(ge=0)]
    """Price of a million answer tokens."""
    cached: Annotated[float, Field(ge=0)] | None = None
    """Price of a million prompt tokens from the endpoint's prefix cache; null: that of `input`."""
    date: str
    """The date of the price, in quotes: '2026-11-01'."""

    @field_validator("date", mode="before")
    @classmethod
    def _is_quoted(cls, date: object) -> object:
        """Refuse a date without quotes, because DVC cannot read a file with a YAML date."""
        try:
            if isinstance(date, str):
                return datetime.date.fromisoformat(date).isoformat()
        except ValueError:
            pass  # its message quotes the value
        raise ValueError("must be a date in quotes, such as '2026-11-01'")

    @model_validator(mode="after")
    def _is_reduced(self) -> Self:
        """Refuse a higher price for cached tokens, because a call would cost more than reserved."""
        if self.cached is not None and self.cached > self.input:
            raise ValueError(f"cached={self.cached:g} must not be above input={self.input:g}")
        return self


def cost_of(
    price: Price | None,
    *,
    prompt_tokens: float,
    completion_tokens: float,
    cached_prompt_tokens: float = 0,
) -> float | None:
    """Return the cost of the tokens in the currency of `price`, or None without a price.

    `cached_prompt_tokens` is the part of `prompt_tokens` from the endpoint's prefix cache.

    >>> price = Price(input=1.0, output=4.0, cached=0.1, date="2026-11-01")
    >>> cost_of(price, prompt_tokens=10**6, completion_tokens=0, cached_prompt_tokens=5 * 10**5)
    0.55
    """
    if price is None:
        return None
    cached_price = price.input if price.cached is None else price.cached
    paid_in_full = price.input * (prompt_tokens - cached_prompt_tokens)
    reduced = cached_price * cached_prompt_tokens
    return (paid_in_full + reduced + price.output * completion_tokens) / 1_000_000
