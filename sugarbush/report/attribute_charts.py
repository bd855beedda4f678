"""Draws one chart per attribute, with the shares of the attribute's values in each source."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from sugarbush.report.model import InternalData, PublicData
from sugarbush.report.svg import WIDTH, Axis, SeriesStyle, chart, element, group, line, marker, text

_NORMAL_95 = 1.96


@dataclass(frozen=True, kw_only=True)
class Series:
    """The shares of an attribute's values in one source, `(values,)`.

    `style` is a class of the style sheet. `error` is half the width of a share's 95% interval.
    """

    name: str
    style: str
    shape: int
    shares: NDArray[Any]
    error: float | None = None


def attribute_charts(
    data: PublicData, internal: InternalData | None, styles: Mapping[str, SeriesStyle]
) -> list[dict[str, Any]]:
    """Draw charts of DP counts and requested values.

    With `internal`, also show the values of real texts and the values read from synthetic texts.
    """
    charts = []
    for attribute in data.release.schema.attributes:
        series = [
            Series(
                name=name,
                style=style,
                shape=shape,
                shares=positive / total,
                error=None if error is None else error / total,
            )
            for name, (style, shape), counts, error in _sources(
                attribute.name, data, internal, styles
            )
            if counts is not None
            and (total := float((positive := np.clip(np.asarray(counts, float), 0, None)).sum()))
        ]
        if series:
            charts.append(
                {
                    "name": attribute.name,
                    "description": attribute.description,
                    "band": _count_error(attribute.name, data),
                    "chart": attribute_shares(attribute.name, attribute.domain, series),
                    "series": series,
                }
            )
    return charts


def _sources(
    name: str, data: PublicData, internal: InternalData | None, styles: Mapping[str, SeriesStyle]
) -> Iterator[tuple[str, SeriesStyle, NDArray[Any] | None, float | None]]:
    """Yield the name, the style, the counts and the `_count_error` of each source."""
    if internal is not None:
        yield "real, held-out", ("series-real", 3), internal.heldout.get(name), None
        yield "real, train", ("series-train", 3), internal.train.get(name), None
    if (dp := data.metadata) is not None:
        counts = dp.counts.value.get(name)
        yield f"DP ({dp.source})", ("series-dp", 0), counts, _count_error(name, data)
    for method in data.methods:
        style, shape = styles[method.name]
        read = None if internal is None else internal.read.get(method.name, {}).get(name)
        if read is not None:
            yield f"{method.name}, read from its texts", (style, shape + 1), read, None
        else:
            requested = method.asked.value.get(name)
            yield f"{method.name}, requested", (style, shape + 1), requested, None


def _count_error(name: str, data: PublicData) -> float | None:
    """Return half the width of a DP count's 95% interval, or None if the noise is unknown."""
    stddev = None if data.metadata is None else data.metadata.stddev.get(name)
    return None if stddev is None else _NORMAL_95 * stddev


def attribute_shares(attribute: str, values: Sequence[str], series: Sequence[Series]) -> Markup:
    """Draw a chart with one row per value and one mark per series."""
    row, left, right, top = 24, 150, 16, 4
    base = top + row * len(values)
    most = max(0.05, *(float(np.max(s.shares, initial=0)) for s in series)) * 1.08
    x = Axis(low=0, high=most, start=left, end=WIDTH - right)
    elements = [line([(x(t), top), (x(t), base)], "rule") for t in x.ticks(3)]
    elements += [text(f"{t:.0%}", x(t), base + 16, anchor="middle") for t in x.ticks(3)]
    for index, value in enumerate(values):
        y = top + row * index + row / 2
        elements.append(text(_shortened(value, 22), left - 10, y + 4, anchor="end", class_="value"))
        shares = [float(s.shares[index]) for s in series]
        elements.append(line([(x(min(shares)), y), (x(max(shares)), y)], "span"))
        for source, share in zip(series, shares, strict=True):
            drawn = [element("title", f"{value}: {share:.1%} {source.name}")]
            if source.error is not None:
                low, high = max(0, share - source.error), min(most, share + source.error)
                drawn.append(line([(x(low), y), (x(high), y)], "whisker"))
            drawn.append(marker(source.shape, x(share), y, "mark"))
            elements.append(group(drawn, class_=source.style))
    return chart(
        elements, width=WIDTH, height=base + 26, label=f"shares of the values of {attribute}"
    )


def _shortened(value: str, most: int) -> str:
    value = re.sub(r"\s+", " ", value)
    return value if len(value) <= most else value[: most - 1].rstrip() + "…"
