"""The interface of metrics. A new metric is one file and one entry point.

def _measure(heldout, synthetic, settings):
    yield MetricValue(metric="questions", space=TEXT, value=question_share(synthetic.texts))

METRIC = Metric(name="questions", measure=_measure)    # questions.py of the package my_package

[project.entry-points."sugarbush.metrics"]             # pyproject.toml of that package
questions = "my_package.questions:METRIC"
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sugarbush.errors import InvariantError
from sugarbush.evaluation.bootstrap import BootstrapEstimate, ResampledRows, normal_interval
from sugarbush.randomness import Rng, public_rng

# Values of `MetricValue.space` besides the feature spaces.
ATTRIBUTE, TABLE, TEXT, WORDS = "attribute", "table", "text", "words"
MEAN = "mean"  # the mean over attributes
FINAL = -1  # the round number of the final texts
REAL = "real"  # the method name for real texts in place of synthetic texts


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Texts with their features and attributes.

    `features` maps the name of a feature space to `(n, d)`. `codes` (n, a) are attribute codes in
    the schema's order. The same reader computes the codes of real and synthetic texts.
    """

    texts: tuple[str, ...]
    features: Mapping[str, NDArray[Any]]
    codes: NDArray[np.int64]

    def __post_init__(self) -> None:
        lengths = {len(self.texts), len(self.codes), *(len(f) for f in self.features.values())}
        if len(lengths) != 1:
            raise InvariantError("a sample needs the same number of texts, features and codes")

    def __len__(self) -> int:
        return len(self.texts)

    def limited(self, most: int, *, rng: Rng) -> Sample:
        """Return at most `most` texts, sampled without replacement, in their order."""
        if len(self) <= most:
            return self
        chosen = np.sort(rng.choice(len(self), size=most, replace=False))
        return Sample(
            texts=tuple(self.texts[i] for i in chosen),
            features={space: rows[chosen] for space, rows in self.features.items()},
            codes=self.codes[chosen],
        )


@dataclass(frozen=True, kw_only=True)
class MetricValue:
    """One metric value for one method and round; FINAL means the final texts.

    `space` names what the metric compares: a feature space, an attribute, a corpus, or a constant
    such as TEXT. `low` and `high` are
    the bounds of a 95% interval, or None.

    >>> MetricValue(metric="mauve", space="encoder", value=0.9, method="maple").round == FINAL
    True
    """

    metric: str
    space: str
    value: float
    low: float | None = None
    high: float | None = None
    method: str = ""
    round: int = FINAL

    @classmethod
    def of(cls, metric: str, space: str, estimate: BootstrapEstimate) -> Self:
        return cls(metric=metric, space=space, **vars(estimate))


@dataclass(frozen=True, kw_only=True)
class MetricSettings:
    """Settings of metrics.

    `domain` gives the number of values of each attribute, in the schema's order. `clusters` is the
    number of clusters of MAUVE. MAUVE depends on this number, so all methods and rounds use the
    same number. With few clusters, MAUVE is always high. `resamples` is the number of bootstrap
    resamples; 0 means no intervals.
    """

    domain: Mapping[str, int]
    clusters: int
    resamples: int
    seed: int


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One metric, or several metrics that are computed together.

    `measure` takes the held-out texts, the synthetic texts and the settings. If there are too few
    texts for a value, `measure` omits the value.

    >>> def measure(heldout, synthetic, settings):
    ...     yield MetricValue(metric="number", space=TEXT, value=len(synthetic) / len(heldout))
    >>> number = Metric(name="number", measure=measure)
    >>> sample = Sample(texts=("a",), features={}, codes=np.empty((1, 0), dtype=np.int64))
    >>> settings = MetricSettings(domain={}, clusters=2, resamples=0, seed=1)
    >>> [found.value for found in number.measure(sample, sample, settings)]
    [1.0]
    """

    name: str
    measure: Callable[[Sample, Sample, MetricSettings], Iterable[MetricValue]]


def features_by_space(
    heldout: Sample, synthetic: Sample, *, at_least: int
) -> Iterator[tuple[str, NDArray[Any], NDArray[Any]]]:
    """Yield each feature space with the features of both samples.

    If a sample has fewer than `at_least` texts, yield nothing.
    """
    if min(len(heldout), len(synthetic)) >= at_least:
        for space, reference in heldout.features.items():
            yield space, reference, synthetic.features[space]


def distance_value(
    metric: str,
    space: str,
    distance: Callable[[ResampledRows, ResampledRows], float],
    samples: tuple[Sample, Sample],
    settings: MetricSettings,
    *,
    most: float = np.inf,
) -> MetricValue:
    """Compute a distance between two samples, in [0, `most`], and its interval."""
    estimate = normal_interval(
        distance,
        sizes=(len(samples[0]), len(samples[1])),
        resamples=settings.resamples,
        rng=public_rng(settings.seed, metric, space),
        within=(0.0, most),
    )
    return MetricValue.of(metric, space, estimate)


def label(
    values: Iterable[MetricValue], *, method: str, round_: int = FINAL
) -> tuple[MetricValue, ...]:
    """Return the values with their method and round."""
    return tuple(replace(value, method=method, round=round_) for value in values)


def read_values(rows: Iterable[Mapping[str, Any]]) -> tuple[MetricValue, ...]:
    """Parse metric values from table rows. The columns have the names of the fields.

    A bound may be missing, None or NaN. Raises InvariantError if a value is not finite.
    """
    return tuple(
        MetricValue(
            metric=str(row["metric"]),
            space=str(row["space"]),
            value=_finite(row),
            low=_bound(row.get("low")),
            high=_bound(row.get("high")),
            method=str(row["method"]),
            round=int(row["round"]),
        )
        for row in rows
    )


def _finite(row: Mapping[str, Any]) -> float:
    value = float(row["value"])
    if not np.isfinite(value):
        raise InvariantError(
            f"{row['metric']} of {row['method']} is not a finite number. Omit the value"
        )
    return value


def _bound(value: float | None) -> float | None:
    return None if value is None or not np.isfinite(value) else float(value)
