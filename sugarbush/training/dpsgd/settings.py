"""Settings of `sugarbush.training.dpsgd`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from sugarbush.generators.pool_files import PoolSource
from sugarbush.settings import NOT_IN_OUTPUT, AtLeastOne, Count, NotNegative, Positive, Section

TINY = "tiny"  # `model: tiny` is the GPT-2 of stage pretrain
_Tokens = Annotated[int, Field(ge=16)]


class PretrainSettings(Section):
    """The tiny GPT-2 of dpft and crt (or crt's LSTM), trained on public text alone."""

    texts: Annotated[int, Field(ge=20)] = 4000
    """Number of texts that the simulator writes from the schema."""
    examples: Count = 10
    """Number of donated examples that the simulator reads before each text."""
    sources: tuple[PoolSource, ...] = ()
    """Additional public files to train on, as in generator.pool.sources."""
    vocabulary: Annotated[int, Field(ge=300)] = 4096
    """Number of tokens in the vocabulary."""
    layers: AtLeastOne = 4
    """Number of layers of the model."""
    width: Annotated[int, Field(ge=8)] = 256
    """Width of the model; a multiple of `heads`."""
    heads: AtLeastOne = 4
    """Number of attention heads."""
    max_length: _Tokens = 224
    """Maximum number of tokens of a text, including its control codes."""
    donated_copies: Count = 2
    """Number of copies of each donated example in the training texts."""
    epochs: Positive = 1.0
    """Number of passes over the training texts."""
    batch_size: AtLeastOne = 16
    """Number of texts in a step."""
    micro_batch_tokens: _Tokens = 2048
    """Number of tokens computed at once. A larger number needs more memory and less time."""
    learning_rate: Positive = 2e-3
    """Highest learning rate."""
    device: Annotated[str, NOT_IN_OUTPUT] = "auto"
    """auto, cpu or cuda."""
    seed: int = 1
    """Seed of texts and weights."""

    @model_validator(mode="after")
    def _divisible(self) -> PretrainSettings:
        if self.width % self.heads:
            raise ValueError(f"width={self.width} cannot be divided among {self.heads} heads")
        return self


class NoisyStepsSettings(Section):
    """The steps of DP-SGD."""

    max_length: _Tokens = 224
    """Maximum number of tokens of a text, including its control codes."""
    batch_size: Annotated[float, Field(ge=1)] = 512
    """Expected number of units (records or users) in a step; each contributes one record."""
    epochs: Positive = 0.6
    """Expected number of passes over the records."""
    clip_norm: Positive = 1.0
    """L2 norm to which each unit's gradient is clipped."""
    learning_rate: Positive = 3e-2
    """Highest learning rate."""
    repeatable_steps: Count = 1
    """Number of steps that may run twice after a crash; they are charged beforehand."""


class DpSgdSettings(NoisyStepsSettings):
    """Preset dpft: LoRA on the tiny GPT-2, few large steps, on one CPU."""

    model: str = TINY
    """First model: tiny (of stage pretrain), or a GPT-2 or Llama by name or path."""
    records: Annotated[float, Field(ge=1)] | None = None
    """Public number of units, for the sampling rate and the steps; null: the DP record count."""
    decay: Literal["constant", "linear"] = "linear"
    """Learning rate over time: constant, or linear (it decreases to 0)."""
    warmup_steps: Count = 0
    """Number of steps until the highest learning rate."""
    weight_decay: NotNegative = 0.01
    """Weight decay."""
    lora_rank: AtLeastOne | None = 8
    """Rank of the low-rank factors that are trained; null: all weights."""


class Yue2023(DpSgdSettings):
    """Preset yue2023: the Yelp setting of Yue et al. 2023, for GPUs of 80 GB."""

    model: str = "gpt2"
    max_length: _Tokens = 128
    batch_size: Annotated[float, Field(ge=1)] = 4096
    epochs: Positive = 50.0
    learning_rate: Positive = 1e-4
    repeatable_steps: Count = 0
    decay: Literal["constant", "linear"] = "constant"
    lora_rank: AtLeastOne | None = None


class Lora(DpSgdSettings):
    """Preset lora: LoRA on GPT-2."""

    model: str = "gpt2"
    max_length: _Tokens = 128
    batch_size: Annotated[float, Field(ge=1)] = 1024
    epochs: Positive = 20.0
    learning_rate: Positive = 1e-3
    repeatable_steps: Count = 0
    weight_decay: NotNegative = 0.0


class FinetuneSettings(Section):
    """Training by DP-SGD: the presets, the chosen preset, and settings of the computation."""

    preset: Literal["dpft", "yue2023", "lora"] = "dpft"
    """The preset in use: dpft, yue2023 or lora."""
    dpft: DpSgdSettings = DpSgdSettings()
    yue2023: Yue2023 = Yue2023()
    lora: Lora = Lora()
    device: Annotated[str, NOT_IN_OUTPUT] = "auto"
    """auto, cpu or cuda."""
    processes: Annotated[AtLeastOne, NOT_IN_OUTPUT] = 1
    """Number of processes, one GPU each, which torchrun starts."""
    clipping: Annotated[Literal["book_keeping", "opacus"], NOT_IN_OUTPUT] = "book_keeping"
    """Code that clips gradients: book_keeping (fast), or opacus (slow)."""
    activation_checkpointing: Annotated[bool, NOT_IN_OUTPUT] = False
    """Whether activations are computed again to save memory."""
    micro_batch_tokens: Annotated[int, Field(ge=16), NOT_IN_OUTPUT] = 4096
    """Number of tokens computed at once. A larger number needs more memory and less time."""
    checkpoint_every: Annotated[AtLeastOne, NOT_IN_OUTPUT] = 1
    """Number of steps between checkpoints."""

    @property
    def chosen(self) -> DpSgdSettings:
        return getattr(self, self.preset)  # type: ignore[no-any-return]


class GenerateSettings(Section):
    """Sampling of texts from the trained model."""

    top_k: AtLeastOne = 50
    """Maximum number of tokens to choose from."""
    top_p: Annotated[float, Field(gt=0, le=1)] = 0.9
    """Probability mass of the tokens to choose from."""
    temperature: Positive = 1.0
    """Temperature of sampling."""
    batch_size: AtLeastOne = 64
    """Number of texts that are written at once."""
    attempts: AtLeastOne = 20
    """Number of attempts to get a usable text before the run fails."""
    seed: int = 1
    """Seed of the sampled texts."""
