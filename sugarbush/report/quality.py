"""The section that only the internal page has: how close the synthetic texts are to real texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from markupsafe import Markup

from sugarbush.evaluation.interface import FINAL, REAL, MetricValue
from sugarbush.report import svg
from sugarbush.report.model import InternalData
from sugarbush.report.plots import interval


class MetricLabel(NamedTuple):
    """The name of a metric, the better direction, and a short explanation."""

    label: str
    better: str = ""
    explanation: str = ""


_HIGH, _LOW = "higher", "lower"
_BY_NAME = {
    "mauve": ("MAUVE", _HIGH, "similarity of the two sets of texts; 1 for equal sets"),
    "frechet": ("Fréchet distance", _LOW, "between Gaussians fitted to the features"),
    "precision": ("Precision", _HIGH, "share of synthetic texts near real ones"),
    "recall": ("Recall", _HIGH, "share of real texts near synthetic ones"),
    "density": ("Density", _HIGH, "density of synthetic texts near real ones; 1 for real texts"),
    "coverage": ("Coverage", _HIGH, "share of real texts with a synthetic text nearby"),
    "mean": (
        "Mean JSD",
        _LOW,
        "mean over attributes of the square root of the Jensen–Shannon divergence, in nats",
    ),
    "total_variation_2": ("2-way total variation", _LOW),
    "total_variation_3": ("3-way total variation", _LOW),
    "length": ("Length distance", _LOW, "Wasserstein distance, in words"),
    "mean_words": ("Mean words",),
    "texts": ("Texts", "", "compare values only at equal numbers of texts"),
    "duplicates": ("Duplicates", _LOW, "share of the texts"),
    "distinct_1": ("Distinct words", _HIGH),
    "distinct_2": ("Distinct pairs of words", _HIGH),
    "accuracy": ("Accuracy", _HIGH, "trained on these texts, tested on held-out texts"),
    "macro_f1": ("Macro-F1", _HIGH),
    "longest_copy": ("Longest shared run", _LOW, "the most words in a row that occur in both"),
    "long_copies": ("Texts that share 16 words", _LOW, "share of the texts"),
    "nearer_to_training": (
        "Nearer to training",
        "",
        "share of texts nearer to training texts than to held-out texts; 0.5 if nothing was "
        "copied. This is a copy check, not a privacy test",
    ),
}
_LABELS = {name: MetricLabel(*fields) for name, fields in _BY_NAME.items()}
_BY_ROUND = ("mauve", "frechet", "mean")


def quality_view(internal: InternalData, styles: Mapping[str, tuple[str, int]]) -> dict[str, Any]:
    """Charts by round, and tables of the final texts.

    `styles` contains the released methods in order; styles for methods that are not released are
    added.
    """
    styles = svg.series_styles([*styles, *(v.method for v in internal.values if v.method != REAL)])
    return {
        "charts": list(_metric_charts(internal.values, styles)),
        "tables": _final_tables(internal.values, list(styles)),
        "styles": styles,
        "audits": internal.audits,
    }


def _metric_charts(
    values: Sequence[MetricValue], styles: Mapping[str, svg.SeriesStyle]
) -> list[dict[str, Any]]:
    charts = []
    for metric in _BY_ROUND:
        label, better, explanation = _LABELS[metric]
        for space in dict.fromkeys(v.space for v in values if v.metric == metric):
            own = [v for v in values if v.metric == metric and v.space == space]
            ceiling = next((v for v in own if v.method == REAL), None)
            shown = [v for v in own if v.method in styles]
            if len({v.round for v in shown}) < 2:
                continue
            title = label
            if space != "attribute":
                title += f", {_SPACES[space][0].lower()}{_SPACES[space][1:]}"
            picture = metric_lines(
                shown,
                styles=styles,
                ceiling=ceiling,
                title=title,
                most=1.0 if metric == "mauve" else None,
            )
            charts.append(
                {"title": title, "better": better, "chart": picture, "explanation": explanation}
            )
    return charts


def metric_lines(
    values: Sequence[MetricValue],
    *,
    styles: Mapping[str, svg.SeriesStyle],
    ceiling: MetricValue | None,
    title: str,
    most: float | None,
) -> Markup:
    """Draw one metric by round for each method, with intervals. The final texts come last.

    `ceiling` is the value of real texts. `most` is the end of the axis; if it is None, the data
    determine the end.
    """
    height, left, right, top, bottom = 250, 52, 16, 14, 34
    rounds = sorted({v.round for v in values if v.round != FINAL})
    places = {r: i for i, r in enumerate(rounds)} | {FINAL: len(rounds)}
    shown = [*values, ceiling] if ceiling is not None else values
    reached = [v.value for v in shown]
    reached += [b for v in values for b in (v.low, v.high) if b is not None]
    x = svg.Axis(low=-0.3, high=len(rounds) + 0.3, start=left, end=svg.WIDTH - right)
    y = svg.Axis(low=0.0, high=most or max(reached) * 1.1 or 1.0, start=height - bottom, end=top)
    parts = svg.axis_left(y, left, svg.WIDTH - right, ticks=y.ticks())
    if ceiling is not None:
        level = y(ceiling.value)
        parts.append(svg.line([(left, level), (svg.WIDTH - right, level)], "ceiling"))
        parts.append(
            svg.text("real texts", svg.WIDTH - right, level - 5, anchor="end", class_="name")
        )
    methods = [m for m in styles if any(v.method == m for v in values)]
    for offset, method in enumerate(methods):
        style, shape = styles[method]
        nudge = (offset - (len(methods) - 1) / 2) * 0.06
        own = sorted((v for v in values if v.method == method), key=lambda v: places[v.round])
        at = [(x(places[v.round] + nudge), y(v.value)) for v in own]
        drawn = [svg.line(at, "curve")]
        for (px, py), value in zip(at, own, strict=True):
            step = "final" if value.round == FINAL else f"round {value.round}"
            mark = [svg.element("title", f"{method}, {step}: {interval(value)}")]
            if value.low is not None and value.high is not None:
                mark.append(svg.line([(px, y(value.low)), (px, y(value.high))], "whisker"))
            drawn.append(svg.group([*mark, svg.marker(shape, px, py, "mark")]))
        parts.append(svg.group(drawn, class_=style))
    labels = [(places[r], "start" if r == 0 else str(r)) for r in rounds]
    parts += svg.axis_bottom(x, height - bottom, labels=[*labels, (len(rounds), "final")])
    return svg.chart(parts, width=svg.WIDTH, height=height, label=f"{title} by round")


def _final_tables(values: Sequence[MetricValue], methods: Sequence[str]) -> list[dict[str, Any]]:
    """Make the tables for the final texts: one table for each title, one column for each method."""
    by_title: dict[str, dict[MetricLabel, dict[str, MetricValue]]] = {}
    for value in values:
        if value.round == FINAL:
            title, row = _place(value)
            by_title.setdefault(title, {}).setdefault(row, {})[value.method] = value
    tables = []
    for title, rows in by_title.items():
        columns = [m for m in (*methods, REAL) if any(m in cells for cells in rows.values())]
        tables.append(
            {
                "title": title,
                "columns": columns,
                "rows": [(row, [cells.get(m) for m in columns]) for row, cells in rows.items()],
            }
        )
    return tables


def _place(value: MetricValue) -> tuple[str, MetricLabel]:
    """Return the title of the table that shows a value, and the value's row in the table.

    A metric from a plug-in has its own name as title.
    """
    label, space = _LABELS.get(value.metric, MetricLabel(value.metric)), value.space
    if space in _SPACES:
        by_attribute = space == "attribute" and value.metric not in _LABELS
        return _SPACES[space], label._replace(better=_LOW) if by_attribute else label
    if value.metric.startswith(_MAJORITY):
        title, row = _place(replace(value, metric=value.metric.removeprefix(_MAJORITY)))
        return title, MetricLabel(f"{row.label}, always the most common value")
    if space in _CORPORA:
        return "Copies", label._replace(label=f"{label.label}, {_CORPORA[space]}")
    title = f"{label.label}: {label.explanation}" if label.explanation else label.label
    return title, MetricLabel(space, label.better)


_MAJORITY = "majority_"
_SPACES = {
    "encoder": "In the encoder's space",
    "tf-idf": "In the space of words (TF-IDF)",
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
