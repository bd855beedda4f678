"""Describes the rehearsal of a run, for `sugarbush check` and `sugarbush run`."""

from __future__ import annotations

from sugarbush.pipeline.forecast import RunForecast
from sugarbush.project.checked import Checked
from sugarbush.rehearsal.rehearse import Rehearsal
from sugarbush.rehearsal.verdict import Figures, Lengths

REHEARSAL = "rehearsal"
_MOST_KINDS = 8


def checked_texts(rehearsal: Rehearsal, *, run: RunForecast | None = None) -> Checked:
    """Return the verdict, the figures and the forecast, one a line. Every line but that of `run` is
    public."""
    lines = [rehearsal.line(), *_figure_lines(rehearsal.figures), _requests_line(rehearsal, run)]
    if run is not None:
        lines.append(f"{run.line()} (not DP: do not share)")
    for change in rehearsal.changes:
        lines.append(f"the texts are better with {change}; `sugarbush run` sets it")
    return Checked(subject=REHEARSAL, text="\n".join(lines))


def _requests_line(rehearsal: Rehearsal, run: RunForecast | None) -> str:
    """Return what the requests of a run need. The forecast `run` contains their time."""
    forecast = rehearsal.forecast
    sent = [f"a run sends up to {forecast.calls:,} requests"]
    if forecast.minutes is not None and run is None:
        sent.append(
            f"about {max(1, round(forecast.minutes)):,} min for the requests at the present speed"
        )
    if forecast.cost is not None:
        sent.append(f"cost about {forecast.cost:.2f}")
    return ", ".join(sent)


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
