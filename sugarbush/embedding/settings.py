"""Settings of `sugarbush.embedding`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sugarbush.settings import Section


class EmbeddingSettings(Section):
    """The encoder that converts texts to vectors for votes, metrics and the generator pool."""

    model: str = "bundled"
    """bundled (MiniLM), light (less exact), a model's name or folder, or a registered encoder."""
    max_tokens: Annotated[int, Field(ge=8)] = 1024
    """Maximum number of tokens that the encoder reads of a text; bundled: 256 at a time."""
