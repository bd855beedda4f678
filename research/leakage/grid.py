"""Reads a grid of training methods, miss rates and seeds. Each point is one trained model."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, ValidationError, model_validator

from research.sweep_points import Kind, Name, load_fields
from sugarbush.errors import ParamsError
from sugarbush.privacy import Purpose, digest_of
from sugarbush.settings import Section
from sugarbush.training import describe_patterns


class TrainingMethod(StrEnum):
    """The training method of a model. Grid files and stored points call the method `arm`.

    `public` trains on the public texts only. `crt` treats every text as private. `crt-conservative`
    trains without noise on the sentences that a conservative policy declares public.
    """

    PUBLIC = "public"
    NONPRIVATE = "nonprivate"
    SDP = "sdp"
    REDACT_ONLY = "redact-only"
    DPSGD = "dpsgd"
    CRT = "crt"
    CRT_CONSERVATIVE = "crt-conservative"


class ModelKind(StrEnum):
    """The kind of model. Selective DP-SGD needs the LSTM."""

    GPT2 = "gpt2"
    LSTM = "lstm"


HEADS = 2  # attention heads of the GPT-2
VERSION = 2

WITH_POLICY = {
    TrainingMethod.SDP,
    TrainingMethod.REDACT_ONLY,
    TrainingMethod.CRT,
    TrainingMethod.CRT_CONSERVATIVE,
}
WITH_EPSILON = {TrainingMethod.DPSGD, TrainingMethod.CRT, TrainingMethod.CRT_CONSERVATIVE}


def _different(values: tuple[Hashable, ...]) -> tuple[Hashable, ...]:
    """Return the values.

    Raises ValueError if a value is repeated, because repeated points would count as additional
    seeds.
    """
    if len(set(values)) < len(values):
        raise ValueError("a value occurs twice")
    return values


def _increasing(values: tuple[float, ...]) -> tuple[float, ...]:
    if list(values) != sorted(values):
        raise ValueError("the values must increase")
    return values


class Sizes(Section):
    """A benchmark dataset: its parquet file, and the numbers of public, member and other texts.

    Spans with a label in `secrets` count as secrets. The misses of the conservative policy are
    measured on these secrets. `purpose: benchmark` declares that everybody may read the file.
    """

    file: str
    purpose: Purpose
    public: Annotated[int, Field(ge=1)]
    members: Annotated[int, Field(ge=4)]
    others: Annotated[int, Field(ge=4)]
    secrets: Annotated[tuple[str, ...], Field(min_length=1)]


class ModelSize(Section):
    """The size of a model. Texts are cut at `context` tokens. The LSTM has one layer."""

    vocabulary: Annotated[int, Field(ge=258)]
    context: Annotated[int, Field(ge=16)]
    layers: Annotated[int, Field(ge=1)]
    width: Annotated[int, Field(ge=2)]


class TrainingSettings(Section):
    """Epochs, batch sizes and learning rates.

    Noisy training uses the `noisy_` values. Public passes of the confidential methods use the
    values without this prefix.
    """

    public_epochs: Annotated[float, Field(gt=0)]
    epochs: Annotated[float, Field(gt=0)]
    noisy_epochs: Annotated[float, Field(gt=0)]
    batch_size: Annotated[int, Field(ge=1)]
    noisy_batch_size: Annotated[int, Field(ge=1)]
    learning_rate: Annotated[float, Field(gt=0)]
    noisy_learning_rate: Annotated[float, Field(gt=0)]
    clip_norm: Annotated[float, Field(gt=0)]
    selective_clip_norm: Annotated[float, Field(gt=0)]


class ModelGrid(Section):
    """A model, its training settings, and the methods that train it."""

    arms: Annotated[tuple[TrainingMethod, ...], Field(min_length=1), AfterValidator(_different)]
    shape: ModelSize
    training: TrainingSettings


class LeakageGrid(Section):
    """The content of a grid file.

    The charts over gamma use `epsilons[0]`. The chart over epsilon uses all `epsilons` at
    `gammas[1]`. `detectors` redact the texts, except for the missed canaries. `conservative` is the
    policy of `crt-conservative`.
    """

    kind: Literal[Kind.LEAKAGE]
    sets: Annotated[dict[Name, Sizes], Field(min_length=1)]
    models: Annotated[dict[ModelKind, ModelGrid], Field(min_length=1)]
    gammas: Annotated[
        tuple[Annotated[float, Field(ge=0, le=1)], ...],
        Field(min_length=2),
        AfterValidator(_different),
        AfterValidator(_increasing),
    ]
    epsilons: Annotated[
        tuple[Annotated[float, Field(gt=0)], ...], Field(min_length=1), AfterValidator(_different)
    ]
    delta: Annotated[float, Field(gt=0, lt=1)]
    detectors: Annotated[tuple[str, ...], Field(min_length=1)] = ("regex",)
    conservative: str
    seeds: Annotated[int, Field(ge=1)]
    canaries: Annotated[int, Field(ge=1)]
    repeats: Annotated[int, Field(ge=1)]
    groups: Annotated[int, Field(ge=4)]
    group_size: Annotated[int, Field(ge=1)]

    @model_validator(mode="after")
    def _require_what_the_attacks_need(self) -> Self:
        for name, sizes in self.sets.items():
            fewest = min(sizes.members, sizes.others)
            if fewest < 2 * self.group_size:
                raise ValueError(f"sets.{name}: two groups need more than {fewest} texts")
        return self

    @model_validator(mode="after")
    def _require_models_that_can_be_made(self) -> Self:
        gpt2 = self.models.get(ModelKind.GPT2)
        if gpt2 is not None and TrainingMethod.SDP in gpt2.arms:
            raise ValueError("models.gpt2.arms: selective DP-SGD needs the LSTM")
        if gpt2 is not None and gpt2.shape.width % HEADS:
            raise ValueError(f"models.gpt2.shape.width: must be a multiple of the {HEADS} heads")
        return self


class LeakagePoint(Section):
    """A point of the grid: one training of one model.

    `gamma` is None if the method has no policy. `epsilon` is None if the noise is not calibrated to
    an epsilon.
    """

    set_name: str
    model: ModelKind
    arm: TrainingMethod
    gamma: float | None
    epsilon: float | None
    seed: int

    @property
    def batch(self) -> str:
        """The name of the point's batch.

        A batch contains the points of one data set, model and seed. These points share a corpus.
        """
        return f"{self.set_name}/{self.model}/{self.seed}"

    def key(self, grid: LeakageGrid, *, file: str) -> str:
        """Return a digest of all inputs of the point's values.

        `file` is the digest of the data file. The returned digest also depends on VERSION, on the
        patterns, on the trained redactor and on the name of the conservative policy.
        """
        return digest_of(
            version=VERSION,
            file=file,
            **describe_redaction(grid),
            point=self.model_dump(mode="json"),
            sizes=grid.sets[self.set_name].model_dump(mode="json"),
            model=grid.models[self.model].model_dump(mode="json", exclude={"arms"}),
            rest=grid.model_dump(
                mode="json", exclude={"kind", "sets", "models", "gammas", "epsilons", "seeds"}
            ),
            noise_for=[grid.gammas[1], grid.epsilons[0]],
        )


def describe_redaction(grid: LeakageGrid) -> dict[str, Any]:
    """Describe the grid's detectors for cache keys. Models of other packages are not included."""
    described: dict[str, Any] = {"patterns": describe_patterns()}
    if "learned" in grid.detectors:
        from sugarbush.redactor import Recipe  # an optional package

        described |= {"redactor": Recipe().digest, "detectors": grid.detectors}
    return described


