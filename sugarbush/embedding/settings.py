"""Settings of `sugarbush.embedding`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sugarbush.settings import Section


class EmbeddingSettings(Section):
    """The encoder for votes, metrics and the pool."""

    model: str = "bundled"
    """bundled (MiniLM), a sentence-transformers name or folder, or a registered encoder."""
    max_tokens: Annotated[int, Field(ge=8)] = 128
    """Tokens of a text that are read; the bundled model reads at most 256."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Type of the weights; auto: float32."""
