"""Settings of `sugarbush.attributes`."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field, field_validator

from sugarbush.generators.settings import CallMode, OpenAiSettings
from sugarbush.settings import Section


class LabelsSettings(OpenAiSettings):
    """The endpoint that is asked for attributes with `source: llm`. It is sent every private text,
    and so it is asked only where `trusted` says that it may.

    Limits, timeouts and prices that are left out are those of `generator.openai`.
    """

    setting: ClassVar[str] = "extract_metadata.llm"

    trusted: bool

    @field_validator("mode")
    @classmethod
    def _call_by_call(cls, mode: CallMode) -> CallMode:
        if mode is not CallMode.DIRECT:
            raise ValueError("labels are asked for call by call; leave mode out")
        return mode


class ExtractMetadataSettings(Section):
    """How attributes that are not columns are told from the text."""

    zero_shot_abstain: Annotated[float, Field(ge=-1, le=1)]
    llm: LabelsSettings
