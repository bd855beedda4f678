"""Settings of `sugarbush.embedding`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sugarbush.settings import Section


class EmbeddingSettings(Section):
    """The encoder for votes and metrics."""

    model: str = "bundled"
    """bundled (MiniLM, no download), or a sentence-transformers model by name or path."""
    max_tokens: Annotated[int, Field(ge=8)] = 128
    """Tokens of a text that the encoder reads."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """auto, float32 or bfloat16."""
