"""Settings of the generator that calls an OpenAI-compatible endpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from sugarbush.generators.examples import EXAMPLE_SETS
from sugarbush.generators.interface import (
    GeneratorContext,
    GeneratorFacts,
    GeneratorSettings,
    Request,
)
from sugarbush.generators.openai.endpoint_settings import EndpointSettings
from sugarbush.privacy.data_types import Released

if TYPE_CHECKING:
    from sugarbush.generators.openai.generator import OpenAiGenerator


class OpenAI(EndpointSettings, GeneratorSettings):
    """Uses any OpenAI-compatible endpoint as a generator.

    >>> OpenAI(model="my-model", base_url="http://localhost:8000/v1", temperature=0.7).facts().model
    'my-model'
    """

    name: ClassVar[str] = "openai"
    setting: ClassVar[str] = "generator.openai"
    example_sets: ClassVar[int] = EXAMPLE_SETS

    def open(self, context: GeneratorContext) -> OpenAiGenerator:
        from sugarbush.generators.openai.generator import OpenAiGenerator

        return OpenAiGenerator(
            self,
            seed=context.seed,
            state=context.state,
            account=context.account,
            stage=context.stage,
            say=context.say,
        )

    def facts(self) -> GeneratorFacts:
        return GeneratorFacts(provider=self.name, model=self.model, endpoint=self.address)

    def preflight(self, context: GeneratorContext, planned: Released[tuple[Request, ...]]) -> None:
        self.open(context).check(planned)

    @property
    def answer_token_limit(self) -> int:
        return self.max_tokens

    @property
    def endpoint(self) -> EndpointSettings:
        return self
