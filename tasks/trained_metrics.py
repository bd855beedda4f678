"""The metrics that train a model on each final set, where the settings ask for them: slow.

Apart from `tasks.yardstick`: what trains is loaded only by who wants it.
"""

from __future__ import annotations

from dataclasses import replace

from sugarbush.metrics.evaluate import FINAL, Figure, Sample
from sugarbush.metrics.fine_tuned import PUBLISHED as FINE_TUNING
from sugarbush.metrics.next_token import PUBLISHED as DECODING
from sugarbush.metrics.next_token import Decoder
from sugarbush.metrics.trained import fine_tuned_figures, next_token_figures
from sugarbush.params import EvaluateParams
from tasks.yardstick import Yardstick


def trained_figures(
    ruler: Yardstick, sample: Sample, *, method: str, params: EvaluateParams
) -> tuple[Figure, ...]:
    """What models learn from `sample`, whose codes are those that its texts came with."""
    figures: tuple[Figure, ...] = ()
    if params.next_token.seeds:
        figures += _next_token(ruler, sample, method=method, params=params)
    if params.fine_tuned.seeds:
        figures += _fine_tuned(ruler, sample, method=method, params=params)
    return figures


def _next_token(
    ruler: Yardstick, sample: Sample, *, method: str, params: EvaluateParams
) -> tuple[Figure, ...]:
    own = params.next_token
    return next_token_figures(
        sample.texts,
        ruler.heldout.texts,
        decoder=Decoder(name=own.model, layers=own.layers, width=own.width),
        training=replace(DECODING, epochs=own.epochs, max_tokens=own.max_tokens),
        seeds=own.seeds, settings=ruler.settings, method=method, round_=FINAL,
    )  # fmt: skip


def _fine_tuned(
    ruler: Yardstick, sample: Sample, *, method: str, params: EvaluateParams
) -> tuple[Figure, ...]:
    own, names = params.fine_tuned, list(ruler.domain)
    chosen = [names.index(name) for name in own.attributes or names]
    return fine_tuned_figures(
        replace(ruler.heldout, codes=ruler.heldout_codes[:, chosen]),
        replace(sample, codes=sample.codes[:, chosen]),
        domain={names[place]: ruler.domain[names[place]] for place in chosen},
        name=own.model,
        training=replace(FINE_TUNING, epochs=own.epochs, max_tokens=own.max_tokens),
        seeds=own.seeds, settings=ruler.settings, method=method, round_=FINAL,
    )  # fmt: skip
