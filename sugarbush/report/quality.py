"""Prepares a section of the internal page that compares the synthetic texts with real texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from markupsafe import Markup

from sugarbush.evaluation.downstream import ROWS
from sugarbush.evaluation.interface import FINAL, REAL, MetricValue
from sugarbush.report import svg
from sugarbush.report.intruder import intruder_view
from sugarbush.report.model import InternalData
from sugarbush.report.plots import interval


class MetricLabel(NamedTuple):
    """The title of a metric, the better direction (higher or lower), and a short explanation."""

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
    """Return charts by round, and tables of the final texts.

    `styles` contains the styles of the released methods. The result also contains styles for all
    other methods.
    """
    styles = svg.series_styles([*styles, *(v.method for v in internal.values if v.method != REAL)])
    return {
        "charts": list(_metric_charts(internal, styles)),
        "tables": _final_tables(internal.values, list(styles)),
        "styles": styles,
        "by_texts": bool(internal.by_texts),
        "intruder": intruder_view(internal.values, styles),
        "audits": internal.audits,
        "removed": internal.removed,
    }


def _metric_charts(
    internal: InternalData, styles: Mapping[str, svg.SeriesStyle]
) -> Iterator[dict[str, Any]]:
    for metric in _BY_ROUND:
        for space in dict.fromkeys(v.space for v in internal.values if v.metric == metric):
            metric_values = [v for v in internal.values if v.metric == metric and v.space == space]
            method_values = [v for v in metric_values if v.method in styles]
            ceiling = next((v for v in metric_values if v.method == REAL), None)
            rounds = sorted({v.round for v in method_values}, key=lambda r: (r == FINAL, r))
            names = {0: "start", FINAL: "final"}
            steps = {
                names.get(r, f"round {r}"): [v for v in method_values if v.round == r]
                for r in rounds
            }
            if len(steps) > 1:
                yield _chart(metric, space, steps, by="round", styles=styles, ceiling=ceiling)
    real = {REAL: ("series-real", 3)}
    for space in dict.fromkeys(v.space for values in internal.by_texts.values() for v in values):
        steps = {
            f"{count:,} texts": [v for v in values if v.space == space]
            for count, values in sorted(internal.by_texts.items())
        }
        yield _chart("mauve", space, steps, by="number of texts", styles={**styles, **real})


def _chart(
    metric: str,
    space: str,
    steps: Mapping[str, Sequence[MetricValue]],
    *,
    by: str,
    styles: Mapping[str, svg.SeriesStyle],
    ceiling: MetricValue | None = None,
) -> dict[str, Any]:
    label, better, explanation = _LABELS[metric]
    title = label
    if space != "attribute":
        title += f", {_SPACES[space][0].lower()}{_SPACES[space][1:]}"
    most = 1.0 if metric == "mauve" else None
    named = f"{title} by {by}"
    picture = metric_lines(steps, styles=styles, ceiling=ceiling, title=named, most=most)
    title = title if by == "round" else named
    return {"title": title, "better": better, "chart": picture, "explanation": explanation}


def metric_lines(
    steps: Mapping[str, Sequence[MetricValue]],
    *,
    styles: Mapping[str, svg.SeriesStyle],
    ceiling: MetricValue | None,
    title: str,
    most: float | None,
) -> Markup:
    """Draw one metric of each method at several steps, such as rounds, with intervals.

    `ceiling` is the metric's value for real texts. `most` is the end of the axis. If it is
    None, the largest value decides.
    """
    height, left, right, top, bottom = 250, 52, 16, 14, 34
    values = [(index, step, v) for index, step in enumerate(steps) for v in steps[step]]
    all_values = [v for _, _, v in values] + ([ceiling] if ceiling is not None else [])
    reached = [b for v in all_values for b in (v.value, v.low, v.high) if b is not None]
    x = svg.Axis(low=-0.3, high=len(steps) - 0.7, start=left, end=svg.WIDTH - right)
    y = svg.Axis(low=0.0, high=most or max(reached) * 1.1 or 1.0, start=height - bottom, end=top)
    elements = svg.axis_left(y, left, svg.WIDTH - right, ticks=y.ticks())
    if ceiling is not None:
        level = y(ceiling.value)
        elements.append(svg.line([(left, level), (svg.WIDTH - right, level)], "ceiling"))
        elements.append(
            svg.text("real texts", svg.WIDTH - right, level - 5, anchor="end", class_="name")
        )
    methods = [m for m in styles if any(v.method == m for _, _, v in values)]
    for offset, method in enumerate(methods):
        style, shape = styles[method]
        nudge = (offset - (len(methods) - 1) / 2) * 0.06
        points = [(x(index + nudge), step, v) for index, step, v in values if v.method == method]
        drawn = [svg.line([(px, y(v.value)) for px, _, v in points], "curve")]
        for px, step, value in points:
            mark = [svg.element("title", f"{method}, {step}: {interval(value)}")]
            if value.low is not None and value.high is not None:
                mark.append(svg.line([(px, y(value.low)), (px, y(value.high))], "whisker"))
            drawn.append(svg.group([*mark, svg.marker(shape, px, y(value.value), "mark")]))
        elements.append(svg.group(drawn, class_=style))
    labels = [step.removeprefix("round ").removesuffix(" texts") for step in steps]
    elements += svg.axis_bottom(x, height - bottom, labels=list(enumerate(labels)))
    return svg.chart(elements, width=svg.WIDTH, height=height, label=title)


def _final_tables(values: Sequence[MetricValue], methods: Sequence[str]) -> list[dict[str, Any]]:
    by_title: dict[str, dict[MetricLabel, dict[str, MetricValue]]] = {}
    for value in values:
        if value.round == FINAL:
            title, row = _table_and_row(value)
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


def _table_and_row(value: MetricValue) -> tuple[str, MetricLabel]:
    """Return the title of the table that shows a metric value, and the label of the value's row.

    For a metric from a plug-in, the title is the metric's name.
    """
    label, space = _LABELS.get(value.metric, MetricLabel(value.metric)), value.space
    if space in _SPACES:
        by_attribute = space == "attribute" and value.metric not in _LABELS
        return _SPACES[space], label._replace(better=_LOW) if by_attribute else label
    for prefix, learned in _LEARNED.items():
        if value.metric.startswith(prefix) and value.metric.removeprefix(prefix) in _USEFULNESS:
            title, row = _table_and_row(replace(value, metric=value.metric.removeprefix(prefix)))
            return title, row._replace(label=f"{row.label}: {learned}")
    if space in _CORPORA:
        return "Copies", label._replace(label=f"{label.label}, {_CORPORA[space]}")
    title = f"{label.label}: {label.explanation}" if label.explanation else label.label
    return title, MetricLabel(space, label.better)


_USEFULNESS = ("accuracy", "macro_f1")
_LEARNED = {prefix: row for prefix, row in ROWS.items() if prefix}


def metric_title(value: MetricValue) -> str:
    """Return a short title of a metric and its space. An arrow shows the better direction.

    >>> metric_title(MetricValue(metric="mauve", space="encoder", value=0.9))
    'MAUVE, encoder ↑'
    """
    label = _LABELS.get(value.metric, MetricLabel(value.metric))
    title = label.label if value.space in _WITHOUT_SPACE else f"{label.label}, {value.space}"
    return f"{title} {_ARROWS[label.better]}".rstrip()


_ARROWS = {_HIGH: "↑", _LOW: "↓", "": ""}
_WITHOUT_SPACE = ("text", "words", "table")
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
