"""Settings of `sugarbush.embedding`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field

from sugarbush.settings import Section


class EmbeddingSettings(Section):
    """The encoder that converts texts to vectors for votes, metrics and the generator pool."""

    removed_settings: ClassVar[Mapping[str, Any]] = {"precision": "auto"}

    model: str = "bundled"
    """bundled (MiniLM), a sentence-transformers name or folder, or a registered encoder."""
    max_tokens: Annotated[int, Field(ge=8)] = 128
    """Maximum number of tokens that the encoder reads of a text; bundled: at most 256."""

    def cache_key(self) -> dict[str, Any]:
        """Return the settings for keys of finished results, with the settings of version 0.1."""
        return {**self.model_dump(mode="json"), **self.removed_settings}
