"""Draws metrics with their intervals, one row per metric, as one picture."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from sugarbush.evaluation.interface import MetricValue
from sugarbush.report import svg
from sugarbush.report.notebook import Picture
from sugarbush.report.plots import interval
from sugarbush.report.quality import metric_title

_ROW, _LEFT, _WIDTH = 34, 300, 760
# The chart is shown without the page's style sheet. The colours are visible on white and on black.
_COLOURS = {
    "text": "font:13px sans-serif;fill:#777",
    ".axis": "stroke:#777;fill:none",
    ".whisker": "stroke:#c26a2b;stroke-width:2;fill:none",
    ".mark": "fill:#c26a2b",
}
_CLASS = "sugarbush-plot"  # without it, the style would change the notebook
_STYLE = "".join(f".{_CLASS} {element}{{{style}}}" for element, style in _COLOURS.items())


def interval_plot(values: Sequence[MetricValue]) -> Picture:
    """Draw each value that has a 95% interval. Each row has its own axis, which starts at 0.

    The axes end at 1 for values in [0, 1], and else at the largest bound of the row.
    """
    elements = [Markup(f"<style>{_STYLE}</style>")]
    intervals = [v for v in values if v.low is not None and v.high is not None]
    for index, value in enumerate(intervals):
        low, high = value.low or 0.0, value.high or 0.0
        y = 22 + _ROW * index
        reached = max(value.value, high)
        end = 1.0 if reached <= 1 else reached
        x = svg.Axis(low=0.0, high=end, start=_LEFT, end=_WIDTH - 170)
        elements += [
            svg.text(metric_title(value), _LEFT - 14, y + 4, anchor="end"),
            svg.line([(x.start, y), (x.end, y)], "axis"),
            svg.line([(x(low), y), (x(high), y)], "whisker"),
            svg.marker(0, x(value.value), y, "mark"),
            svg.text(interval(value), x.end + 10, y + 4),
        ]
    height = 22 + _ROW * len(intervals)
    label = "Similarity to real texts, with 95% intervals"
    drawn = svg.chart(elements, width=_WIDTH, height=height, label=label)
    size = f'xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}"'
    return Picture(str(drawn).replace('<svg class="chart"', f'<svg {size} class="{_CLASS}"', 1))
