"""Settings of `sugarbush.training.crt`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sugarbush.training.dpsgd.settings import NoisyStepsSettings

LSTM = "lstm"  # crt.model: the LSTM that it leaves


class CrtSettings(NoisyStepsSettings):
    """Confidentially Redacted Training.

    `model`: what it starts from: tiny (the GPT-2 of stage pretrain), lstm (its LSTM), or a GPT-2 or
    Llama by name or path. `detectors`: regex, presidio, or a token classification model by name or
    path. `labelled` is a public file of texts with labelled spans, on which the miss rate is
    measured; `gamma` None takes its upper bound, or 1 where nothing was measured. `known` is a file
    of public texts, whose sentences are no duplicates. `conservative`, plain_words or a token
    classification model, says which sentences are public; None: none is. The noise is made for
    `epsilon`, the Bayesian one.
    """

    model: str
    detectors: tuple[str, ...]
    threshold: Annotated[float, Field(ge=0, le=1)]
    labelled: str | None
    known: str | None
    conservative: str | None
    gamma: Annotated[float, Field(gt=0, le=1)] | None
    epsilon: Annotated[float, Field(gt=0)]
    micro_batch_tokens: Annotated[int, Field(ge=16)]
    checkpoint_every: Annotated[int, Field(ge=1)]
    texts: Annotated[int, Field(ge=1)]
    device: str
    seed: int
