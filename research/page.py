"""Writes one page for several grids of `research.leaderboard` or `research.sweep`.

    python -m research.page whole sweep-leaderboard hard-leaderboard=hard sweep=pipeline
    python -m research.page docs/pages/leaderboard.csv sweep-leaderboard   # kept in git
    python -m research.page docs/pages/leaderboard.csv                     # from the kept file

Reads    reports/internal/sweeps/<grid>/figures.csv, or the .csv file that was kept
Writes   reports/internal/sweeps/<page>/   figures.csv, table.csv, index.html
         or, for <page>.csv, this file and <page>.html, with the shown values and no texts

`grid=label` appends the label to the names of data sets on the page, such as "yelp-distractors".
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd

from research.sweep_report import SweepPage, headline, render_sweep_page, shown
from sugarbush.paths import Roots, atomic_file, make_private

INTERVALS = "Intervals are 95%: over whole runs of a replay, over texts where a row is one run"


def write_page(
    name: str,
    figures: pd.DataFrame,
    *,
    intervals: str,
    base: Path,
    missing: tuple[str, ...] = (),
) -> Path:
    """Write the figures to a page and to tables in the folder `name`. Return the path of the
    page."""
    folder = make_private(Roots(base).internal / "sweeps" / name)
    with atomic_file(folder / "figures.csv") as path:
        figures.to_csv(path, index=False)
    with atomic_file(folder / "table.csv") as path:
        headline(figures).to_csv(path, index=False)
    with atomic_file(folder / "index.html") as path:
        page = SweepPage(name=name, intervals=intervals, figures=figures, missing=missing)
        path.write_text(render_sweep_page(page), encoding="utf-8")
    return folder / "index.html"


def joined(grids: list[str], *, base: Path) -> pd.DataFrame:
    """Return the figures of all grids. A label after `=` is appended to the names of data sets."""
    frames = []
    for grid in grids:
        folder, _, label = grid.partition("=")
        frame = pd.read_csv(Roots(base).internal / "sweeps" / folder / "figures.csv")
        frames.append(frame.assign(set=frame["set"] + f"-{label}") if label else frame)
    return pd.concat(frames, ignore_index=True)


def keep_page(file: Path, grids: list[str], *, base: Path) -> Path:
    """Write the figures of `grids` to `file`, and a page with these figures beside `file`.

    Without grids, the page shows the figures in `file`. Return the path of the page.
    """
    if grids:
        with atomic_file(file) as path:
            shown(joined(grids, base=base)).to_csv(path, index=False, float_format="%.5g")
    page = SweepPage(name=file.stem, intervals=INTERVALS, figures=pd.read_csv(file), missing=())
    with atomic_file(file.with_suffix(".html")) as path:
        path.write_text(render_sweep_page(page), encoding="utf-8")
    return file.with_suffix(".html")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("page", help="the page's name, or a .csv file to keep in git")
    parser.add_argument("grids", nargs="*")
    asked = parser.parse_args()
    if asked.page.endswith(".csv"):
        print(keep_page(Path(asked.page), asked.grids, base=Path()))
    else:
        figures = joined(asked.grids, base=Path())
        print(write_page(asked.page, figures, intervals=INTERVALS, base=Path()))


if __name__ == "__main__":
    main()
