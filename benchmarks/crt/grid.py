"""The grid's settings and its points. A point is one trained model and what it gives away."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import Field

from sugarbush.params import Section
from sugarbush.privacy.draws import digest_of


class Arm(StrEnum):
    """What a model is trained by. `public`: nothing after the public texts."""

    PUBLIC = "public"
    NONPRIVATE = "nonprivate"
    SDP = "sdp"
    REDACT_ONLY = "redact-only"
    DPSGD = "dpsgd"
    CRT = "crt"


class Model(StrEnum):
    """Which model. Selective DP-SGD needs the LSTM."""

    GPT2 = "gpt2"
    LSTM = "lstm"


WITH_POLICY = {Arm.SDP, Arm.REDACT_ONLY, Arm.CRT}
WITH_EPSILON = {Arm.DPSGD, Arm.CRT}


class Sizes(Section):
    """A set: its parquet file, and how many texts are public, members, and held out."""

    file: str
    public: Annotated[int, Field(ge=1)]
    members: Annotated[int, Field(ge=4)]
    others: Annotated[int, Field(ge=4)]


class Shapes(Section):
    """The sizes of both models; `context` is the longest text in tokens."""

    vocabulary: int
    context: int
    gpt2_layers: int
    gpt2_width: int
    lstm_width: int


class Training(Section):
    """Epochs and rates. Noisy arms (`dpsgd`, `crt`) have a batch and a rate of their own."""

    public_epochs: float
    epochs: float
    noisy_epochs: float
    batch_size: Annotated[int, Field(ge=1)]
    noisy_batch_size: Annotated[int, Field(ge=1)]
    learning_rate: float
    noisy_learning_rate: float
    clip_norm: float
    selective_clip_norm: float


class Grid(Section):
    """`epsilons`: the first one is that of the figures over gamma; the others are trained with at
    `gammas[1]` for the figure over epsilon."""

    sets: dict[str, Sizes]
    arms: dict[Model, tuple[Arm, ...]]
    gammas: Annotated[tuple[float, ...], Field(min_length=2)]
    epsilons: Annotated[tuple[float, ...], Field(min_length=1)]
    delta: float
    seeds: Annotated[int, Field(ge=1)]
    canaries: Annotated[int, Field(ge=1)]
    repeats: Annotated[int, Field(ge=1)]
    groups: Annotated[int, Field(ge=4)]
    group_size: Annotated[int, Field(ge=1)]
    shapes: Shapes
    training: Training


class Point(Section):
    """`gamma` None: no policy; `epsilon` None: no noise by a target."""

    set_name: str
    model: Model
    arm: Arm
    gamma: float | None
    epsilon: float | None
    seed: int

    def key(self, grid: Grid) -> str:
        """A digest of all that the point's figures follow from."""
        rest = grid.model_dump(mode="json", exclude={"sets", "arms", "gammas", "epsilons", "seeds"})
        return digest_of(
            point=self.model_dump(mode="json"),
            sizes=grid.sets[self.set_name].model_dump(mode="json"),
            rest=rest,
            noise_for=[grid.gammas[1], grid.epsilons[0]],
        )


def load_grid(path: Path) -> Grid:
    fields: dict[str, Any] = yaml.safe_load(path.read_text())
    return Grid.model_validate(fields)


def points(grid: Grid) -> Iterator[Point]:
    """All points, seed by seed for each set and model, so that a stopped run has whole seeds."""
    for set_name in grid.sets:
        for model, arms in grid.arms.items():
            for seed in range(grid.seeds):
                for arm in arms:
                    for gamma, epsilon in _conditions(arm, grid):
                        yield Point(
                            set_name=set_name, model=model, arm=arm, gamma=gamma, epsilon=epsilon,
                            seed=seed,
                        )  # fmt: skip


def _conditions(arm: Arm, grid: Grid) -> Iterator[tuple[float | None, float | None]]:
    first, *further = grid.epsilons
    for gamma in dict.fromkeys(grid.gammas) if arm in WITH_POLICY else (None,):
        yield gamma, first if arm in WITH_EPSILON else None
    if arm in WITH_EPSILON:
        for epsilon in further:
            yield grid.gammas[1] if arm in WITH_POLICY else None, epsilon
