"""Settings of `sugarbush.embedding`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field

from sugarbush.settings import Section


class EmbeddingSettings(Section):
    """Encoder that turns texts into vectors for votes, metrics and the generator pool."""

    removed_settings: ClassVar[Mapping[str, Any]] = {"precision": "auto"}

    model: str = "bundled"
    """bundled (MiniLM), a sentence-transformers name or folder, or a registered encoder."""
    max_tokens: Annotated[int, Field(ge=8)] = 128
    """Number of tokens that are read of a text. The bundled model reads at most 256."""

    def cache_key(self) -> dict[str, Any]:
        """Return the settings for keys of finished results.

        The keys contain `precision`, because version 0.1 had this setting.
        """
        return {**self.model_dump(mode="json"), **self.removed_settings}
