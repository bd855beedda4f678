"""Renders the page of a sweep: for each data set, methods at equal budget, with intervals.

The values are computed on held-out texts of public data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from markupsafe import Markup

from research.report.curves import CurveFigure, curves
from research.report.templating import TEMPLATES
from sugarbush.evaluation import FINAL, REAL, MetricValue, read_values
from sugarbush.report import (
    Axis,
    axis_bottom,
    chart,
    element,
    group,
    inlined,
    interval,
    line,
    marker,
    series_styles,
    short,
    text,
)

OVER_TEXTS = "Intervals are 95% bootstrap intervals over texts, not over runs; a row is one run"
_WIDTH = 440
# For each chart of final texts: column, metric, space, title, and whether high or low values are
# better.
_SHOWN = (
    ("mauve", "mauve", "encoder", "MAUVE, encoder", "higher"),
    ("mauve_words", "mauve", "tf-idf", "MAUVE, words", "higher"),
    ("jsd", "mean", "attribute", "Mean JSD", "lower"),
    ("coverage", "coverage", "encoder", "Coverage", "higher"),
    ("next_token", "next_token_accuracy", "text", "Next-token accuracy", "higher"),
    ("perplexity", "perplexity", "text", "Perplexity", "lower"),
    ("fine_tuned", "fine_tuned_accuracy", "attribute", "Fine-tuned accuracy", "higher"),
    *(
        (f"facts_{count}", "retrieved", f"{count} carriers", f"Facts of {count} records", "higher")
        for count in (5, 50, 500)  # research.knowledge
    ),
)


@dataclass(frozen=True, kw_only=True)
class SweepPage:
    """All metric values of a sweep, and the names of the points without values (`missing`).

    The columns of `figures` are set, arm (REAL for real texts), method, epsilon, seed, round,
    calls, metric, space, value, low and high. The optional column options describes a row of
    another program. `intervals` describes the intervals in words.
    """

    name: str
    intervals: str
    figures: pd.DataFrame
    missing: tuple[str, ...]


def headline(figures: pd.DataFrame) -> pd.DataFrame:
    """Return one row per final set: number of texts, calls, and main values with intervals.

    The real texts of a data set have one row, the ceiling, measured on the same number of texts.
    """
    final = figures[figures["round"] == FINAL].drop_duplicates(  # drops repeated real texts
        ["set", "arm", "epsilon", "seed", "metric", "space"]
    )
    rows = []
    for (set_name, arm, epsilon, seed), own in final.groupby(
        ["set", "arm", "epsilon", "seed"], sort=False
    ):
        row: dict[str, Any] = {"set": set_name, "arm": arm, "epsilon": epsilon, "seed": seed}
        row["calls"] = own["calls"].iloc[0]
        row["texts"] = _one(own, "texts", "text").value
        for column, metric, space, _, _ in _SHOWN:
            figure = _one(own, metric, space)
            row[column], row[f"{column}_low"], row[f"{column}_high"] = (
                figure.value,
                figure.low,
                figure.high,
            )
        accuracy = own.loc[own["metric"] == "accuracy", "value"]
        row["accuracy"] = accuracy.mean() if len(accuracy) else math.nan
        rows.append(row)
    table = pd.DataFrame(rows)
    real = table["arm"] == REAL
    ceilings = table[real].drop_duplicates("set").assign(epsilon=math.nan, seed=math.nan)
    return pd.concat([table[~real], ceilings], ignore_index=True).sort_values(
        "set", kind="stable", ignore_index=True
    )


def shown(figures: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of `figures` that the page shows: final texts, and MAUVE by round."""
    known = [(metric, space) for _, metric, space, _, _ in _SHOWN] + [("texts", "text")]
    own = pd.MultiIndex.from_frame(figures[["metric", "space"]])
    final = (figures["round"] == FINAL) & (own.isin(known) | (figures["metric"] == "accuracy"))
    by_round = (figures["metric"] == "mauve") & (figures["space"] == "encoder")
    return figures[final | by_round]


