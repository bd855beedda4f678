"""Settings of `sugarbush.attributes`."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field, field_validator

from sugarbush.generators.settings import CallMode, OpenAiSettings
from sugarbush.settings import AtLeastOne, Section


class LabelsSettings(OpenAiSettings):
    """The endpoint that reads attributes with `source: llm` from every private text.

    It is asked only where `trusted` allows it. Temperature, limits, timeouts, retries and prices
    that are left out are those of `generator.openai`.
    """

    setting: ClassVar[str] = "extract_metadata.llm"

    trusted: bool = False
    """Whether this endpoint may receive every private text."""
    key_variable: str | None = None
    max_tokens: AtLeastOne = 256

    @field_validator("mode")
    @classmethod
    def _call_by_call(cls, mode: CallMode) -> CallMode:
        if mode is not CallMode.DIRECT:
            raise ValueError("labels are asked for call by call; leave mode out")
        return mode


class ExtractMetadataSettings(Section):
    """How attributes that are not columns are read from the text."""

    zero_shot_abstain: Annotated[float, Field(ge=-1, le=1)] = 0.0
    """Cosine similarity below which zero-shot assigns the value `other`."""
    llm: LabelsSettings = LabelsSettings()
