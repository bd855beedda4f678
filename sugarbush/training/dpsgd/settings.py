"""Settings of `sugarbush.training.dpsgd`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from sugarbush.generators.pool_files import PoolSource
from sugarbush.settings import Section

TINY = "tiny"  # finetune.<preset>.model and crt.model: the GPT-2 that stage pretrain leaves


class PretrainSettings(Section):
    """The tiny GPT-2, and the LSTM where `crt.model` asks for it, trained on public text alone.

    The simulator writes `texts` by the schema, each after so many donated `examples`; `sources`
    adds public files, as for the pool, and the donated examples come in `donated_copies` each.
    """

    texts: Annotated[int, Field(ge=20)]
    examples: Annotated[int, Field(ge=0)]
    sources: tuple[PoolSource, ...]
    vocabulary: Annotated[int, Field(ge=300)]
    layers: Annotated[int, Field(ge=1)]
    width: Annotated[int, Field(ge=8)]
    heads: Annotated[int, Field(ge=1)]
    max_length: Annotated[int, Field(ge=16)]
    donated_copies: Annotated[int, Field(ge=0)]
    epochs: Annotated[float, Field(gt=0)]
    batch_size: Annotated[int, Field(ge=1)]
    micro_batch_tokens: Annotated[int, Field(ge=16)]
    learning_rate: Annotated[float, Field(gt=0)]
    device: str
    seed: int

    @model_validator(mode="after")
    def _divisible(self) -> PretrainSettings:
        if self.width % self.heads:
            raise ValueError(f"width={self.width} cannot be divided among {self.heads} heads")
        return self


class NoisyStepsSettings(Section):
    """DP-SGD's steps. `batch_size` is the expected number of units a step, of one record each.

    `repeatable_steps` may be drawn again after a kill and are paid for beforehand.
    """

    max_length: Annotated[int, Field(ge=16)]
    batch_size: Annotated[float, Field(ge=1)]
    epochs: Annotated[float, Field(gt=0)]
    clip_norm: Annotated[float, Field(gt=0)]
    learning_rate: Annotated[float, Field(gt=0)]
    repeatable_steps: Annotated[int, Field(ge=0)]


class DpSgdSettings(NoisyStepsSettings):
    """One way to fine-tune.

    `records` fixes the number of units (records, or persons) that rate and steps are reckoned
    from; None takes the DP count. `lora_rank` trains low-rank factors only.
    """

    model: str
    records: Annotated[float, Field(ge=1)] | None
    decay: Literal["constant", "linear"]
    warmup_steps: Annotated[int, Field(ge=0)]
    weight_decay: Annotated[float, Field(ge=0)]
    lora_rank: Annotated[int, Field(ge=1)] | None


class FinetuneSettings(Section):
    """The presets, which of them is in use, and what cannot change the guarantee."""

    preset: Literal["dpft", "yue2023", "lora"]
    dpft: DpSgdSettings
    yue2023: DpSgdSettings
    lora: DpSgdSettings
    device: str
    processes: Annotated[int, Field(ge=1)]
    precision: Literal["auto", "float32", "bfloat16"]
    clipping: Literal["book_keeping", "opacus"]
    activation_checkpointing: bool
    micro_batch_tokens: Annotated[int, Field(ge=16)]
    checkpoint_every: Annotated[int, Field(ge=1)]

    @property
    def chosen(self) -> DpSgdSettings:
        return getattr(self, self.preset)  # type: ignore[no-any-return]


class GenerateSettings(Section):
    """Sampling from the fine-tuned model. `texts` None: one for each row of the DP table."""

    texts: Annotated[int, Field(ge=1)] | None
    top_k: Annotated[int, Field(ge=1)]
    top_p: Annotated[float, Field(gt=0, le=1)]
    temperature: Annotated[float, Field(gt=0)]
    batch_size: Annotated[int, Field(ge=1)]
    attempts: Annotated[int, Field(ge=1)]
    seed: int