def _one(figures: pd.DataFrame, metric: str, space: str) -> MetricValue:
    """Return the value of `metric` in `space`, or NaN if there is none."""
    own = figures[(figures["metric"] == metric) & (figures["space"] == space)]
    if own.empty:
        return MetricValue(method="", round=FINAL, space=space, metric=metric, value=math.nan)
    (figure,) = read_values({str(k): v for k, v in row.items()} for row in own.to_dict("records"))
    return figure


def render_sweep_page(page: SweepPage) -> str:
    """Return the page as one self-contained HTML file."""
    table = headline(page.figures)
    styles = series_styles([arm for arm in dict.fromkeys(table["arm"]) if arm != REAL])
    return TEMPLATES.get_template("sweep.html.jinja").render(
        **inlined(),
        name=page.name,
        intervals=page.intervals,
        missing=page.missing,
        styles=styles,
        programs=_programs(page.figures),
        sets=[
            _section(str(name), own, page.figures, styles)
            for name, own in table.groupby("set", sort=False)
        ],
    )


def _programs(figures: pd.DataFrame) -> dict[str, str]:
    """Return the version and options of each row of another program."""
    if "options" not in figures:
        return {}
    described = figures.fillna({"options": ""}).drop_duplicates("arm").set_index("arm")["options"]
    return {str(arm): str(options) for arm, options in described.items() if options}


def _section(
    name: str, table: pd.DataFrame, figures: pd.DataFrame, styles: dict[str, tuple[str, int]]
) -> dict[str, Any]:
    """Return the section of one data set: the table and the charts of its metrics."""
    shown = [item for item in _SHOWN if table[item[0]].notna().any()]
    return {
        "name": name,
        "shown": shown,
        "styles": {arm: style for arm, style in styles.items() if (table["arm"] == arm).any()},
        "seeds": table["seed"].nunique(),
        "learns": bool(table["accuracy"].notna().any()),
        "rows": [_cells(row) for row in table.to_dict("records")],
        "charts": [
            {
                "title": title,
                "better": better,
                "chart": forest(table, column, title=title, styles=styles),
            }
            for column, _, _, title, better in shown
        ],
        "epsilons": [
            {"title": title, "better": better, "chart": chart_}
            for column, _, _, title, better in shown
            if (chart_ := _by_epsilon(table, column, title=title, styles=styles))
        ],
        "calls": [
            {"epsilon": epsilon_text(epsilon), "chart": chart_}
            for epsilon, chart_ in _by_calls(figures, name, styles)
        ],
    }


def _cells(row: dict[Any, Any]) -> dict[str, Any]:
    """Return one row of the table: numbers for sorting, and the texts of the cells."""
    written = {
        column: interval(_figure(row, column)) if not math.isnan(row[column]) else "–"
        for column, *_ in _SHOWN
    }
    own = {"written": written, "epsilon_text": epsilon_text(row["epsilon"])}
    return {str(k): v for k, v in row.items()} | own


def epsilon_text(epsilon: float) -> str:
    """Return an epsilon as text."""
    if math.isnan(epsilon):
        return "–"
    return "∞" if math.isinf(epsilon) else f"{epsilon:g}"


def _figure(row: dict[Any, Any], column: str) -> MetricValue:
    low, high = row[f"{column}_low"], row[f"{column}_high"]
    known = low is not None and not math.isnan(low)
    return MetricValue(
        method=str(row["arm"]),
        round=FINAL,
        space="",
        metric=column,
        value=row[column],
        low=low if known else None,
        high=high if known else None,
    )


def forest(
    table: pd.DataFrame, column: str, *, title: str, styles: dict[str, tuple[str, int]]
) -> Markup:
    """Draw one line per final set: a mark for its value, and a whisker for its interval."""
    rows = [row for row in table.to_dict("records") if not math.isnan(row[column])]
    step, left, right, top = 22, 150, 16, 4
    base = top + step * len(rows)
    figures = [_figure(row, column) for row in rows]
    most = max((f.high if f.high is not None else f.value for f in figures), default=1.0)
    x = Axis(low=0, high=max(most, 1e-9), start=left, end=_WIDTH - right)
    parts = [line([(x(t), top), (x(t), base)], "rule") for t in x.ticks()]
    for place, (row, figure) in enumerate(zip(rows, figures, strict=True)):
        y = top + step * place + step / 2
        style, shape = styles.get(figure.method, ("series-real", 3))
        name = (
            "real texts"
            if figure.method == REAL
            else f"{figure.method}, ε {epsilon_text(row['epsilon'])}"
        )
        parts.append(text(name, left - 10, y + 4, anchor="end", class_="value"))
        drawn = [element("title", f"{name}: {interval(figure)}")]
        if figure.low is not None and figure.high is not None:
            drawn.append(line([(x(figure.low), y), (x(figure.high), y)], "whisker"))
        parts.append(group([*drawn, marker(shape, x(figure.value), y, "mark")], class_=style))
    parts += axis_bottom(x, base, labels=[(t, short(t)) for t in x.ticks()])
    return chart(parts, width=_WIDTH, height=base + 26, label=title)


