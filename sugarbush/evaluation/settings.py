"""Settings of `sugarbush.evaluation`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sugarbush.settings import AtLeastOne, Count, Section


class NextTokenSettings(Section):
    """Next-token prediction by a small language model trained on each final set: slow."""

    seeds: Count = 0
    """Models trained for each figure; 0: not measured."""
    model: str | None = None
    """A decoder by name or path; null: a new one of `layers` and `width`."""
    layers: AtLeastOne = 4
    """Layers of a new model."""
    width: Annotated[int, Field(ge=64, multiple_of=64)] = 512
    """Width of a new model."""
    epochs: AtLeastOne = 10
    """Passes over the final set."""
    max_tokens: Annotated[int, Field(ge=2, le=512)] = 128
    """Tokens of a text that the model reads."""


class FineTunedSettings(Section):
    """An encoder fine-tuned on each final set to predict each attribute: slow."""

    seeds: Count = 0
    """Models trained for each figure; 0: not measured."""
    model: str | None = None
    """An encoder by name or path; null: the bundled MiniLM."""
    attributes: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """Attributes of the schema; null: all."""
    epochs: AtLeastOne = 3
    """Passes over the final set."""
    max_tokens: Annotated[int, Field(ge=2, le=512)] = 128
    """Tokens of a text that the encoder reads."""


class EvaluateSettings(Section):
    """Metrics against the held-out texts. They are internal: not DP."""

    max_texts: Annotated[int, Field(ge=10)] = 2000
    """Real texts used, at most."""
    texts: Annotated[int, Field(ge=10)] | None = None
    """Texts of each final set; null: as many as the smallest set has."""
    clusters: Annotated[int, Field(ge=2)] | None = None
    """Clusters of MAUVE; null: a tenth of the texts of the smaller side."""
    bootstrap: Count = 100
    """Resamples for the confidence intervals."""
    second_encoder: str | None = None
    """A second encoder by name or path, one more feature space; null: none."""
    seed: int = 1
    """Seed of clusters and resamples."""
    next_token: NextTokenSettings = NextTokenSettings()
    fine_tuned: FineTunedSettings = FineTunedSettings()
