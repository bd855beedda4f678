"""Draws CPU seconds and peak memory of every stage by the number of records.

    python -m benchmarks.scale_plot docs/log/scale.csv docs/pictures/scale.svg

The table has columns records, stage, wall_s, cpu_s, peak_mb (`benchmarks.scale --csv`). If a stage
was measured several times with one number of records, the plot shows the last measurement.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd
from markupsafe import Markup

from sugarbush.report import svg

COLUMNS = {"cpu_s": ("CPU seconds", 1.0, 1000.0), "peak_mb": ("peak memory, MB", 100.0, 10_000.0)}
TOP, BOTTOM, LEFT, HEIGHT, GAP = 40, 300, 55, 360, 470
COLOURS = ("#1b6ca8", "#c1440e", "#2e7d32", "#8e44ad", "#b8860b", "#37474f")
STYLE = (
    ".chart{font:12px sans-serif;background:#fff}text{fill:#333}.axis{stroke:#999;fill:none}"
    ".rule{stroke:#ddd;fill:none}.limit{stroke:#333;stroke-dasharray:4 3;fill:none}"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", type=Path)
    parser.add_argument("picture", type=Path)
    asked = parser.parse_args()
    rows = pd.read_csv(asked.table).drop_duplicates(["records", "stage"], keep="last")
    styles = svg.series_styles(rows["stage"])
    colours = "".join(
        f".{name}{{stroke:{colour};fill:none}}circle.{name},rect.{name},polygon.{name}"
        f"{{fill:{colour}}}"
        for (name, _), colour in zip(styles.values(), COLOURS, strict=False)
    )
    parts = [svg.element("style", Markup(STYLE + colours))]
    for place, column in enumerate(COLUMNS):
        parts += _panel(rows, column, place * GAP, styles)
    for place, (stage, (name, mark)) in enumerate(styles.items()):
        x = LEFT + place * 150
        parts += [svg.marker(mark, x, HEIGHT - 14, name), svg.text(stage, x + 9, HEIGHT - 10)]
    label = "CPU seconds and peak memory of every stage by the number of records"
    drawn = svg.chart(parts, width=2 * GAP, height=HEIGHT, label=label)
    asked.picture.write_text(
        str(drawn).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1) + "\n"
    )


def _panel(
    rows: pd.DataFrame, column: str, shift: int, styles: dict[str, svg.SeriesStyle]
) -> list[Markup]:
    title, low, high = COLUMNS[column]
    counts = sorted(set(rows["records"]))
    start, end = LEFT + shift, shift + GAP - 25
    x = svg.Axis(low=counts[0], high=counts[-1], start=start, end=end, log=True)
    y = svg.Axis(low=low, high=high, start=BOTTOM, end=TOP, log=True)
    parts = [svg.text(title, start, TOP - 14)]
    parts += svg.axis_bottom(x, BOTTOM, labels=[(n, svg.short(n)) for n in counts])
    parts += svg.axis_left(y, start, end, ticks=y.ticks())
    if column == "peak_mb":
        limit = y(4096)
        parts += [svg.line([(start, limit), (end, limit)], "limit")]
        parts += [svg.text("4 GiB", start + 5, limit - 5)]
    for stage, (name, mark) in styles.items():
        own = rows[rows["stage"] == stage].sort_values("records")
        points = [(x(n), y(v)) for n, v in zip(own["records"], own[column], strict=True)]
        parts += [svg.line(points, name), *(svg.marker(mark, a, b, name) for a, b in points)]
    return parts


if __name__ == "__main__":
    main()
