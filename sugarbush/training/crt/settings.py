"""Settings of `sugarbush.training.crt`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sugarbush.data.settings import EXAMPLE_FOLDER
from sugarbush.settings import Count, Positive, Section, Share
from sugarbush.training.crt.findings import DEFAULT_DETECTORS
from sugarbush.training.dpsgd.settings import TINY, BatchSize, Tokens

LSTM = "lstm"  # `model: lstm` is the LSTM of stage pretrain


class CrtSettings(Section):
    """Confidentially Redacted Training gives confidentiality, not DP. The generated texts stay
    private."""

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
    max_length: Tokens = 96
    """Maximum number of tokens of a text."""
    batch_size: BatchSize = 256
    """Expected number of records in a step."""
    epochs: Positive = 1.0
    """Expected number of passes over the records."""
    learning_rate: Positive = 1e-3
    """Learning rate."""
    repeatable_steps: Count = 4
    """Number of steps that may run twice after a crash; they are charged beforehand."""
