"""Computes all metrics of one synthetic corpus.

Metrics use real texts, so the results are internal and not DP. Do not use the results to choose
settings.
"""

from __future__ import annotations

from collections.abc import Iterable

from sugarbush.errors import InvariantError
from sugarbush.evaluation import (
    frechet,
    jensen_shannon,
    mauve,
    precision_recall,
    texts,
    total_variation,
)
from sugarbush.evaluation.interface import Metric, MetricSettings, MetricValue, Sample

BUILT_IN: tuple[Metric, ...] = (
    mauve.METRIC,
    frechet.METRIC,
    precision_recall.METRIC,
    jensen_shannon.METRIC,
    total_variation.METRIC,
    texts.LENGTHS,
    texts.DISTINCT,
)


def installed_metrics() -> tuple[Metric, ...]:
    """Return the built-in metrics and the metrics of other packages."""
    from sugarbush.registry import METRICS, load_plugin, plugin_names

    names = {metric.name for metric in BUILT_IN}
    added = (load_plugin(METRICS, name) for name in plugin_names(METRICS) if name not in names)
    return (*BUILT_IN, *added)


def evaluate_texts(
    heldout: Sample,
    synthetic: Sample,
    settings: MetricSettings,
    *,
    metrics: Iterable[Metric] = BUILT_IN,
) -> tuple[MetricValue, ...]:
    """Compute all metrics that train no classifier.

    Without synthetic texts the result is empty. Compare methods at equal numbers of texts
    (`Sample.limited`). Raises InvariantError if there are no held-out texts.
    """
    if not len(heldout):
        raise InvariantError("evaluation needs held-out texts")
    if not len(synthetic):
        return ()
    return tuple(v for metric in metrics for v in metric.measure(heldout, synthetic, settings))
