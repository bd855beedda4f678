"""Figures of the metrics that train a model: over several seeds, and slow.

An interval covers both which seeds and which held-out texts were drawn: each resample draws both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from sugarbush.evaluation.bootstrap import Indices, percentile_interval
from sugarbush.evaluation.evaluate import TEXT, Figure, Sample, Settings
from sugarbush.evaluation.fine_tuned import PUBLISHED as FINE_TUNING
from sugarbush.evaluation.fine_tuned import fine_tuned_predictions
from sugarbush.evaluation.next_token import PUBLISHED as DECODING
from sugarbush.evaluation.next_token import Decoder, next_token_scores
from sugarbush.evaluation.small_models import Training
from sugarbush.randomness import public_rng, seed_of

Statistic = Callable[[Indices], float]


def next_token_figures(
    training_texts: Sequence[str],
    heldout_texts: Sequence[str],
    *,
    decoder: Decoder,
    seeds: int,
    settings: Settings,
    method: str,
    round_: int,
    training: Training = DECODING,
) -> tuple[Figure, ...]:
    """Next-token accuracy and perplexity on held-out texts; none for an arm without texts.

    Held-out texts without a token to predict are left out.
    """
    predictable = [text for text in heldout_texts if text.strip()]
    if not training_texts or not predictable:
        return ()
    scores = [
        next_token_scores(
            training_texts, predictable, decoder=decoder, training=training,
            seed=seed_of(settings.seed, "next token", number),
        )
        for number in range(seeds)
    ]  # fmt: skip
    found = {
        "next_token_accuracy": [score.accuracy for score in scores],
        "perplexity": [score.perplexity for score in scores],
    }
    return tuple(
        _figure(
            metric,
            TEXT,
            by_seed,
            texts=len(predictable),
            settings=settings,
            method=method,
            round_=round_,
        )
        for metric, by_seed in found.items()
    )


def fine_tuned_figures(
    heldout: Sample,
    synthetic: Sample,
    *,
    domain: Mapping[str, int],
    seeds: int,
    settings: Settings,
    method: str,
    round_: int,
    name: str | None = None,
    training: Training = FINE_TUNING,
) -> tuple[Figure, ...]:
    """Accuracy and macro-F1 by attribute of an encoder fine-tuned on `synthetic`.

    Left out as in `evaluate_downstream`: an attribute with one value in the held-out part, or
    that no synthetic text was asked to have.
    """
    figures: list[Figure] = []
    for column, (attribute, values) in enumerate(domain.items()):
        known = np.flatnonzero(synthetic.codes[:, column] >= 0)
        truth = heldout.codes[:, column]
        if not len(known) or len(np.unique(truth)) < 2:
            continue
        answers = [
            fine_tuned_predictions(
                [synthetic.texts[place] for place in known],
                synthetic.codes[known, column],
                heldout_texts=heldout.texts,
                heldout_codes=truth,
                values=values,
                name=name,
                training=training,
                seed=seed_of(settings.seed, "fine-tuned", attribute, number),
            )
            for number in range(seeds)
        ]
        found = {
            "fine_tuned_accuracy": [answer.accuracy for answer in answers],
            "fine_tuned_macro_f1": [answer.macro_f1 for answer in answers],
        }
        figures += [
            _figure(
                metric,
                attribute,
                by_seed,
                texts=len(truth),
                settings=settings,
                method=method,
                round_=round_,
            )
            for metric, by_seed in found.items()
        ]
    return tuple(figures)


def _figure(
    metric: str, space: str, by_seed: Sequence[Statistic], *, texts: int, settings: Settings,
    method: str, round_: int,
) -> Figure:  # fmt: skip
    estimate = percentile_interval(
        lambda chosen, seeds: float(np.mean([by_seed[seed](chosen) for seed in seeds])),
        sizes=(texts, len(by_seed)),
        resamples=settings.resamples,
        rng=public_rng(settings.seed, metric, space),
    )
    figure = Figure(
        metric=metric, space=space, value=estimate.value, low=estimate.low, high=estimate.high
    )
    return replace(figure, method=method, round=round_)
