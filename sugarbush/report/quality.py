"""The section that only the internal page has: how near the texts are to real ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sugarbush.report.model import FINAL, REAL, Figure, InternalData
from sugarbush.report.plots import metric_lines
from sugarbush.report.svg import series_styles


@dataclass(frozen=True, kw_only=True)
class Metric:
    """How a metric is named, which way is better, and its range where a chart should show it."""

    label: str
    better: str
    bounds: tuple[float, float] | None = None
    says: str = ""


METRICS = {
    "mauve": Metric(
        label="MAUVE", better="higher", bounds=(0.0, 1.0),
        says="how alike the two sets of texts are; 1 is alike",
    ),
    "frechet": Metric(
        label="Fréchet distance", better="lower", says="between Gaussians fitted to the features",
    ),
    "precision": Metric(label="Precision", better="higher", says="synthetic texts near real ones"),
    "recall": Metric(label="Recall", better="higher", says="real texts near synthetic ones"),
    "density": Metric(label="Density", better="higher", says="how thickly, 1 being that of real"),
    "coverage": Metric(label="Coverage", better="higher", says="real texts with one nearby"),
    "mean": Metric(
        label="Mean JSD", better="lower",
        says="over attributes; the root of the Jensen–Shannon divergence, in nats",
    ),
    "total_variation_2": Metric(label="2-way total variation", better="lower"),
    "total_variation_3": Metric(label="3-way total variation", better="lower"),
    "length": Metric(label="Length distance", better="lower", says="Wasserstein, in words"),
    "mean_words": Metric(label="Mean words", better=""),
    "texts": Metric(label="Texts", better="", says="figures compare best at equal numbers"),
    "duplicates": Metric(label="Duplicates", better="lower", says="share of the texts"),
    "distinct_1": Metric(label="Distinct words", better="higher"),
    "distinct_2": Metric(label="Distinct pairs of words", better="higher"),
    "accuracy": Metric(
        label="Accuracy", better="higher", says="trained on these texts, tested on held-out ones",
    ),
    "macro_f1": Metric(label="Macro-F1", better="higher"),
    "next_token_accuracy": Metric(
        label="Next-token accuracy", better="higher",
        says="of a small model trained on these texts, on held-out ones",
    ),
    "perplexity": Metric(label="Perplexity", better="lower", says="of the same model"),
    "fine_tuned_accuracy": Metric(
        label="Fine-tuned accuracy", better="higher",
        says="fine-tuned on these texts, tested on held-out ones",
    ),
    "fine_tuned_macro_f1": Metric(label="Fine-tuned macro-F1", better="higher"),
    "longest_copy": Metric(
        label="Longest shared run", better="lower", says="words in a row that also stand there",
    ),
    "long_copies": Metric(
        label="Texts sharing 16 words", better="lower", says="share of the texts",
    ),
    "nearer_to_training": Metric(
        label="Nearer to training", better="",
        says="than to held-out texts; 0.5 where nothing was copied. A copy check, not a "
        "privacy test",
    ),
}  # fmt: skip
_BY_ROUND = ("mauve", "frechet", "mean")


def quality_view(internal: InternalData, styles: Mapping[str, tuple[str, int]]) -> dict[str, Any]:
    """Charts by round and tables of the final sets.

    `styles` are the released methods in order; arms that stay private come after them.
    """
    arms = dict.fromkeys(f.method for f in internal.figures if f.method != REAL)
    private = [arm for arm in arms if arm not in styles]
    styles = series_styles([*styles, *private])
    return {
        "charts": list(_metric_charts(internal.figures, styles)),
        "tables": _final_tables(internal.figures, list(styles)),
        "styles": styles,
    }


def _metric_charts(
    figures: Sequence[Figure], styles: Mapping[str, tuple[str, int]]
) -> list[dict[str, Any]]:
    charts = []
    for metric in _BY_ROUND:
        spaces = dict.fromkeys(f.space for f in figures if f.metric == metric)
        for space in spaces:
            own = [f for f in figures if f.metric == metric and f.space == space]
            ceiling = next((f for f in own if f.method == REAL), None)
            shown = [f for f in own if f.method in styles]
            if len({f.round for f in shown}) < 2:
                continue
            named = METRICS[metric]
            title = named.label
            if space != "attribute":
                title += f", {_SPACES[space][0].lower()}{_SPACES[space][1:]}"
            picture = metric_lines(
                shown, styles=styles, ceiling=ceiling, title=title, bounds=named.bounds
            )
            charts.append({"title": title, "better": named.better, "chart": picture,
                           "says": named.says})  # fmt: skip
    return charts


def _final_tables(figures: Sequence[Figure], methods: Sequence[str]) -> list[dict[str, Any]]:
    """The final sets, one column a method: metrics of a space, or attributes or corpora of one."""
    final = [f for f in figures if f.round == FINAL]
    by_title: dict[str, dict[Metric, dict[str, Figure]]] = {}
    for figure in final:
        title, row = _place(figure)
        by_title.setdefault(title, {}).setdefault(row, {})[figure.method] = figure
    tables = []
    for title, rows in by_title.items():
        columns = [m for m in (*methods, REAL) if any(m in cells for cells in rows.values())]
        tables.append(
            {
                "title": title,
                "columns": columns,
                "rows": [
                    {
                        "metric": row.label,
                        "says": row.says,
                        "better": row.better,
                        "cells": [cells.get(m) for m in columns],
                    }
                    for row, cells in rows.items()
                ],
            }
        )
    return tables


def _place(figure: Figure) -> tuple[str, Metric]:
    """The title of the table that a figure stands in, and its row there."""
    metric, space = METRICS.get(figure.metric), figure.space
    if space in _SPACES:
        lower = "lower" if space == "attribute" else ""
        return _SPACES[space], metric or Metric(label=figure.metric, better=lower)
    if figure.metric.startswith(_MAJORITY):
        title, row = _place(replace(figure, metric=figure.metric.removeprefix(_MAJORITY)))
        return title, Metric(label=f"{row.label}, always the most common value", better="")
    metric = metric or Metric(label=figure.metric, better="")
    if space in _CORPORA:
        return "Copies", replace(metric, label=f"{metric.label}, {_CORPORA[space]}")
    says = f"{metric.label}: {metric.says}" if metric.says else metric.label
    return says, Metric(label=space, better=metric.better)


_MAJORITY = "majority_"
_SPACES = {
    "encoder": "In the encoder's space",
    "tf-idf": "In the space of words (TF-IDF)",
    "second encoder": "In the second encoder's space",
    "attribute": "Jensen–Shannon distance by attribute",
    "table": "Combinations of attributes",
    "words": "Lengths",
    "text": "Variety",
}
_CORPORA = {
    "private": "private texts",
    "heldout": "held-out texts",
    "donated": "donated examples",
    "public": "public texts",
}
