"""What every section of the settings has in common."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field


class _NotInOutput:
    """Marks a field that does not affect a stage's output: a timeout, a device, a cap."""


NOT_IN_OUTPUT = _NotInOutput()

Share = Annotated[float, Field(gt=0, le=1)]


class Section(BaseModel):
    """One section of params.yaml, frozen. Its errors never show the value that was given."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
    )

    def output_settings(self) -> dict[str, Any]:
        """The fields that affect what a stage writes, as JSON values.

        Fields marked `Annotated[T, NOT_IN_OUTPUT]` are left out. A stage's cache key and DVC's view
        of the settings are both made of this.
        """
        kept: dict[str, Any] = {}
        whole = self.model_dump(mode="json", by_alias=True)
        for name, field in type(self).model_fields.items():
            if any(isinstance(mark, _NotInOutput) for mark in field.metadata):
                continue
            value = getattr(self, name)
            key = field.alias or name
            kept[key] = value.output_settings() if isinstance(value, Section) else whole[key]
        return kept
