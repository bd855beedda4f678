"""Settings of `sugarbush.embedding`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field

from sugarbush.settings import Section


class EmbeddingSettings(Section):
    """The encoder: it turns texts into vectors for votes, metrics and the pool generator."""

    removed_settings: ClassVar[Mapping[str, Any]] = {"precision": "auto"}

    model: str = "bundled"
    """bundled (MiniLM), a sentence-transformers name or folder, or a registered encoder."""
    max_tokens: Annotated[int, Field(ge=8)] = 128
    """Number of tokens that are read of a text. The bundled model reads at most 256."""

    def cache_key(self) -> dict[str, Any]:
        """Return the settings for keys of finished results. As in version 0.1, they include
        `precision`."""
        return {**self.model_dump(mode="json"), **self.removed_settings}
