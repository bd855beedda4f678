"""Prints the rehearsal of a run, for `sugarbush check` and `sugarbush run`."""

from __future__ import annotations

from rich.console import Console

from sugarbush.pipeline.forecast import RunForecast
from sugarbush.rehearsal.rehearse import Rehearsal
from sugarbush.rehearsal.verdict import Figures, Lengths

_MOST_KINDS = 8
_INDENT = "           "


def show_rehearsal(
    rehearsal: Rehearsal, console: Console, *, run: RunForecast | None = None
) -> None:
    """Print the verdict, the figures and the forecast. Every line but that of `run` is public."""

    def say(line: str) -> None:
        console.print(line, markup=False, highlight=False, soft_wrap=True)

    say(f"rehearsal  {rehearsal.line()}")
    for line in _figure_lines(rehearsal.figures):
        say(_INDENT + line)
    forecast = rehearsal.forecast
    sent = [f"a run sends up to {forecast.calls:,} requests"]
    if forecast.minutes is not None and run is None:
        sent.append(
            f"about {max(1, round(forecast.minutes)):,} min for the requests at the present speed"
        )
    if forecast.cost is not None:
        sent.append(f"cost about {forecast.cost:.2f}")
    say(_INDENT + ", ".join(sent))
    if run is not None:
        say(f"{_INDENT}{run.line()} (not DP: do not share)")
    for change in rehearsal.changes:
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
        shares = ", ".join(
            f"{attribute.name} {attribute.shown:.0%}" for attribute in figures.attributes
        )
        lines.append(f"texts that show the requested value: {shares}")
    for name, counts in figures.kinds.items():
        kinds = sorted(counts.items(), key=lambda kind: kind[1])
        listing = ", ".join(f"{value} {count:,}" for value, count in kinds[:_MOST_KINDS])
        more = f", and {len(kinds) - _MOST_KINDS} with more" if len(kinds) > _MOST_KINDS else ""
        lines.append(f"different public texts by {name}: {listing}{more}")
    return lines


def _lengths(lengths: Lengths | None, donated: Lengths | None) -> str:
    if lengths is None:
        return ""
    other = "" if donated is None else f" (donated {donated.low} to {donated.high})"
    return f", {lengths.low} to {lengths.high} words{other}"