def load_grid(path: Path) -> LeakageGrid:
    """Read a grid file. Raises ParamsError for an invalid key, and for data that is not public."""
    try:
        grid = LeakageGrid.model_validate(load_fields(path))
    except ValidationError as error:
        found = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(str(part) for part in found["loc"])
        said = found["msg"].removeprefix("Value error, ")
        raise ParamsError(": ".join(filter(None, (str(path), where, said)))) from None
    for name, sizes in grid.sets.items():
        if sizes.purpose is not Purpose.BENCHMARK:
            raise ParamsError(
                f"{path}: sets.{name} is not declared public. A leakage grid trains models without "
                "noise. If everybody may read the data, set 'purpose: benchmark' for this data set"
            )
    return grid


def points(grid: LeakageGrid) -> Iterator[LeakagePoint]:
    """Return all points, ordered by data set, model and seed. A stopped grid then has all points of
    its first seeds.
    """
    for set_name in grid.sets:
        for model, own in grid.models.items():
            for seed in range(grid.seeds):
                for arm in own.arms:
                    for gamma, epsilon in _conditions(arm, grid):
                        yield LeakagePoint(
                            set_name=set_name,
                            model=model,
                            arm=arm,
                            gamma=gamma,
                            epsilon=epsilon,
                            seed=seed,
                        )


def _conditions(
    arm: TrainingMethod, grid: LeakageGrid
) -> Iterator[tuple[float | None, float | None]]:
    first, *further = grid.epsilons
    for gamma in dict.fromkeys(grid.gammas) if arm in WITH_POLICY else (None,):
        yield gamma, first if arm in WITH_EPSILON else None
    if arm in WITH_EPSILON:
        for epsilon in further:
            yield grid.gammas[1] if arm in WITH_POLICY else None, epsilon
