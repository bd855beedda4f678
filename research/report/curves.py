"""Renders the page of a leakage grid: one chart per figure and panel, one line per method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from markupsafe import Markup

from research.report.templating import TEMPLATES
from sugarbush.report import (
    Axis,
    axis_bottom,
    chart,
    element,
    group,
    inlined,
    line,
    marker,
    series_styles,
    short,
    text,
)

_WIDTH, _HEIGHT = 440, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 14, 14, 40


@dataclass(frozen=True, kw_only=True)
class CurveFigure:
    """The data of a figure. The columns of `rows` are panel, arm (the method), x, value, low and
    high.

    `low` and `high` are NaN if there is no interval. The y axis starts at the lower of `floor` and
    the lowest value.
    """

    name: str
    title: str
    x: str
    y: str
    rows: pd.DataFrame
    floor: float = 0.0


@dataclass(frozen=True, kw_only=True)
class CurvePage:
    """The content of a page: figures, the table with their values, and remarks for the reader."""

    name: str
    remarks: tuple[str, ...]
    table: pd.DataFrame
    figures: tuple[CurveFigure, ...]


def render_curve_page(page: CurvePage) -> str:
    """Return the page as one self-contained file.

    The page is internal, because its values come from real texts.
    """
    arms = dict.fromkeys(arm for figure in page.figures for arm in figure.rows["arm"])
    styles = series_styles(arms)
    return TEMPLATES.get_template("curves.html.jinja").render(
        **inlined(),
        name=page.name,
        remarks=page.remarks,
        styles=styles,
        columns=list(page.table.columns),
        rows=page.table.astype(object).where(page.table.notna(), "–").to_numpy().tolist(),
        figures=[
            {
                "title": figure.title,
                "panel": f"{panel}: {figure.y}",
                "chart": curves(figure, own, styles),
            }
            for figure in page.figures
            for panel, own in figure.rows.groupby("panel", sort=False)
        ],
    )


def curves(figure: CurveFigure, rows: pd.DataFrame, styles: dict[str, tuple[str, int]]) -> Markup:
    """Draw one line for each method, one mark for each point, and one whisker for each interval."""
    least = min(figure.floor, float(rows[["value", "low"]].min().min()))
    most = float(rows[["value", "high"]].max().max())
    x = Axis(
        low=float(rows["x"].min()), high=float(rows["x"].max()), start=_LEFT, end=_WIDTH - _RIGHT
    )
    y = Axis(low=max(0.0, least), high=max(most, 1e-9), start=_HEIGHT - _BOTTOM, end=_TOP)
    parts = [line([(_LEFT, y(t)), (_WIDTH - _RIGHT, y(t))], "rule") for t in y.ticks()]
    parts += [text(short(t), _LEFT - 7, y(t) + 4, anchor="end") for t in y.ticks()]
    for arm, own in rows.groupby("arm", sort=False):
        style, shape = styles[str(arm)]
        points = own.sort_values("x").to_dict("records")
        drawn = [line([(x(p["x"]), y(p["value"])) for p in points], "curve")]
        for point in points:
            at = x(point["x"])
            if pd.notna(point["low"]):
                drawn.append(
                    line([(at, y(max(0.0, point["low"]))), (at, y(point["high"]))], "whisker")
                )
            title = f"{arm}, {figure.x} {point['x']:g}: {point['value']:.3g}"
            drawn.append(
                group([element("title", title), marker(shape, at, y(point["value"]), "mark")])
            )
        parts.append(group(drawn, class_=style))
    ticks: Sequence[float] = sorted(set(rows["x"])) if rows["x"].nunique() <= 5 else x.ticks()
    parts += axis_bottom(x, _HEIGHT - _BOTTOM, labels=[(t, short(t)) for t in ticks])
    middle = (_LEFT + _WIDTH) / 2
    parts.append(text(figure.x, middle, _HEIGHT - 6, anchor="middle", class_="name"))
    return chart(parts, width=_WIDTH, height=_HEIGHT, label=f"{figure.y} by {figure.x}")


def dvc_template() -> dict[str, Any]:
    """Return a Vega-Lite template for DVC: one facet for each panel, one line for each method."""
    by_x = {"field": "x", "type": "quantitative", "title": "<DVC_METRIC_X_LABEL>"}
    by_arm = {"field": "arm", "type": "nominal", "title": None}
    value = {"field": "value", "type": "quantitative", "title": "<DVC_METRIC_Y_LABEL>"}
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "title": "<DVC_METRIC_TITLE>",
        "data": {"values": "<DVC_METRIC_DATA>"},
        "facet": {"field": "panel", "columns": 2, "title": None},
        "spec": {
            "layer": [
                {
                    "mark": {"type": "line", "point": True},
                    "encoding": {"x": by_x, "y": value, "color": by_arm},
                },
                {
                    "mark": "rule",
                    "transform": [{"filter": "isValid(datum.low) && datum.low !== ''"}],
                    "encoding": {
                        "x": by_x,
                        "y": {"field": "low", "type": "quantitative"},
                        "y2": {"field": "high"},
                        "color": by_arm,
                    },
                },
            ]
        },
    }
