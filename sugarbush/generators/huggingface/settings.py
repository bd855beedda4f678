"""Settings of the generator that runs a language model on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from sugarbush.extras import require_extra
from sugarbush.generators.examples import EXAMPLE_SETS
from sugarbush.generators.huggingface.model_settings import LocalModelSettings, is_gguf
from sugarbush.generators.interface import (
    GeneratorContext,
    GeneratorFacts,
    GeneratorSettings,
    Request,
)
from sugarbush.privacy.data_types import Released

if TYPE_CHECKING:
    from sugarbush.generators.huggingface.generator import HuggingFaceGenerator


class HuggingFace(LocalModelSettings, GeneratorSettings):
    """Runs a causal language model on this machine, through OpenVINO GenAI or transformers.

    >>> HuggingFace(model="gpt2", max_tokens=200).answer_token_limit
    200
    """

    name: ClassVar[str] = "huggingface"
    example_sets: ClassVar[int] = EXAMPLE_SETS

    def alternatives(self, *, examples: bool) -> tuple[GeneratorSettings, ...]:
        """Return both forms of prompts, if the model has a chat template and there are examples."""
        if self.form != "auto" or not examples:
            return (self,)
        from sugarbush.generators.huggingface.engines import open_writer

        if not open_writer(self).local.chats:
            return (self,)
        return tuple(self.model_copy(update={"form": form}) for form in ("chat", "list"))

    def open(self, context: GeneratorContext) -> HuggingFaceGenerator:
        from sugarbush.generators.huggingface.generator import HuggingFaceGenerator

        return HuggingFaceGenerator(self, seed=context.seed, state=context.state, say=context.say)

    def identity(self) -> dict[str, Any]:
        """Return the settings and, where OpenVINO GenAI runs the model, its version."""
        if not is_gguf(self.model):
            return super().identity()
        from sugarbush.generators.huggingface.engines import engine_name

        name = engine_name(self)
        return super().identity() | ({"engine": name} if name else {})

    def facts(self) -> GeneratorFacts:
        return GeneratorFacts(provider=self.name, model=Path(self.model).name)

    def require_packages(self) -> None:
        if is_gguf(self.model):
            require_extra("gguf")

    def preflight(self, context: GeneratorContext, planned: Released[tuple[Request, ...]]) -> None:
        self.open(context).check(planned)

    @property
    def answer_token_limit(self) -> int:
        return self.max_tokens
