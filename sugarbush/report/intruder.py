"""Prepares the motivated-intruder test of the internal page: attacks against held-out texts.

The figures are exact figures of real texts. They are outside the guarantee, so only the internal
page shows them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from sugarbush.evaluation.interface import FINAL, REAL, MetricValue
from sugarbush.report import svg

_NEARER, _COPIES = "nearer_to_training", "long_copies"
_ROW, _LEFT, _TOP = 26, 120, 20


def intruder_view(
    values: Sequence[MetricValue], styles: Mapping[str, svg.SeriesStyle]
) -> dict[str, Any] | None:
    """Return a sentence for each method and one chart, or None without the figures of the test."""
    final = [v for v in values if v.round == FINAL and v.method != REAL]
    nearer = {v.method: v for v in final if v.metric == _NEARER}
    if not nearer:
        return None
    copies = {(v.method, v.space): v.value for v in final if v.metric == _COPIES}
    sentences = [_sentence(name, value, copies) for name, value in nearer.items()]
    return {"sentences": sentences, "chart": _chart(nearer, styles)}


def _sentence(name: str, value: MetricValue, copies: Mapping[tuple[str, str], float]) -> str:
    shared = [copies.get((name, space)) for space in ("private", "heldout")]
    said = (
        f"{100 * value.value:.1f}%{_within(value)} of the texts of {name} are nearer to a training "
        "record than to every held-out record. If nothing was copied, an intruder expects 50%."
    )
    if None in shared:
        return said
    private, heldout = (f"{100 * (share or 0.0):.1f}%" for share in shared)
    return (
        f"{said} {private} share 16 words in a row with training records, and {heldout} with "
        "held-out records, which cannot be copied."
    )


def _within(value: MetricValue) -> str:
    if value.low is None or value.high is None:
        return ""
    return f" ({100 * value.low:.1f}% to {100 * value.high:.1f}%)"


def _chart(nearer: Mapping[str, MetricValue], styles: Mapping[str, svg.SeriesStyle]) -> Markup:
    """Draw the share of texts nearer to training records, one row per method, and the 50% line."""
    height = _TOP + _ROW * len(nearer) + 30
    x = svg.Axis(low=0.0, high=1.0, start=_LEFT, end=svg.WIDTH - 20)
    bottom = height - 26
    elements = [
        svg.line([(x(0.5), _TOP - 6), (x(0.5), bottom)], "ceiling"),
        svg.text("guess", x(0.5), _TOP - 9, anchor="middle", class_="name"),
        *svg.axis_bottom(x, bottom, labels=[(0.0, "0%"), (0.5, "50%"), (1.0, "100%")]),
        *_rows(nearer, styles, x),
    ]
    label = "Share of texts nearer to training records than to held-out records"
    return svg.chart(elements, width=svg.WIDTH, height=height, label=label)


def _rows(
    nearer: Mapping[str, MetricValue], styles: Mapping[str, svg.SeriesStyle], x: svg.Axis
) -> Iterator[Markup]:
    for row, (name, value) in enumerate(nearer.items()):
        style, shape = styles[name]
        y = _TOP + _ROW * row + _ROW / 2
        drawn = [svg.text(name, _LEFT - 10, y + 4, anchor="end", class_="name")]
        if value.low is not None and value.high is not None:
            drawn.append(svg.line([(x(value.low), y), (x(value.high), y)], "whisker"))
        drawn.append(svg.marker(shape, x(value.value), y, "mark"))
        yield svg.group(drawn, class_=style)
