"""Settings of `sugarbush.attributes`."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field, field_validator

from sugarbush.errors import ParamsError
from sugarbush.generators.openai.endpoint_settings import CallMode, EndpointSettings
from sugarbush.settings import Section


class LabelEndpoint(EndpointSettings):
    """The endpoint that reads attributes with `source: llm` from private texts.

    Limits, timeouts and prices that are not set have the values of `generator.openai`.
    """

    setting: ClassVar[str] = "extract_metadata.llm"
    reads_private_text: ClassVar[bool] = True

    trusted: bool = False
    """Whether the endpoint may receive every private text."""
    max_tokens: Annotated[int, Field(ge=1)] = 256
    """Maximum number of tokens in an answer."""

    @field_validator("mode")
    @classmethod
    def _is_direct(cls, mode: CallMode) -> CallMode:
        if mode is not CallMode.DIRECT:
            raise ValueError("must be `direct`, because attributes are read with one call per text")
        return mode


class ExtractMetadataSettings(Section):
    """Settings for attributes that are read from the texts."""

    zero_shot_abstain: Annotated[float, Field(ge=-1, le=1)] = 0.0
    """Minimum cosine between a text and its nearest value. A smaller cosine means `other`."""
    llm: LabelEndpoint | None = None
    """The endpoint for attributes with `source: llm`."""

    @property
    def label_endpoint(self) -> LabelEndpoint:
        """The section `llm`. Raises ParamsError if the section is missing."""
        if self.llm is None:
            raise ParamsError(
                "params.yaml: extract_metadata.llm is missing, but the schema has attributes with "
                "`source: llm`. Add the endpoint that may read the texts, or change the source."
            )
        return self.llm
