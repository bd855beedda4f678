"""Draws charts as inline SVG.

A chart contains class names instead of colours. The page's style sheet defines the colours for dark
screens, light screens and print. Every text is escaped.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup, escape

WIDTH = 440  # the width of every chart
_COLOURS = 6  # the number of series colours in the style sheet
SeriesStyle = tuple[str, int]  # (class in the style sheet, number of the mark)


@dataclass(frozen=True, kw_only=True)
class Axis:
    """Maps values in [low, high] to positions in [start, end]. `log` means a logarithmic scale."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high, at = self.low, self.high, value
        if self.log:
            low, high, at = (math.log(v) for v in (low, high, max(value, low)))
        share = 0.5 if high == low else (at - low) / (high - low)
        return round(self.start + share * (self.end - self.start), 1)

    def ticks(self, count: int = 4) -> list[float]:
        if self.log:
            return [10.0**k for k in range(8) if self.low <= 10**k <= self.high * 1.001]
        if self.high <= self.low:
            return [self.low]
        rough = (self.high - self.low) / max(count, 1)
        step = 10.0 ** math.floor(math.log10(rough))
        step *= next((f for f in (1, 2, 5, 10) if f * step >= rough), 10)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [k * step for k in range(first, last + 1)]


def element(tag: str, content: str | Markup = "", **attributes: object) -> Markup:
    """Return one element. Write `class_` for `class`, and `stroke_width` for `stroke-width`."""
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(value)}"'
        for name, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{tag}{written}>{escape(content)}</{tag}>")


def group(elements: Sequence[Markup], **attributes: object) -> Markup:
    """Return an element that contains several elements."""
    return element("g", Markup("").join(elements), **attributes)


def chart(elements: Sequence[Markup], *, width: int, height: int, label: str) -> Markup:
    """Return a picture that scales to its column, with a `label` for screen readers."""
    return element(
        "svg",
        Markup("").join([element("title", label), *elements]),
        class_="chart",
        viewBox=f"0 0 {width} {height}",
        role="img",
        **{"aria-label": label},
    )


def text(content: str, x: float, y: float, *, anchor: str = "start", class_: str = "") -> Markup:
    """Write a line of text."""
    return element("text", content, x=x, y=y, text_anchor=anchor, class_=class_ or None)


def line(points: Sequence[tuple[float, float]], class_: str) -> Markup:
    """Draw a polyline."""
    return element("polyline", points=_joined(points), class_=class_)


def rectangle(x: float, y: float, width: float, height: float, class_: str) -> Markup:
    """Draw a box."""
    width, height = round(max(width, 0), 1), round(height, 1)
    return element("rect", x=round(x, 1), y=round(y, 1), width=width, height=height, class_=class_)


def marker(shape: int, x: float, y: float, class_: str, *, size: float = 4.2) -> Markup:
    """Draw a mark. The shape identifies the series without colour."""
    match shape % 4:
        case 0:
            return element("circle", cx=x, cy=y, r=size, class_=class_)
        case 1:
            side = size * 1.75
            return rectangle(x - side / 2, y - side / 2, side, side, class_)
        case 2:
            half = size * 1.15
            corners = [(x, y - size * 1.2), (x + half, y + size), (x - half, y + size)]
        case _:
            reach = size * 1.35
            corners = [(x, y - reach), (x + reach, y), (x, y + reach), (x - reach, y)]
    return element("polygon", points=_joined(corners), class_=class_)


def axis_bottom(scale: Axis, y: float, *, labels: Sequence[tuple[float, str]]) -> list[Markup]:
    """Draw a baseline with labels below it."""
    elements = [line([(scale.start, y), (scale.end, y)], "axis")]
    for value, label in labels:
        x = scale(value)
        elements += [line([(x, y), (x, y + 4)], "axis"), text(label, x, y + 16, anchor="middle")]
    return elements


def axis_left(scale: Axis, x: float, end: float, *, ticks: Sequence[float]) -> list[Markup]:
    """Draw faint horizontal lines, each with its value at the left."""
    elements = []
    for value in ticks:
        y = scale(value)
        elements += [
            line([(x, y), (end, y)], "rule"),
            text(short(value), x - 7, y + 4, anchor="end"),
        ]
    return elements


def short(value: float) -> str:
    """Write a number with few characters: 0.25, 12, 1.5k."""
    if value == 0:
        return "0"
    if abs(value) >= 1e6:
        return f"{value / 1e6:.3g}M"
    if abs(value) >= 1e4:
        return f"{value / 1e3:.3g}k"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def thinned(count: int, *, most: int = 200) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return at most `most` ranks from 1 to `count`, evenly spaced on a logarithmic axis."""
    if count <= most:
        return np.arange(1, count + 1)
    return np.unique(np.geomspace(1, count, most).round().astype(np.int64))


def _joined(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def series_styles(names: Iterable[str]) -> dict[str, SeriesStyle]:
    """Return the style of each series. Up to twelve series differ in colour or shape."""
    return {name: (f"series-{i % _COLOURS}", i) for i, name in enumerate(dict.fromkeys(names))}
