"""Figures of quality that may be published: estimates and intervals from noisy numbers alone.

Everything here is post-processing of the results of charged mechanisms, so it costs no budget. An
interval contains the noise of the mechanism. For near texts, right answers and topics it also
contains the sampling error of the records, so that it holds for similar records, too. Its level is
95%.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sugarbush.errors import ParamsError

LEVEL = 0.95
COVERAGE, TOPICS, ACCURACY, GAIN = "coverage", "topics", "accuracy", "gain"
MARGINALS, PAIRS = "marginals", "pairs"
NAMES = (COVERAGE, TOPICS, MARGINALS, PAIRS, ACCURACY, GAIN)
BY_ATTRIBUTE = (MARGINALS, ACCURACY, GAIN)
CELLS_OF_COVERAGE, CELLS_OF_ATTRIBUTE = 2, 4
_Z = 1.959964  # two-sided 95%
_Z_OF_TWO = 2.241403  # two-sided 97.5%, for each of two independent errors
_LOG_OF_TWO = math.log(1 / 0.0125)
_STEPS = 2001  # of the search for the ends of an interval
_RULE = re.compile(r"(>=|<=)\s*([0-9]*\.?[0-9]+)")
_OPERATORS = {">=": operator.ge, "<=": operator.le}


@dataclass(frozen=True, kw_only=True)
class PublicFigure:
    """A figure, its estimate, and its interval at `LEVEL`.

    `attribute` is None for a figure about the whole release. A figure without enough records has
    the whole range as its interval.
    """

    name: str
    value: float
    low: float
    high: float
    attribute: str | None = None

    @property
    def title(self) -> str:
        """The name in rules: `coverage`, or `accuracy.topic` for one attribute."""
        return self.name if self.attribute is None else f"{self.name}.{self.attribute}"


@dataclass(frozen=True, kw_only=True)
class NoisyNumbers:
    """The results of the mechanisms, and what is public about them.

    `records` are the numbers of `noisy_histogram_distances`: all records, then for each
    attribute the records to move, then the mean of all pairs (if there are pairs). `quality` are
    the counts of `noisy_counts`: covered or not, then for each attribute neither right, the most
    common value right, the classifier right, both right. `topics` (1,) is the number of
    records to move to another of `number_of_topics` topics. A stddev is the noise of one number.
    `measured` says for each attribute whether the release has labels for it.
    """

    records: NDArray[np.int64]
    records_stddev: float
    quality: NDArray[np.int64]
    quality_stddev: float
    topics: NDArray[np.int64]
    topics_stddev: float
    number_of_topics: int
    attributes: tuple[str, ...]
    measured: tuple[bool, ...]
    pairs_measured: bool


def estimate(numbers: NoisyNumbers) -> tuple[PublicFigure, ...]:
    """Return all figures. The order is that of `NAMES`, and of the attributes in each."""
    found = [*_quality_figures(numbers), *_marginals(numbers), _topics(numbers)]
    return tuple(sorted(found, key=lambda figure: NAMES.index(figure.name)))


def number_of_records(numbers: NoisyNumbers) -> float:
    """Return the DP number of records, at least 1."""
    return max(float(numbers.quality[:CELLS_OF_COVERAGE].sum()), 1.0)


def _quality_figures(numbers: NoisyNumbers) -> Iterator[PublicFigure]:
    no, yes = numbers.quality[:CELLS_OF_COVERAGE].tolist()
    yield _share(COVERAGE, yes, no, cells=1, numbers=numbers)
    rest = numbers.quality[CELLS_OF_COVERAGE:].reshape(-1, CELLS_OF_ATTRIBUTE)
    known = zip(numbers.attributes, numbers.measured, rest.tolist(), strict=True)
    measured = [(name, cells) for name, is_measured, cells in known if is_measured]
    if measured:
        right = sum(cells[2] + cells[3] for _, cells in measured) / len(measured)
        wrong = sum(cells[0] + cells[1] for _, cells in measured) / len(measured)
        yield _share(ACCURACY, right, wrong, cells=2, numbers=numbers, sums=len(measured))
    for name, cells in measured:
        right, wrong = cells[2] + cells[3], cells[0] + cells[1]
        yield _share(ACCURACY, right, wrong, cells=2, numbers=numbers, attribute=name)
        yield _gain(name, cells, numbers)


def _share(
    name: str,
    yes: float,
    no: float,
    *,
    cells: int,
    numbers: NoisyNumbers,
    sums: int = 1,
    attribute: str | None = None,
) -> PublicFigure:
    """Return the share of `yes` among all counts. Each of both numbers adds up `cells` noisy
    counts, or is a mean of `sums` such sums.

    The statistic yes - r (yes + no) has mean 0 at the true share r. Its variance is that of the
    noise, and of n draws with probability r: n r (1 - r). (A mean of several bits of a record does
    not vary more, because r (1 - r) is concave.) The interval
    contains every r that is not refused (Fieller 1954; Wilson 1927 for the sampling).
    """
    whole = yes + no
    variance = cells * numbers.quality_stddev**2 / sums

    def spread(share: NDArray[np.float64]) -> NDArray[np.float64]:
        noise = variance * ((1 - share) ** 2 + share**2)
        return np.sqrt(noise + max(whole, 1.0) * share * (1 - share))

    return _ratio(name, yes, whole, spread=spread, attribute=attribute)


def _gain(attribute: str, cells: Sequence[int], numbers: NoisyNumbers) -> PublicFigure:
    """Return how many more records the classifier reads right than the most common value does, as
    a share of the records. The interval is that of `_share`, between -1 and 1."""
    _, common, model, _ = cells
    whole, stddev = float(sum(cells)), numbers.quality_stddev
    differ = (model + common + _Z * stddev * math.sqrt(2)) / max(whole, 1.0)
    differ = min(max(differ, 0.0), 1.0)

    # noise of model - common - gain (neither + common + model + both)
    def spread(gain: NDArray[np.float64]) -> NDArray[np.float64]:
        noise = stddev**2 * (2 + 4 * gain**2)
        return np.sqrt(noise + max(whole, 1.0) * np.maximum(differ, np.abs(gain)))

    return _ratio(
        GAIN, float(model - common), whole, spread=spread, attribute=attribute, least=-1.0
    )


def _marginals(numbers: NoisyNumbers) -> Iterator[PublicFigure]:
    """Yield total variation distances between the release and the records. They describe
    these records and no others, so the intervals contain the noise alone. An upper end is never
    below 1.96 stddevs of the noise, so that a small draw of noise does not suggest precision."""
    count, moved = float(numbers.records[0]), numbers.records[1:]
    stddev = numbers.records_stddev
    found = [float(moved[j]) for j, known in enumerate(numbers.measured) if known]

    def figure(name: str, number: float, sums: int, attribute: str | None) -> PublicFigure:
        found = _ratio(
            name,
            number,
            count,
            spread=lambda share: stddev * np.sqrt(1 / sums + share**2),
            attribute=attribute,
        )
        least = min(_Z * stddev / math.sqrt(sums) / max(count, 1.0), 1.0)
        return replace(found, high=max(found.high, least))

    if found:
        yield figure(MARGINALS, sum(found) / len(found), len(found), None)
    for name, is_measured, number in zip(numbers.attributes, numbers.measured, moved, strict=False):
        if is_measured:
            yield figure(MARGINALS, float(number), 1, name)
    if numbers.pairs_measured:
        yield figure(PAIRS, float(moved[-1]), 1, None)


def _topics(numbers: NoisyNumbers) -> PublicFigure:
    """Return the total variation distance between the topics of records and of the texts.

    *Upper end.* The distance is p(A) - q(A) for the best set A of topics, and the distance of the
    records is at least their share in A minus q(A). A share of n records is taken to be normal,
    with variance at most 1/4n. *Lower end.* The mean distance of the shares of n records in k
    topics from the true shares is at most sqrt(k/n)/2. The distance exceeds this by
    sqrt(log(1/a)/2n) with probability at most a (McDiarmid 1989). Noise and sampling get half of
    the error probability each.
    """
    moved, whole = float(numbers.topics[0]), float(numbers.quality[:CELLS_OF_COVERAGE].sum())

    def spread(share: NDArray[np.float64]) -> NDArray[np.float64]:
        count = CELLS_OF_COVERAGE * numbers.quality_stddev**2
        return np.sqrt(numbers.topics_stddev**2 + count * share**2)

    noisy = _ratio(TOPICS, moved, whole, spread=spread, attribute=None, z=_Z_OF_TWO)
    people = number_of_records(numbers)
    below = math.sqrt(numbers.number_of_topics) / 2 + math.sqrt(_LOG_OF_TWO / 2)
    return replace(
        noisy,
        low=max(noisy.low - below / math.sqrt(people), 0.0),
        high=min(noisy.high + _Z_OF_TWO / (2 * math.sqrt(people)), 1.0),
    )


def _ratio(
    name: str,
    numerator: float,
    denominator: float,
    *,
    spread: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    attribute: str | None,
    least: float = 0.0,
    most: float = 1.0,
    z: float = _Z,
) -> PublicFigure:
    """Return numerator/denominator with the interval of Fieller 1954: all ratios r for which
    |numerator - r denominator| <= z `spread(r)`."""
    ratios = np.linspace(least, most, _STEPS)
    accepted = ratios[np.abs(numerator - ratios * denominator) <= z * spread(ratios)]
    step = (most - least) / (_STEPS - 1)
    if denominator <= 0:
        return PublicFigure(
            name=name, value=(least + most) / 2, low=least, high=most, attribute=attribute
        )
    value = min(max(numerator / denominator, least), most)
    low, high = (accepted.min(), accepted.max()) if len(accepted) else (value, value)
    return PublicFigure(
        name=name,
        value=value,
        low=max(min(float(low), value) - step, least),
        high=min(max(float(high), value) + step, most),
        attribute=attribute,
    )


@dataclass(frozen=True, kw_only=True)
class FigureRule:
    """A condition on the estimate of one figure, such as coverage >= 0.8."""

    figure: str
    sign: Literal[">=", "<="]
    number: float

    @classmethod
    def of(cls, figure: str, condition: str) -> FigureRule:
        """Read a rule. Raises ValueError for another form, or an unknown figure.

        >>> Rule.of("coverage", ">= .8")
        Rule(figure='coverage', sign='>=', number=0.8)
        """
        name, _, attribute = figure.partition(".")
        if name not in NAMES or (attribute and name not in BY_ATTRIBUTE):
            raise ValueError(f"accept_if: no figure '{figure}'. Figures: {', '.join(NAMES)}")
        if name == GAIN and not attribute:
            raise ValueError("accept_if: gain needs an attribute, such as gain.topic")
        match = _RULE.fullmatch(condition.strip())
        if match is None:
            raise ValueError(f"accept_if: '{figure}' needs a condition such as '>= 0.8'")
        return cls(figure=figure, sign=match[1], number=float(match[2]))  # type: ignore[arg-type]

    def require_measured(self, attributes: Sequence[str]) -> None:
        """Raise ParamsError if a schema with these attributes has no such figure."""
        _, _, attribute = self.figure.partition(".")
        if (attribute and attribute not in attributes) or (
            self.figure == PAIRS and len(attributes) < 2
        ):
            raise ParamsError(
                f"params.yaml: release.accept_if: the schema has no figure '{self.figure}'. Its "
                f"attributes: {', '.join(attributes)}"
            )

    def holds(self, figures: Mapping[str, float]) -> bool:
        """Return whether the rule holds. A figure that was not measured fails it."""
        value = figures.get(self.figure)
        return value is not None and bool(_OPERATORS[self.sign](value, self.number))

    def __str__(self) -> str:
        return f"{self.figure} {self.sign} {self.number:g}"
