"""All metrics of one set of synthetic texts, as rows of a table.

Everything here is computed on real texts: the figures are internal, not DP, and no setting may be
chosen by them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sugarbush.errors import InvariantError
from sugarbush.evaluation.bootstrap import (
    Estimate,
    mean_interval,
    normal_interval,
    percentile_interval,
)
from sugarbush.evaluation.copies import longest_shared_ngrams, nearer_to_training
from sugarbush.evaluation.distinct import distinct_n, duplicate_share
from sugarbush.evaluation.downstream import Predictions, majority, predictions
from sugarbush.evaluation.frechet import frechet_distance
from sugarbush.evaluation.jensen_shannon import MAXIMUM, distance_by_attribute
from sugarbush.evaluation.lengths import length_distance, word_counts
from sugarbush.evaluation.mauve import mauve_interval
from sugarbush.evaluation.precision_recall import NEIGHBOURS, neighbour_scores
from sugarbush.evaluation.total_variation import total_variation
from sugarbush.randomness import Rng, public_rng

ATTRIBUTE, TABLE, TEXT, WORDS = "attribute", "table", "text", "words"  # spaces without features
MEAN = "mean"  # over attributes, beside their names
FINAL = -1
# A Fréchet distance costs a hundred resampled MAUVEs, and a standard error needs few resamples.
_FRECHET_RESAMPLES = 25
_LONG_COPY_WORDS = 16


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One set of texts as it is seen by the metrics.

    `features` maps a feature space's name to `(n, d)`; `codes` (n, a) are attributes in schema
    order, by the same reader for real and synthetic texts.
    """

    texts: tuple[str, ...]
    features: Mapping[str, NDArray[Any]]
    codes: NDArray[np.int64]

    def __post_init__(self) -> None:
        lengths = {len(self.texts), len(self.codes), *(len(f) for f in self.features.values())}
        if len(lengths) != 1:
            raise InvariantError("a sample's texts, features and codes differ in number")

    def __len__(self) -> int:
        return len(self.texts)

    def limited(self, most: int, *, rng: Rng) -> Sample:
        """At most `most` of them, drawn without replacement, in order."""
        if len(self) <= most:
            return self
        chosen = np.sort(rng.choice(len(self), size=most, replace=False))
        return Sample(
            texts=tuple(self.texts[i] for i in chosen),
            features={space: rows[chosen] for space, rows in self.features.items()},
            codes=self.codes[chosen],
        )


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One row: a metric of a method's texts after a round (FINAL: the final set)."""

    metric: str
    space: str
    value: float
    low: float | None = None
    high: float | None = None
    method: str = ""
    round: int = 0


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How figures are made: clusters of MAUVE, resamples of a bootstrap, seed.

    One number of clusters for every arm and round: MAUVE at another number is another metric, and a
    small arm in few clusters always looks good.
    """

    clusters: int
    resamples: int
    seed: int


def evaluate_texts(
    heldout: Sample,
    synthetic: Sample,
    *,
    domain: Mapping[str, int],
    settings: Settings,
    method: str,
    round_: int,
) -> tuple[Figure, ...]:
    """Every metric that compares `synthetic` with `heldout`, and those of the texts alone.

    An arm without texts has no figures, and a metric that needs more texts than there are is left
    out: a missing figure is never a zero. `domain` is each attribute's number of values. Compare
    arms at equal numbers of texts (`Sample.limited`).
    Raises InvariantError when there are no held-out texts.
    """
    if not len(heldout):
        raise InvariantError("no held-out texts to compare with")
    if not len(synthetic):
        return ()
    figures: list[Figure] = []
    for space, reference in heldout.features.items():
        figures += _of_features(space, reference, synthetic.features[space], settings)
    figures += _of_attributes(heldout.codes, synthetic.codes, domain, settings)
    figures += _of_texts(heldout.texts, synthetic.texts, settings)
    return tuple(replace(figure, method=method, round=round_) for figure in figures)


def evaluate_copies(
    synthetic: Sample,
    *,
    training: Sample,
    heldout: Sample,
    donated: Sequence[str],
    public: Sequence[str],
    space: str,
    settings: Settings,
    method: str,
    round_: int,
) -> tuple[Figure, ...]:
    """The copy checks: longest shared runs with each corpus, and nearness to training texts.

    `space` names the embedding in which nearness is taken. As many training texts are used as
    there are held-out ones. An empty corpus has no figures.
    """
    if not len(synthetic):
        return ()
    figures: list[Figure] = []
    corpora = {
        "private": training.texts,
        "heldout": heldout.texts,
        "donated": donated,
        "public": public,
    }
    for name, corpus in corpora.items():
        if corpus:
            longest = longest_shared_ngrams(synthetic.texts, corpus)
            long = (longest >= _LONG_COPY_WORDS).astype(np.float64)
            rng = public_rng(settings.seed, "copies", name)
            figures.append(Figure(metric="longest_copy", space=name, value=float(longest.max())))
            figures.append(
                _figure(
                    "long_copies", name, mean_interval(long, resamples=settings.resamples, rng=rng)
                )
            )
    if len(training) and len(heldout):
        size = min(len(training), len(heldout))
        ratios = nearer_to_training(
            synthetic.features[space],
            training=training.limited(size, rng=public_rng(settings.seed, "training"))
            .features[space],
            heldout=heldout.limited(size, rng=public_rng(settings.seed, "heldout")).features[space],
        )  # fmt: skip
        nearer = np.where(ratios == 1, 0.5, ratios < 1).astype(np.float64)
        rng = public_rng(settings.seed, "nearer", space)
        figures.append(
            _figure("nearer_to_training", space,
                    mean_interval(nearer, resamples=settings.resamples, rng=rng))
        )  # fmt: skip
    return tuple(replace(figure, method=method, round=round_) for figure in figures)


def evaluate_downstream(
    heldout: Sample,
    training: Sample,
    *,
    space: str,
    domain: Mapping[str, int],
    settings: Settings,
    method: str,
    round_: int,
) -> tuple[Figure, ...]:
    """Accuracy and macro-F1 on `heldout` of a model a attribute trained on `training`.

    Give real train texts as `training` for the ceiling (`method="real"`). An attribute with one
    value in the held-out part says nothing and is left out; so is every attribute of an arm
    without texts. A training text without a code (-1: none was asked for) is left out.
    """
    figures: list[Figure] = []
    for column, name in enumerate(domain):
        known = training.codes[:, column] >= 0
        truth = heldout.codes[:, column]
        if not known.any() or len(np.unique(truth)) < 2:
            continue
        codes = training.codes[known, column]
        answers = predictions(
            training.features[space][known],
            codes,
            heldout=heldout.features[space],
            heldout_codes=truth,
            seed=settings.seed,
        )
        figures += _of_predictions("", name, answers, settings)
        figures += _of_predictions(
            "majority_", name, majority(codes, heldout_codes=truth), settings
        )
    return tuple(replace(figure, method=method, round=round_) for figure in figures)


def _of_features(
    space: str, reference: NDArray[Any], synthetic: NDArray[Any], settings: Settings
) -> list[Figure]:
    figures = []
    if min(len(reference), len(synthetic)) >= 2:
        estimate = mauve_interval(
            reference,
            synthetic,
            clusters=settings.clusters,
            seed=settings.seed,
            resamples=settings.resamples,
            rng=public_rng(settings.seed, "mauve", space),
        )
        figures.append(_figure("mauve", space, estimate))
        estimate = _distance(
            lambda p, q: frechet_distance(reference[p], synthetic[q]),
            reference,
            synthetic,
            resamples=min(settings.resamples, _FRECHET_RESAMPLES),
            rng=public_rng(settings.seed, "frechet", space),
        )
        figures.append(_figure("frechet", space, estimate))
    if min(len(reference), len(synthetic)) > NEIGHBOURS:
        scores = neighbour_scores(reference, synthetic)
        for name in ("precision", "recall", "density", "coverage"):
            rng = public_rng(settings.seed, name, space)
            estimate = mean_interval(getattr(scores, name), resamples=settings.resamples, rng=rng)
            figures.append(_figure(name, space, estimate))
    return figures


def _of_attributes(
    reference: NDArray[np.int64],
    synthetic: NDArray[np.int64],
    domain: Mapping[str, int],
    settings: Settings,
) -> list[Figure]:
    def distance(name: str | None) -> Callable[[NDArray[Any], NDArray[Any]], float]:
        def of(p: NDArray[Any], q: NDArray[Any]) -> float:
            by_attribute = distance_by_attribute(reference[p], synthetic[q], domain=domain)
            return by_attribute[name] if name else float(np.mean(list(by_attribute.values())))

        return of

    def figure(metric: str, space: str, statistic: Callable[..., float], most: float) -> Figure:
        rng = public_rng(settings.seed, metric, space)
        estimate = _distance(
            statistic, reference, synthetic, resamples=settings.resamples, rng=rng, most=most
        )
        return _figure(metric, space, estimate)

    figures = [figure(MEAN, ATTRIBUTE, distance(None), MAXIMUM)]
    figures += [figure(name, ATTRIBUTE, distance(name), MAXIMUM) for name in domain]
    for ways in (2, 3):
        if len(domain) >= ways:

            def variation(p: NDArray[Any], q: NDArray[Any], ways: int = ways) -> float:
                return total_variation(reference[p], synthetic[q], domain=domain, ways=ways)

            figures.append(figure(f"total_variation_{ways}", TABLE, variation, 1.0))
    return figures


def _of_texts(
    reference: Sequence[str], synthetic: Sequence[str], settings: Settings
) -> list[Figure]:
    real, made = word_counts(reference), word_counts(synthetic)
    rng = public_rng(settings.seed, "lengths")
    figures = [
        _figure(
            "length",
            WORDS,
            _distance(
                lambda p, q: length_distance(real[p], made[q]),
                real,
                made,
                resamples=settings.resamples,
                rng=rng,
            ),
        ),
        _figure("mean_words", WORDS, mean_interval(made, resamples=settings.resamples, rng=rng)),
        Figure(metric="texts", space=TEXT, value=float(len(synthetic))),
        Figure(metric="duplicates", space=TEXT, value=duplicate_share(synthetic)),
    ]
    # Resampling texts repeats their n-grams, so variety has no bootstrap interval that means much.
    figures += [
        Figure(metric=f"distinct_{n}", space=TEXT, value=distinct_n(synthetic, n=n))
        for n in (1, 2)
        if made.max() >= n
    ]
    return figures


def _of_predictions(
    prefix: str, attribute: str, answers: Predictions, settings: Settings
) -> list[Figure]:
    figures = []
    for metric, statistic in (("accuracy", answers.accuracy), ("macro_f1", answers.macro_f1)):
        estimate = percentile_interval(
            statistic,
            sizes=(len(answers.truth),),
            resamples=settings.resamples,
            rng=public_rng(settings.seed, prefix, metric, attribute),
        )
        figures.append(_figure(prefix + metric, attribute, estimate))
    return figures


def _distance(
    statistic: Callable[..., float],
    reference: NDArray[Any],
    synthetic: NDArray[Any],
    *,
    resamples: int,
    rng: Rng,
    most: float = np.inf,
) -> Estimate:
    return normal_interval(
        statistic,
        sizes=(len(reference), len(synthetic)),
        resamples=resamples,
        rng=rng,
        within=(0.0, most),
    )


def _figure(metric: str, space: str, estimate: Estimate) -> Figure:
    return Figure(
        metric=metric, space=space, value=estimate.value, low=estimate.low, high=estimate.high
    )
