"""The charts of the pages."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray
from scipy.special import ndtri

from sugarbush.report.model import FINAL, EmbeddingMap, Figure, RoundData
from sugarbush.report.svg import (
    Scale,
    axis_bottom,
    axis_left,
    chart,
    element,
    group,
    line,
    marker,
    rectangle,
    short,
    text,
    thinned,
)

_WIDTH = 440
_SHADES = 6  # of one colour, from pale to full, in the style sheet
_NORMAL_95 = 1.96


@dataclass(frozen=True, kw_only=True)
class Series:
    """Shares of an attribute's values, `(values,)`, as one kind of mark.

    `style` names its colour in the style sheet; `error` is half a 95% interval, in shares.
    """

    name: str
    style: str
    shape: int
    shares: NDArray[Any]
    error: float | None = None


def vote_ranks(rounds: Sequence[RoundData], *, method: str, scored: bool) -> Markup:
    """Noisy votes (or scores) of each round by rank, beside the curve that noise alone would give.

    Along that curve the votes said nothing; above it at the left they found texts to keep.
    """
    curves = [np.sort(np.asarray(r.votes.value, dtype=float))[::-1] for r in rounds]
    noise = _noise_alone(max(map(len, curves)), stddev=max(r.stddev for r in rounds))
    height, left, right, top, bottom = 260, 46, 14, 14, 40
    lowest = min(float(c[-1]) for c in [*curves, noise])
    highest = max(float(c[0]) for c in [*curves, noise]) * 1.05
    x = Scale(low=1, high=max(2, len(noise)), start=left, end=_WIDTH - right, log=True)
    y = Scale(low=lowest, high=highest, start=height - bottom, end=top)

    def drawn(curve: NDArray[Any], class_: str) -> Markup:
        ranks = thinned(len(curve)).tolist()
        return line([(x(rank), y(float(curve[rank - 1]))) for rank in ranks], class_)

    parts = axis_left(y, left, _WIDTH - right, ticks=y.ticks())
    parts.append(group([element("title", "noise alone"), drawn(noise, "noise")]))
    for place, (round_, curve) in enumerate(zip(rounds, curves, strict=True)):
        named = [element("title", f"round {round_.number}"), drawn(curve, "curve")]
        parts.append(group(named, class_=f"shade-{shade(place, len(rounds))}"))
    parts += axis_bottom(x, height - bottom, labels=[(t, short(t)) for t in x.ticks()])
    parts.append(
        text("candidates by rank", _WIDTH - right, height - 6, anchor="end", class_="name")
    )
    what = "scores" if scored else "votes"
    label = f"{method}: noisy {what} by rank in {len(rounds)} rounds, and what noise alone gives"
    return chart(parts, width=_WIDTH, height=height, label=label)


def _noise_alone(size: int, *, stddev: float) -> NDArray[np.float64]:
    """Expected order statistics of `size` draws of the noise, largest first (Blom 1958)."""
    ranks = np.arange(1, size + 1)
    return np.asarray(-ndtri((ranks - 0.375) / (size + 0.25)) * stddev, dtype=np.float64)


def survivor_bars(rounds: Sequence[RoundData], *, method: str) -> Markup:
    """Survivors of each round as a bar, divided by the round that they were written for."""
    row, left, right, top = 26, 68, 118, 4
    height = top + row * len(rounds) + 8
    newest = max(int(r.written.max(initial=0)) for r in rounds)
    widest = max(1, *(len(r.survivors) for r in rounds))
    x = Scale(low=0, high=widest, start=left, end=_WIDTH - right)
    parts = []
    for place, round_ in enumerate(rounds):
        y = top + row * place
        parts.append(text(f"round {round_.number}", left - 8, y + 16, anchor="end"))
        ages = np.bincount(round_.written[round_.survivors].astype(int), minlength=newest + 1)
        start = 0
        for written, count in enumerate(ages):
            if count:
                box = rectangle(x(start), y + 4, x(start + count) - x(start), row - 9, "bar")
                note = element("title", f"{count} written {born(written)}")
                drawn = [note, box]
                parts.append(group(drawn, class_=f"shade-{shade(written, newest + 1)}"))
                start += int(count)
        kept = f"{len(round_.survivors):,} of {len(round_.written):,}"
        parts.append(text(kept, x(start) + 8, y + 16, class_="value"))
    label = f"{method}: survivors of each round by the round they were written for"
    return chart(parts, width=_WIDTH, height=height, label=label)


def attribute_shares(attribute: str, values: Sequence[str], series: Sequence[Series]) -> Markup:
    """One row a value, one mark a series: how each source spreads over the values."""
    row, left, right, top = 24, 150, 16, 4
    height = top + row * len(values) + 26
    most = max(0.05, *(float(np.max(s.shares, initial=0)) for s in series)) * 1.08
    x = Scale(low=0, high=most, start=left, end=_WIDTH - right)
    base = top + row * len(values)
    parts = [line([(x(t), top), (x(t), base)], "rule") for t in x.ticks(3)]
    parts += [text(f"{t:.0%}", x(t), base + 16, anchor="middle") for t in x.ticks(3)]
    for place, value in enumerate(values):
        y = top + row * place + row / 2
        parts.append(text(clipped(value, 22), left - 10, y + 4, anchor="end", class_="value"))
        marks = [float(s.shares[place]) for s in series]
        parts.append(line([(x(min(marks)), y), (x(max(marks)), y)], "span"))
        for one, share in zip(series, marks, strict=True):
            note = element("title", f"{value}: {share:.1%} {one.name}")
            drawn = [note]
            if one.error is not None:
                ends = (x(max(0, share - one.error)), x(min(most, share + one.error)))
                drawn.append(line([(ends[0], y), (ends[1], y)], "whisker"))
            drawn.append(marker(one.shape, x(share), y, "mark"))
            parts.append(group(drawn, class_=one.style))
    return chart(parts, width=_WIDTH, height=height, label=f"shares of the values of {attribute}")


def metric_lines(
    figures: Sequence[Figure],
    *,
    styles: Mapping[str, tuple[str, int]],
    ceiling: Figure | None,
    title: str,
    bounds: tuple[float, float] | None,
) -> Markup:
    """One metric of each method by round with its intervals, the final set last.

    `styles` gives each method's class and shape. `ceiling` is what real texts reach.
    """
    height, left, right, top, bottom = 250, 52, 16, 14, 34
    rounds = sorted({f.round for f in figures if f.round != FINAL})
    places = {r: i for i, r in enumerate(rounds)} | {FINAL: len(rounds)}
    reached = [v for f in figures for v in (f.value, f.low, f.high) if v is not None]
    if ceiling is not None:
        reached.append(ceiling.value)
    low, high = bounds or (0.0, max(reached) * 1.1 or 1.0)
    x = Scale(low=-0.3, high=len(rounds) + 0.3, start=left, end=_WIDTH - right)
    y = Scale(low=low, high=high, start=height - bottom, end=top)
    parts = axis_left(y, left, _WIDTH - right, ticks=y.ticks())
    if ceiling is not None:
        level = y(ceiling.value)
        parts.append(line([(left, level), (_WIDTH - right, level)], "ceiling"))
        parts.append(text("real texts", _WIDTH - right, level - 5, anchor="end", class_="name"))
    methods = [m for m in styles if any(f.method == m for f in figures)]
    for offset, method in enumerate(methods):
        own = sorted((f for f in figures if f.method == method), key=lambda f: places[f.round])
        style, shape = styles[method]
        nudge = (offset - (len(methods) - 1) / 2) * 0.06
        parts.append(_metric_line(own, places, x, y, nudge=nudge, style=style, shape=shape))
    labels = [(places[r], "start" if r == 0 else str(r)) for r in rounds]
    parts += axis_bottom(x, height - bottom, labels=[*labels, (len(rounds), "final")])
    return chart(parts, width=_WIDTH, height=height, label=f"{title} by round")


def _metric_line(
    own: Sequence[Figure], places: Mapping[int, int], x: Scale, y: Scale, *, nudge: float,
    style: str, shape: int,
) -> Markup:  # fmt: skip
    at = [(x(places[f.round] + nudge), y(f.value)) for f in own]
    drawn = [line(at, "curve")]
    for (px, py), figure in zip(at, own, strict=True):
        step = "final" if figure.round == FINAL else f"round {figure.round}"
        note = f"{figure.method}, {step}: {interval(figure)}"
        whisker = []
        if figure.low is not None and figure.high is not None:
            whisker = [line([(px, y(figure.low)), (px, y(figure.high))], "whisker")]
        drawn.append(group([element("title", note), *whisker, marker(shape, px, py, "mark")]))
    return group(drawn, class_=style)


def map_points(found: EmbeddingMap, *, method: str, real: NDArray[Any] | None = None) -> Markup:
    """Synthetic texts in two dimensions by the round they were written for; real ones in grey."""
    size, pad = _WIDTH, 12
    height = 340
    everything = found.points if real is None else np.concatenate([found.points, real])
    low, high = everything.min(axis=0), everything.max(axis=0)
    x = Scale(low=float(low[0]), high=float(high[0]), start=pad, end=size - pad)
    y = Scale(low=float(low[1]), high=float(high[1]), start=height - pad, end=pad)
    parts = []
    if real is not None:
        dots = [element("circle", cx=x(a), cy=y(b), r=1.8) for a, b in real]
        parts.append(group(dots, class_="real-dots"))
    newest = int(found.written.max(initial=0))
    for written in range(newest + 1):
        dots = [
            element("circle", cx=x(a), cy=y(b), r=2.6)
            for a, b in found.points[found.written == written]
        ]
        parts.append(group(dots, class_=f"dots shade-{shade(written, newest + 1)}"))
    label = f"{method}: texts in two dimensions by the round they were written for"
    return chart(parts, width=size, height=height, label=label)


def shade(place: int, count: int) -> int:
    """Which of the shades the `place`-th of `count` has: the last one is the fullest."""
    return _SHADES if count < 2 else 1 + round((_SHADES - 1) * place / (count - 1))


def used_shades(count: int) -> list[int]:
    """The shades that `count` things have, pale to full."""
    return list(dict.fromkeys(shade(place, count) for place in range(count)))


def born(written: int) -> str:
    """The round that a text was written for, in words."""
    return "at the start" if written == 0 else f"for round {written}"


def interval(figure: Figure) -> str:
    """A figure with its interval in few characters."""
    if figure.low is None or figure.high is None:
        return number(figure.value)
    return f"{number(figure.value)} ({number(figure.low)} to {number(figure.high)})"


def number(value: float) -> str:
    """Three digits after the point below 10, fewer above."""
    if abs(value) < 10:
        return f"{value:.3f}"
    return f"{value:,.1f}" if abs(value) < 1000 else f"{value:,.0f}"


def clipped(value: str, most: int) -> str:
    """A value that fits beside a chart; the whole of it stands in the mark's title."""
    value = re.sub(r"\s+", " ", value)
    return value if len(value) <= most else value[: most - 1].rstrip() + "…"


def count_error(stddev: float | None) -> float | None:
    """Half a 95% interval of a noisy count."""
    return None if stddev is None else _NORMAL_95 * stddev


def share_error(stddev: float | None, total: float) -> float | None:
    """Half a 95% interval of a noisy count, as a share of `total`."""
    error = count_error(stddev)
    return None if error is None or total <= 0 else error / total
