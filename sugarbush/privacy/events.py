"""Describes mechanisms as events. The ledger stores events; the accountant computes their cost."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from dataclasses import fields as dataclass_fields
from typing import Any, ClassVar

from sugarbush.errors import InvariantError

# The accountant's arithmetic fails for smaller or larger values.
_SMALLEST, _LARGEST = 1e-9, 1e12
_SMALLEST_DELTA = 1e-30


@dataclass(frozen=True, kw_only=True)
class Event:
    """A mechanism that ran `count` times with equal settings."""

    kind: ClassVar[str]

    def __post_init__(self) -> None:
        for field in dataclass_fields(self):
            name, value = field.name, getattr(self, field.name)
            least = _SMALLEST_DELTA if name == "delta" else _SMALLEST
            most = 1 if name in ("rate", "delta") else _LARGEST
            kinds = (int,) if field.type == "int" else (int, float)
            # A value of another type would make the ledger unreadable after the charge.
            if isinstance(value, bool) or not isinstance(value, kinds):
                raise InvariantError(f"{self.kind}: {name}={value!r} is not of type {field.type}")
            if not (math.isfinite(value) and least <= value <= most):
                raise InvariantError(
                    f"{self.kind}: {name}={value!r} is not between {least:g} and {most:g}"
                )

    def as_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, **asdict(self)}


@dataclass(frozen=True, kw_only=True)
class DiscreteGaussian(Event):
    """Integer counts, each with noise N_Z(0, stddev^2).

    One unit changes the counts by at most `sensitivity` in the L2 norm.
    """

    kind: ClassVar[str] = "discrete_gaussian"
    stddev: float
    sensitivity: int = 1
    count: int = 1


@dataclass(frozen=True, kw_only=True)
class ThresholdedGaussian(Event):
    """Integer counts of values that nobody listed before, released only above a threshold.

    One unit changes at most `count` counts, each by at most `sensitivity`. Each count gets noise
    N_Z(0, stddev^2). `delta` bounds the probability that a value which no other unit has is
    released. Proof: `mechanisms.noisy_set`.
    """

    kind: ClassVar[str] = "thresholded_gaussian"
    stddev: float
    delta: float
    sensitivity: int = 1
    count: int = 1

    @property
    def counts(self) -> DiscreteGaussian:
        """The mechanism that releases the counts of values that other units have, too."""
        return DiscreteGaussian(stddev=self.stddev, sensitivity=self.sensitivity, count=self.count)


@dataclass(frozen=True, kw_only=True)
class GaussianDp(Event):
    """A mechanism that is mu-Gaussian DP (Dong, Roth, Su 2022, Definition 4)."""

    kind: ClassVar[str] = "gaussian_dp"
    mu: float
    count: int = 1


@dataclass(frozen=True, kw_only=True)
class PoissonGaussian(Event):
    """`count` steps of the Gaussian mechanism, each on a Poisson sample with rate `rate`."""

    kind: ClassVar[str] = "poisson_gaussian"
    noise_multiplier: float
    rate: float
    count: int


@dataclass(frozen=True, kw_only=True)
class DpSgdBound(Event):
    """DP-SGD with a sampling rate and a number of steps that a DP count decides.

    For every count, the privacy profile of the training is at most the larger of two profiles: the
    profile of mu-GDP, and the profile of `steps` steps of `PoissonGaussian`. So this event does not
    depend on the count.
    """

    kind: ClassVar[str] = "dp_sgd_bound"
    mu: float
    noise_multiplier: float
    rate: float
    steps: int

    @property
    def sampled(self) -> PoissonGaussian:
        """The second of the two mechanisms."""
        return PoissonGaussian(
            noise_multiplier=self.noise_multiplier, rate=self.rate, count=self.steps
        )


@dataclass(frozen=True, kw_only=True)
class DpSgdGaussianBound(Event):
    """DP-SGD with a sampling rate and a number of steps that an earlier result may decide.

    Whatever they are, the privacy profile of the training is at most that of mu-GDP plus `delta`,
    at every epsilon. So the training composes with earlier results as a Gaussian mechanism does.
    """

    kind: ClassVar[str] = "dp_sgd_gaussian_bound"
    mu: float
    delta: float

    @property
    def gaussian(self) -> GaussianDp:
        return GaussianDp(mu=self.mu)


DpSgd = PoissonGaussian | DpSgdBound | DpSgdGaussianBound  # the charge of a training


@dataclass(frozen=True, kw_only=True)
class ConfidentialTraining(Event):
    """The steps of `PoissonGaussian` on a deduplicated corpus.

    The event has no finite DP epsilon, because adding one record can change two records of a
    deduplicated corpus. The event guarantees confidentiality: `accounting.epsilon` under
    REPLACE_ONE bounds the effect of replacing a secret in one unit.
    """

    kind: ClassVar[str] = "confidential_training"
    noise_multiplier: float
    rate: float
    count: int


@dataclass(frozen=True, kw_only=True)
class NonPrivate(Event):
    """A result without DP. The epsilon of a total with this event is infinite."""

    kind: ClassVar[str] = "non_private"


@dataclass(frozen=True, kw_only=True)
class PlannedEvents:
    """All events of a run, which are fixed before the first event is drawn.

    Runs with equal plans have the same `id`.
    """

    id: str
    events: tuple[Event, ...]


_KINDS: dict[str, type[Event]] = {
    cls.kind: cls
    for cls in (
        DiscreteGaussian,
        ThresholdedGaussian,
        GaussianDp,
        PoissonGaussian,
        DpSgdBound,
        DpSgdGaussianBound,
        ConfidentialTraining,
        NonPrivate,
    )
}


def single_events(event: Event) -> tuple[Event, ...]:
    """Return the events that are charged one by one: each round, but all steps of a training.

    >>> len(single_events(DiscreteGaussian(stddev=9.0, count=3)))
    3
    """
    if isinstance(event, DiscreteGaussian | GaussianDp):
        return (replace(event, count=1),) * event.count
    return (event,)


def parameters_of(kind: str) -> frozenset[str]:
    """Return the names of the parameters of a kind of event. Raises KeyError for another kind."""
    return frozenset(field.name for field in dataclass_fields(_KINDS[kind]))


def event_from_dict(fields: dict[str, Any]) -> Event:
    """Invert `Event.as_dict`. Raises KeyError, TypeError or InvariantError."""
    kind, rest = _KINDS[fields["kind"]], {n: v for n, v in fields.items() if n != "kind"}
    whole = {field.name for field in dataclass_fields(kind) if field.type == "int"}
    for name, value in rest.items():
        if isinstance(value, bool) or (name in whole and value != int(value)):
            raise TypeError(f"{name} is not a number of the required type")
    return kind(**{n: int(v) if n in whole else v for n, v in rest.items()})