def _by_epsilon(
    table: pd.DataFrame, column: str, *, title: str, styles: dict[str, tuple[str, int]]
) -> Markup | None:
    """Draw a chart with one line per method: the mean over seeds at each epsilon.

    Return None if no method has two epsilons. The chart has no intervals, because intervals would
    overlap. The table has the intervals.
    """
    finite = table[(table["epsilon"] > 0) & ~table["epsilon"].isin([math.inf])]
    means = finite.groupby(["arm", "epsilon"], sort=False)[column].mean().dropna().reset_index()
    several = means.groupby("arm")["epsilon"].transform("size") > 1
    if not several.any():
        return None
    rows = means[several].rename(columns={"epsilon": "x", column: "value"})
    rows = rows.assign(panel="", low=math.nan, high=math.nan)
    figure = CurveFigure(name=column, title=title, x="epsilon", y=title, rows=rows)
    return curves(figure, rows, styles)


def _by_calls(
    figures: pd.DataFrame, set_name: str, styles: dict[str, tuple[str, int]]
) -> list[tuple[float, Markup]]:
    """Draw one chart per epsilon, of MAUVE against generator calls, for the first seed.

    Methods without rounds are left out.
    """
    own = figures[
        (figures["set"] == set_name)
        & (figures["metric"] == "mauve")
        & (figures["space"] == "encoder")
        & (figures["round"] != FINAL)
        & figures["calls"].notna()
    ]
    found = []
    for epsilon in sorted(e for e in own["epsilon"].unique() if e > 0):
        at = own[own["epsilon"] == epsilon]
        lines = {
            str(arm): list(zip(rows["calls"], rows["value"], strict=True))
            for arm, rows in at[at["seed"] == at["seed"].min()].groupby("arm", sort=False)
            if len(rows) > 1
        }
        if lines:
            found.append((float(epsilon), call_curves(lines, styles=styles)))
    return found


def call_curves(
    lines: dict[str, list[tuple[float, float]]], *, styles: dict[str, tuple[str, int]]
) -> Markup:
    """Draw a chart with one line per method and one mark per round. The upper left corner is
    best."""
    height, left, right, top, bottom = 250, 46, 14, 14, 40
    calls: Sequence[float] = [c for curve in lines.values() for c, _ in curve]
    x = Axis(low=max(1.0, min(calls)), high=max(calls), start=left, end=_WIDTH - right, log=True)
    y = Axis(low=0, high=1, start=height - bottom, end=top)
    parts = [line([(left, y(t)), (_WIDTH - right, y(t))], "rule") for t in y.ticks()]
    parts += [text(short(t), left - 7, y(t) + 4, anchor="end") for t in y.ticks()]
    for arm, curve in lines.items():
        style, shape = styles[arm]
        at = [(x(c), y(value)) for c, value in curve]
        marks = [
            group(
                [
                    element("title", f"{arm}, {c:,.0f} calls: {value:.3f}"),
                    marker(shape, *place, "mark"),
                ]
            )
            for place, (c, value) in zip(at, curve, strict=True)
        ]
        parts.append(group([line(at, "curve"), *marks], class_=style))
    ends = sorted({min(calls), max(calls)})
    parts += axis_bottom(x, height - bottom, labels=[(c, short(c)) for c in ends])
    parts.append(text("calls", (left + _WIDTH) / 2, height - 6, anchor="middle", class_="name"))
    return chart(parts, width=_WIDTH, height=height, label="MAUVE by generator calls")
