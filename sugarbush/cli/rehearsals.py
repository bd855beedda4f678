"""Prints the rehearsal of a run, for `sugarbush check` and `sugarbush run`."""

from __future__ import annotations

from rich.console import Console

from sugarbush.pipeline.rehearsal import (
    Rehearsal,
)
from sugarbush.pipeline.rehearsal_verdict import Figures, Lengths

_MOST_KINDS = 8
_INDENT = "           "


def show_rehearsal(found: Rehearsal, console: Console) -> None:
    """Print the verdict, the figures and the forecast. Every line is public."""

    def say(line: str) -> None:
        console.print(line, markup=False, highlight=False, soft_wrap=True)

    say(f"rehearsal  {found.line()}")
    for line in _figure_lines(found.figures):
        say(_INDENT + line)
    forecast = found.forecast
    run = [f"a run sends up to {forecast.calls:,} requests"]
    if forecast.minutes is not None:
        run.append(
            f"about {max(1, round(forecast.minutes)):,} min for the requests at the present speed"
        )
    if forecast.cost is not None:
        run.append(f"cost about {forecast.cost:.2f}")
    say(_INDENT + ", ".join(run))
    for change in found.changes:
        say(f"{_INDENT}the texts are better with {change}; `sugarbush run` sets it")


def _figure_lines(figures: Figures) -> list[str]:
    lines = [
        f"{figures.requested} requests: {figures.usable} usable answers, {figures.different} "
        f"different{_lengths(figures.lengths, figures.donated_lengths)}"
    ]
    if figures.far is not None:
        lines.append(
            f"distance to the nearest donated text {figures.distance:.2f} (among donated texts "
            f"{figures.donated_distance:.2f}), between texts {figures.spread:.2f} (donated "
            f"{figures.donated_spread:.2f})"
        )
    if figures.attributes:
        shown = ", ".join(f"{one.name} {one.shown:.0%}" for one in figures.attributes)
        lines.append(f"texts that show the requested value: {shown}")
    for name, counts in figures.kinds.items():
        known = sorted(counts.items(), key=lambda kind: kind[1])
        shown = ", ".join(f"{value} {count:,}" for value, count in known[:_MOST_KINDS])
        more = f", and {len(known) - _MOST_KINDS} with more" if len(known) > _MOST_KINDS else ""
        lines.append(f"different public texts by {name}, as donated texts tell it: {shown}{more}")
    return lines


def _lengths(own: Lengths | None, donated: Lengths | None) -> str:
    if own is None:
        return ""
    other = "" if donated is None else f" (donated {donated.low} to {donated.high})"
    return f", {own.low} to {own.high} words{other}"
