"""The metrics that train a model on each final set, where the settings ask for them: slow.

Apart from `sugarbush.pipeline.evaluator`: what trains is loaded only by who wants it.
"""

from __future__ import annotations

from dataclasses import replace

from sugarbush.evaluation.evaluate import FINAL, Figure, Sample
from sugarbush.evaluation.fine_tuned import PUBLISHED as FINE_TUNING
from sugarbush.evaluation.next_token import PUBLISHED as DECODING
from sugarbush.evaluation.next_token import Decoder
from sugarbush.evaluation.settings import EvaluateSettings
from sugarbush.evaluation.trained import fine_tuned_figures, next_token_figures
from sugarbush.pipeline.evaluator import Evaluator


def trained_figures(
    evaluator: Evaluator, sample: Sample, *, method: str, params: EvaluateSettings
) -> tuple[Figure, ...]:
    """What models learn from `sample`, whose codes are those that its texts came with."""
    figures: tuple[Figure, ...] = ()
    if params.next_token.seeds:
        figures += _next_token(evaluator, sample, method=method, params=params)
    if params.fine_tuned.seeds:
        figures += _fine_tuned(evaluator, sample, method=method, params=params)
    return figures


def _next_token(
    evaluator: Evaluator, sample: Sample, *, method: str, params: EvaluateSettings
) -> tuple[Figure, ...]:
    own = params.next_token
    return next_token_figures(
        sample.texts,
        evaluator.heldout.texts,
        decoder=Decoder(name=own.model, layers=own.layers, width=own.width),
        training=replace(DECODING, epochs=own.epochs, max_tokens=own.max_tokens),
        seeds=own.seeds, settings=evaluator.settings, method=method, round_=FINAL,
    )  # fmt: skip


def _fine_tuned(
    evaluator: Evaluator, sample: Sample, *, method: str, params: EvaluateSettings
) -> tuple[Figure, ...]:
    own, names = params.fine_tuned, list(evaluator.domain)
    chosen = [names.index(name) for name in own.attributes or names]
    return fine_tuned_figures(
        replace(evaluator.heldout, codes=evaluator.heldout_codes[:, chosen]),
        replace(sample, codes=sample.codes[:, chosen]),
        domain={names[place]: evaluator.domain[names[place]] for place in chosen},
        name=own.model,
        training=replace(FINE_TUNING, epochs=own.epochs, max_tokens=own.max_tokens),
        seeds=own.seeds, settings=evaluator.settings, method=method, round_=FINAL,
    )  # fmt: skip
