"""Metrics that train a model with several seeds: slow.

Each bootstrap resample draws both seeds and held-out texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from sugarbush.evaluation.bootstrap import Indices, percentile_interval
from sugarbush.evaluation.fine_tuned import PUBLISHED as FINE_TUNING
from sugarbush.evaluation.fine_tuned import fine_tuned_predictions
from sugarbush.evaluation.interface import (
    TEXT,
    MetricSettings,
    MetricValue,
    Progress,
    Sample,
    no_progress,
)
from sugarbush.evaluation.next_token import PUBLISHED as DECODING
from sugarbush.evaluation.next_token import Decoder, next_token_scores
from sugarbush.evaluation.settings import FineTunedSettings, NextTokenSettings
from sugarbush.randomness import public_rng, seed_of

Statistic = Callable[[Indices], float]


def next_token_values(
    heldout: Sample,
    training: Sample,
    *,
    model: NextTokenSettings,
    settings: MetricSettings,
    progress: Progress = no_progress,
) -> Iterator[MetricValue]:
    """Next-token accuracy and perplexity on held-out texts; no values without training texts.

    Held-out texts without a token to predict are skipped.
    """
    predictable = [text for text in heldout.texts if text.strip()]
    if not len(training) or not predictable:
        return
    scores = []
    for number in range(model.seeds):
        progress(f"next-token model, seed {number + 1} of {model.seeds}")
        scores.append(
            next_token_scores(
                training.texts,
                predictable,
                decoder=Decoder(name=model.model, layers=model.layers, width=model.width),
                training=replace(DECODING, epochs=model.epochs, max_tokens=model.max_tokens),
                seed=seed_of(settings.seed, "next token", number),
            )
        )
    for metric, by_seed in (
        ("next_token_accuracy", [score.accuracy for score in scores]),
        ("perplexity", [score.perplexity for score in scores]),
    ):
        yield _mean_over_seeds(metric, TEXT, by_seed, len(predictable), settings)


def fine_tuned_values(
    heldout: Sample,
    training: Sample,
    *,
    model: FineTunedSettings,
    settings: MetricSettings,
    progress: Progress = no_progress,
) -> Iterator[MetricValue]:
    """Accuracy and macro-F1 of an encoder fine-tuned on `training`, for each chosen attribute.

    Skips the same attributes and texts as `downstream_values`.
    """
    for column, (attribute, values) in enumerate(settings.domain.items()):
        known = np.flatnonzero(training.codes[:, column] >= 0)
        truth = heldout.codes[:, column]
        chosen = model.attributes is None or attribute in model.attributes
        if not chosen or not len(known) or len(np.unique(truth)) < 2:
            continue
        found = []
        for number in range(model.seeds):
            progress(f"fine-tuned encoder, '{attribute}', seed {number + 1} of {model.seeds}")
            found.append(
                fine_tuned_predictions(
                    [training.texts[index] for index in known],
                    training.codes[known, column],
                    heldout_texts=heldout.texts,
                    heldout_codes=truth,
                    values=values,
                    name=model.model,
                    training=replace(FINE_TUNING, epochs=model.epochs, max_tokens=model.max_tokens),
                    seed=seed_of(settings.seed, "fine-tuned", attribute, number),
                )
            )
        for metric, by_seed in (
            ("fine_tuned_accuracy", [one.accuracy for one in found]),
            ("fine_tuned_macro_f1", [one.macro_f1 for one in found]),
        ):
            yield _mean_over_seeds(metric, attribute, by_seed, len(truth), settings)


def _mean_over_seeds(
    metric: str, space: str, by_seed: Sequence[Statistic], texts: int, settings: MetricSettings
) -> MetricValue:
    estimate = percentile_interval(
        lambda chosen, seeds: float(np.mean([by_seed[seed](chosen) for seed in seeds])),
        sizes=(texts, len(by_seed)),
        resamples=settings.resamples,
        rng=public_rng(settings.seed, metric, space),
    )
    return MetricValue.of(metric, space, estimate)
