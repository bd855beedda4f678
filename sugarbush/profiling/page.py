"""Renders a DP profile as one page without other files. All values are released."""

from __future__ import annotations

import math
from typing import Any

from markupsafe import Markup

from sugarbush.privacy.accounting import rounded_down, rounded_up
from sugarbush.privacy.spending import Spending
from sugarbush.profiling.plan import COLUMNS, SIZES, STEPS, STYLE, TERMS, VALUES
from sugarbush.profiling.release import QUANTILES, NoisyShare, ReleasedProfile
from sugarbush.profiling.view import ShareTable, length_rows, share_tables
from sugarbush.report.svg import WIDTH, Axis, chart, element, rectangle, text
from sugarbush.report.templating import TEMPLATES, inlined

_ROW, _NAME, _VALUE = 24, 190, 44
_LONGEST = 32  # characters of a name in a chart
_WORDS = {
    SIZES: "numbers and lengths",
    STYLE: "form and language",
    COLUMNS: "kinds of cells, numbers, dates",
    **{step: f"{step} of numbers and dates" for step in STEPS},
    VALUES: "values of columns",
    TERMS: "words and phrases",
}


def render_profile(profile: ReleasedProfile, *, title: str, spending: Spending) -> str:
    """Return the page. `title` is public, such as the subject of the schema. `spending` is that of
    the profile and its dataset."""
    lengths = [(name, [_number(v) for v in found]) for name, found in length_rows(profile)]
    return TEMPLATES.get_template("profile.html.jinja").render(
        **inlined(),
        title=title,
        profile=profile,
        unit="record" if profile.unit == "record" else "user",
        epsilon=rounded_up(spending.epsilon, 3),
        runs=spending.line("this profile") if spending.others else "",
        delta=rounded_up(profile.delta),
        records=f"{max(profile.records, 0):,}",
        within=rounded_up(profile.within, 3),
        lengths=lengths,
        quantiles=[f"{share:.0%}" for share in QUANTILES],
        tables=[_table(table) for table in share_tables(profile)],
        topics=profile.topics,
        mechanisms=[
            (words, rounded_down(profile.stddev[name]), profile.threshold.get(name))
            for name, words in _WORDS.items()
            if name in profile.stddev
        ],
    )


def _table(table: ShareTable) -> dict[str, Any]:
    return {
        "title": table.title,
        "note": table.note,
        "chart": _bars(table) if table.shares else None,
        "quantiles": table.quantiles,
    }


def _number(value: float) -> str:
    if math.isinf(value):
        return "−∞" if value < 0 else "∞"
    return f"{value:,.0f}" if abs(value) >= 10 else f"{value:.2g}"


def _bars(table: ShareTable) -> Markup:
    """Draw one bar for each share, with a line for its 95% interval."""
    high = max(share.high for _, share in table.shares)
    axis = Axis(low=0.0, high=max(high, 0.01), start=_NAME, end=WIDTH - _VALUE)
    bars: list[Markup] = []
    for row, (name, share) in enumerate(table.shares):
        bars += _bar(name, share, axis, top=row * _ROW)
    label = f"{table.title}: shares of the records with 95% intervals"
    return chart(bars, width=WIDTH, height=_ROW * len(table.shares) + 2, label=label)


def _bar(name: str, share: NoisyShare, axis: Axis, *, top: int) -> list[Markup]:
    middle = top + _ROW / 2
    shown = name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"
    start, end = axis(share.low), axis(share.high)
    return [
        element(
            "text", Markup("").join([element("title", name), shown]),
            x=0, y=middle + 4, text_anchor="start", class_="name",
        ),
        rectangle(axis(0.0), top + 6, axis(share.share) - axis(0.0), _ROW - 12, "share"),
        element("line", x1=start, x2=end, y1=middle, y2=middle, class_="error"),
        text(f"{share.share:.0%}", WIDTH, middle + 4, anchor="end", class_="value"),
    ]  # fmt: skip
