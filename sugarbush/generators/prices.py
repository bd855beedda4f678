"""Defines the price of tokens, and computes the cost of calls."""

from __future__ import annotations

import datetime
from typing import Annotated

from pydantic import Field, field_validator

from sugarbush.settings import Section


class Price(Section):
    """The price of a million tokens. Use the same currency for all prices."""

    input: Annotated[float, Field(ge=0)]
    """Price of a million prompt tokens."""
    output: Annotated[float, Field(ge=0)]
    """Price of a million answer tokens."""
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


def cost_of(price: Price | None, *, prompt_tokens: float, completion_tokens: float) -> float | None:
    """Return the cost of the tokens in the currency of `price`, or None without a price."""
    if price is None:
        return None
    return (price.input * prompt_tokens + price.output * completion_tokens) / 1_000_000
