"""Settings of `sugarbush.training.dpsgd`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Final, Literal

from pydantic import Field

from sugarbush.generators.pool_files import PoolSource
from sugarbush.settings import NOT_IN_OUTPUT, AtLeastOne, Count, NotNegative, Positive, Section

TINY = "tiny"  # `model: tiny` is the GPT-2 of stage pretrain
CLIP_NORM: Final = 1.0  # L2 norm to which each unit's gradient is clipped
Tokens = Annotated[int, Field(ge=16)]
BatchSize = Annotated[float, Field(ge=1)]
PresetName = Literal["dpft", "yue2023", "lora"]


class PretrainSettings(Section):
    """The tiny GPT-2 of dpft and crt (or crt's LSTM), trained on public text alone."""

    texts: Annotated[int, Field(ge=20)] = 4000
    """Number of texts that the simulator writes from the schema."""
    sources: tuple[PoolSource, ...] = ()
    """Additional public files to train on, as in generator.pool.sources."""
    vocabulary: Annotated[int, Field(ge=300)] = 4096
    """Number of tokens in the vocabulary."""
    layers: AtLeastOne = 4
    """Number of layers of the model."""
    width: Annotated[int, Field(ge=8, multiple_of=4)] = 256
    """Width of the model; a multiple of 4, the number of attention heads."""
    max_length: Tokens = 224
    """Maximum number of tokens of a text, including its control codes."""
    epochs: Positive = 1.0
    """Number of passes over the training texts."""


class SamplingSettings(Section):
    """Sampling of texts from a trained model."""

    temperature: Positive = 1.0
    """Temperature of sampling."""


class TrainingSettings(Section):
    """The computation of methods that train a model, and of stage pretrain."""

    device: Annotated[str, NOT_IN_OUTPUT] = "auto"
    """auto, cpu or cuda."""
    processes: Annotated[AtLeastOne, NOT_IN_OUTPUT] = 1
    """Number of processes of dpft, one GPU each, which torchrun starts."""
    micro_batch_tokens: Annotated[Tokens, NOT_IN_OUTPUT] = 4096
    """Number of tokens computed at once. A larger number needs more memory and less time."""
    checkpoint_every: Annotated[AtLeastOne, NOT_IN_OUTPUT] = 1
    """Number of steps between checkpoints."""
    sampling: SamplingSettings = SamplingSettings()


class DpSgdSettings(Section):
    """All values of DP-SGD training. The defaults are preset dpft: LoRA on the tiny GPT-2, few
    large steps, on one CPU.

    `records` is a public number of units, or None for the DP record count. `repeatable_steps` may
    run twice after a crash. A `lora_rank` of None trains all weights. `decay` and `warmup_steps`
    change the learning rate over time.
    """

    model: str = TINY
    records: Annotated[float, Field(ge=1)] | None = None
    batch_size: BatchSize = 512
    epochs: Positive = 0.6
    learning_rate: Positive = 3e-2
    max_length: Tokens = 224
    lora_rank: AtLeastOne | None = 8
    repeatable_steps: Count = 1
    clip_norm: Positive = CLIP_NORM
    decay: Literal["constant", "linear"] = "linear"
    warmup_steps: Count = 0
    weight_decay: NotNegative = 0.01


class FineTuning(Section):
    """A fine-tuning of a causal language model with DP-SGD, for `train_dpsgd`.

    >>> FineTuning(model="gpt2", records=400).epochs
    3.0
    """

    model: str
    """Name or folder of the model."""
    records: Annotated[float, Field(ge=1)]
    """Public estimate of the number of texts, for the sampling rate and the number of steps."""
    epochs: Positive = 3.0
    """Expected number of passes over the texts."""
    batch_size: BatchSize = 256.0
    """Expected number of texts in a step."""
    max_length: Tokens = 128
    """Maximum number of tokens of a text."""
    learning_rate: Positive = 1e-3
    """Highest learning rate."""
    clip_norm: Positive = CLIP_NORM
    """L2 norm to which the gradient of each text is clipped."""
    lora_rank: AtLeastOne | None = None
    """Rank of the low-rank factors that are trained; None: all weights."""
    device: Annotated[str, NOT_IN_OUTPUT] = "auto"
    """auto, cpu or cuda."""
    micro_batch_tokens: Tokens = 4096
    """Number of tokens computed at once. A larger number needs more memory and less time."""


class Yue2023(DpSgdSettings):
    """Preset yue2023: the Yelp setting of Yue et al. 2023, for GPUs of 80 GB."""

    model: str = "gpt2"
    batch_size: BatchSize = 4096
    epochs: Positive = 50.0
    learning_rate: Positive = 1e-4
    max_length: Tokens = 128
    lora_rank: AtLeastOne | None = None
    repeatable_steps: Count = 0
    decay: Literal["constant", "linear"] = "constant"


class Lora(DpSgdSettings):
    """Preset lora: LoRA on GPT-2."""

    model: str = "gpt2"
    batch_size: BatchSize = 1024
    epochs: Positive = 20.0
    learning_rate: Positive = 1e-3
    max_length: Tokens = 128
    repeatable_steps: Count = 0
    weight_decay: NotNegative = 0.0


PRESETS: Final[Mapping[PresetName, DpSgdSettings]] = MappingProxyType(
    {"dpft": DpSgdSettings(), "yue2023": Yue2023(), "lora": Lora()}
)
