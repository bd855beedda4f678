"""Draws charts of rounds, and the embedding map."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from sugarbush.evaluation.interface import MetricValue
from sugarbush.report import svg
from sugarbush.report.model import EmbeddingMap, RoundData, ScoredData

_SHADES = 6  # number of shades of one colour in the style sheet, from pale to full


def score_ranks(rounds: Sequence[ScoredData], *, method: str) -> Markup:
    """Draw the noisy votes or scores of each round by rank, and the curve of noise alone.

    If a round's curve equals the curve of noise alone, the votes contain no information. If the
    left part of a round's curve is above the curve of noise alone, the votes found good texts.
    """
    curves = [np.sort(np.asarray(r.votes.value, dtype=float))[::-1] for r in rounds]
    noise = _noise_alone(max(map(len, curves)), stddev=max(r.stddev for r in rounds))
    height, left, right, top, bottom = 260, 46, 14, 14, 40
    lowest = min(float(c[-1]) for c in [*curves, noise])
    highest = max(float(c[0]) for c in [*curves, noise]) * 1.05
    x = svg.Axis(low=1, high=max(2, len(noise)), start=left, end=svg.WIDTH - right, log=True)
    y = svg.Axis(low=lowest, high=highest, start=height - bottom, end=top)

    def drawn(curve: NDArray[Any], class_: str) -> Markup:
        ranks = svg.thinned(len(curve)).tolist()
        return svg.line([(x(rank), y(float(curve[rank - 1]))) for rank in ranks], class_)

    elements = svg.axis_left(y, left, svg.WIDTH - right, ticks=y.ticks())
    elements.append(svg.group([svg.element("title", "noise alone"), drawn(noise, "noise")]))
    for index, (round_, curve) in enumerate(zip(rounds, curves, strict=True)):
        title = f"round {index + 1}" if isinstance(round_, RoundData) else round_.name
        named = [svg.element("title", title), drawn(curve, "curve")]
        elements.append(svg.group(named, class_=f"shade-{shade(index, len(rounds))}"))
    elements += svg.axis_bottom(x, height - bottom, labels=[(t, svg.short(t)) for t in x.ticks()])
    elements.append(
        svg.text("candidates by rank", svg.WIDTH - right, height - 6, anchor="end", class_="name")
    )
    where = f" in {len(rounds)} rounds" if isinstance(rounds[0], RoundData) else ""
    label = f"{method}: noisy {rounds[0].name} by rank{where}, and what noise alone gives"
    return svg.chart(elements, width=svg.WIDTH, height=height, label=label)


def _noise_alone(size: int, *, stddev: float) -> NDArray[np.float64]:
    """Return the expected order statistics of `size` noise values, largest first (Blom 1958)."""
    ranks = np.arange(1, size + 1)
    from scipy.special import ndtri

    return np.asarray(-ndtri((ranks - 0.375) / (size + 0.25)) * stddev, dtype=np.float64)


def survivor_bars(rounds: Sequence[RoundData], *, method: str) -> Markup:
    """Draw one bar of survivors per round. Its segments are the rounds that wrote the texts."""
    row, left, right, top = 26, 68, 118, 4
    height = top + row * len(rounds) + 8
    newest = max(int(r.written.max(initial=0)) for r in rounds)
    widest = max(1, *(len(r.survivors) for r in rounds))
    x = svg.Axis(low=0, high=widest, start=left, end=svg.WIDTH - right)
    elements = []
    for index, round_ in enumerate(rounds):
        y = top + row * index
        elements.append(svg.text(f"round {round_.number}", left - 8, y + 16, anchor="end"))
        ages = np.bincount(round_.written[round_.survivors].astype(int), minlength=newest + 1)
        start = 0
        for written, count in enumerate(ages):
            if count:
                box = svg.rectangle(x(start), y + 4, x(start + count) - x(start), row - 9, "bar")
                when = origin(written, rounds=len(rounds))
                note = svg.element("title", f"{count} written {when}")
                drawn = [note, box]
                elements.append(svg.group(drawn, class_=f"shade-{shade(written, newest + 1)}"))
                start += int(count)
        kept = f"{len(round_.survivors):,} of {len(round_.written):,}"
        elements.append(svg.text(kept, x(start) + 8, y + 16, class_="value"))
    label = f"{method}: survivors of each round, by the round for which they were written"
    return svg.chart(elements, width=svg.WIDTH, height=height, label=label)


def map_points(
    embedding_map: EmbeddingMap, *, method: str, real: NDArray[Any] | None = None
) -> Markup:
    """Draw a map of the synthetic texts. Shades show the rounds of the texts. Real texts are
    blue squares."""
    size, pad = svg.WIDTH, 12
    height = 340
    everything = (
        embedding_map.points if real is None else np.concatenate([embedding_map.points, real])
    )
    low, high = everything.min(axis=0), everything.max(axis=0)
    x = svg.Axis(low=float(low[0]), high=float(high[0]), start=pad, end=size - pad)
    y = svg.Axis(low=float(low[1]), high=float(high[1]), start=height - pad, end=pad)
    elements = []
    if real is not None:
        elements.append(_dots(x, y, real, "real-dots"))
    newest = int(embedding_map.written.max(initial=0))
    for written in range(newest + 1):
        points = embedding_map.points[embedding_map.written == written]
        elements.append(_dots(x, y, points, f"dots shade-{shade(written, newest + 1)}"))
    label = f"{method}: texts in two dimensions, by the round for which they were written"
    return svg.chart(elements, width=size, height=height, label=label)


def _dots(x: svg.Axis, y: svg.Axis, points: NDArray[Any], class_: str) -> Markup:
    """Draw all points as one element, because browsers are slow with thousands of elements."""
    return svg.element(
        "path", d="".join(f"M{x(a):.1f} {y(b):.1f}h0" for a, b in points), class_=class_
    )


def shade(index: int, count: int) -> int:
    """Return the shade of item number `index` of `count`. The last item has the full colour."""
    return _SHADES if count < 2 else 1 + round((_SHADES - 1) * index / (count - 1))


def used_shades(count: int) -> list[int]:
    """Return the shades of `count` items, from pale to full."""
    return list(dict.fromkeys(shade(index, count) for index in range(count)))


def origin(written: int, *, rounds: int) -> str:
    """Say when a text was written. A number above `rounds` means after the last round."""
    if written > rounds:
        return "after the last round" if rounds else "afterwards"
    return "at the start" if written == 0 else f"for round {written}"


def interval(value: MetricValue) -> str:
    """Write a value with its interval."""
    if value.low is None or value.high is None:
        return number(value.value)
    return f"{number(value.value)} ({number(value.low)} to {number(value.high)})"


def number(value: float) -> str:
    """Write a number with three decimals below 10, and with fewer decimals above."""
    if abs(value) < 10:
        return f"{value:.3f}"
    return f"{value:,.1f}" if abs(value) < 1000 else f"{value:,.0f}"
