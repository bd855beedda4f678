"""Settings of a language model on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from sugarbush.settings import NOT_IN_OUTPUT, Section


def is_gguf(model: str) -> bool:
    """Return whether a setting names a GGUF file."""
    return Path(model).suffix.lower() == ".gguf"


class LocalModelSettings(Section):
    """A causal language model on this machine. On a CPU with the extra gguf, OpenVINO GenAI runs it
    if it can; transformers runs all other models."""

    top_p: ClassVar[float] = 0.95
    """Sample from the most likely tokens with this total probability."""
    model: str
    """A model's name at the Hugging Face hub, its folder, or a GGUF file."""
    device: Annotated[str, NOT_IN_OUTPUT] = "auto"
    """Device of the model: auto (a GPU if there is one), cpu, cuda, or cuda:1."""
    form: Literal["auto", "chat", "list"] = "auto"
    """Form of prompts: chat, or list (the model continues a list of texts); auto: a rehearsal tries
    both. Without a rehearsal, a model with a chat template chats."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """Type of the weights; auto: bfloat16 on a GPU, float32 on a CPU."""
    temperature: Annotated[float, Field(gt=0)] = 1.0
    """Sampling temperature."""
    max_tokens: Annotated[int, Field(ge=1)] = 256
    """Maximum number of tokens in an answer."""
    batch_tokens: Annotated[int, Field(ge=64), NOT_IN_OUTPUT] = 16384
    """Maximum number of tokens in a batch (prompts plus answers). A smaller number needs less
    memory."""
