"""Settings of the generator that runs a language model on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, Literal

from pydantic import Field

from sugarbush.generators.interface import (
    GeneratorContext,
    GeneratorFacts,
    GeneratorSettings,
    Request,
)
from sugarbush.privacy.data_types import Released
from sugarbush.settings import NOT_IN_OUTPUT

if TYPE_CHECKING:
    from sugarbush.generators.huggingface.generator import HuggingFaceGenerator

TOP_P: Final = 0.95  # probability of nucleus sampling


class HuggingFace(GeneratorSettings):
    """Runs a causal language model on this machine, through transformers.

    >>> HuggingFace(model="gpt2", max_tokens=200).answer_token_limit
    200
    """

    name: ClassVar[str] = "huggingface"

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

    def alternatives(self, *, examples: bool) -> tuple[GeneratorSettings, ...]:
        """Return both forms of prompts, if the model has a chat template and there are examples."""
        if self.form != "auto" or not examples:
            return (self,)
        from sugarbush.generators.huggingface.model import load_model

        if not load_model(self).chats:
            return (self,)
        return tuple(self.model_copy(update={"form": form}) for form in ("chat", "list"))

    def open(self, context: GeneratorContext) -> HuggingFaceGenerator:
        from sugarbush.generators.huggingface.generator import HuggingFaceGenerator

        return HuggingFaceGenerator(self, seed=context.seed, state=context.state, say=context.say)

    def facts(self) -> GeneratorFacts:
        return GeneratorFacts(provider=self.name, model=Path(self.model).name)

    def preflight(self, context: GeneratorContext, planned: Released[tuple[Request, ...]]) -> None:
        self.open(context).check(planned)

    @property
    def answer_token_limit(self) -> int:
        return self.max_tokens
