"""Settings of `sugarbush.evaluation`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sugarbush.settings import Section


class NextTokenSettings(Section):
    """Next-token prediction by a small decoder; no `seeds`, no figure.

    `model` is a name or path; None trains one of `layers` x `width` from nothing.
    """

    seeds: Annotated[int, Field(ge=0)]
    model: str | None
    layers: Annotated[int, Field(ge=1)]
    width: Annotated[int, Field(ge=64, multiple_of=64)]
    epochs: Annotated[int, Field(ge=1)]
    max_tokens: Annotated[int, Field(ge=2, le=512)]


class FineTunedSettings(Section):
    """Attributes by a fine-tuned encoder; no `seeds`, no figure. `model` None: bundled."""

    seeds: Annotated[int, Field(ge=0)]
    model: str | None
    attributes: Annotated[tuple[str, ...], Field(min_length=1)] | None
    epochs: Annotated[int, Field(ge=1)]
    max_tokens: Annotated[int, Field(ge=2, le=512)]


class EvaluateSettings(Section):
    """Metrics against the held-out part (internal).

    `max_texts` bounds the real parts and `texts` the arms, which are measured on equally many in
    any case. `second_encoder` adds a feature space.
    """

    max_texts: Annotated[int, Field(ge=10)]
    texts: Annotated[int, Field(ge=10)] | None
    clusters: Annotated[int, Field(ge=2)] | None
    bootstrap: Annotated[int, Field(ge=0)]
    second_encoder: str | None
    seed: int
    next_token: NextTokenSettings
    fine_tuned: FineTunedSettings
