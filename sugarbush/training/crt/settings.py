"""Settings of `sugarbush.training.crt`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field

from sugarbush.data.settings import EXAMPLE_FOLDER
from sugarbush.settings import NOT_IN_OUTPUT, AtLeastOne, Positive, Share
from sugarbush.training.crt.findings import DEFAULT_DETECTORS
from sugarbush.training.dpsgd.settings import TINY, NoisyStepsSettings

LSTM = "lstm"  # `model: lstm` is the LSTM of stage pretrain


class CrtSettings(NoisyStepsSettings):
    """Confidentially Redacted Training gives confidentiality, not DP. The generated texts stay
    private."""

    removed_settings: ClassVar[Mapping[str, Any]] = {}

    model: str = TINY
    """First model: tiny or lstm (both of stage pretrain), or a GPT-2 or Llama by name."""
    detectors: tuple[str, ...] = DEFAULT_DETECTORS
    """Detectors: regex, learned, presidio, spacy:NAME, installed, or a token classifier."""
    threshold: Annotated[float, Field(ge=0, le=1)] = 0.3
    """Smallest score of a finding that counts as a secret."""
    labelled: str | None = EXAMPLE_FOLDER + "donated.jsonl"
    """Public file of texts with labelled secrets, to measure the miss rate; null: not measured."""
    must_find: tuple[str, ...] = ()
    """Labels of the secrets that the detectors must find, and that gamma counts; empty: all."""
    known: str | None = EXAMPLE_FOLDER + "donated.jsonl"
    """Public file of texts without masks. Sentences of this file never count as duplicates; null:
    none."""
    conservative: str | None = None
    """plain_words, or a token classifier: decides which sentences are public. null: no sentence
    is public."""
    gamma: Share | None = None
    """Share of distinct secrets that the detectors miss; null: the measured upper bound, or 1."""
    epsilon: Positive = 1.0
    """Bayesian epsilon for replacing one secret by a mask."""
    max_length: Annotated[int, Field(ge=16)] = 96
    batch_size: Annotated[float, Field(ge=1)] = 256
    epochs: Positive = 1.0
    learning_rate: Positive = 1e-3
    repeatable_steps: Annotated[int, Field(ge=0)] = 4
    micro_batch_tokens: Annotated[int, Field(ge=16), NOT_IN_OUTPUT] = 4096
    """Number of tokens computed at once. A larger number needs more memory and less time."""
    checkpoint_every: Annotated[AtLeastOne, NOT_IN_OUTPUT] = 4
    """Number of steps between checkpoints."""
    device: Annotated[str, NOT_IN_OUTPUT] = "auto"
    """auto, cpu or cuda."""
    seed: int = 1
    """Seed of the sampled texts."""
