"""Writes the figures of a sweep as tables and as one page.

    python -m research.sweep_table research/settings/sweep.yaml
    python -m research.sweep_table research/settings/sweep.yaml --without FOLDER_OF_A_FAILED_POINT

Reads    data/private/sweeps/<sweep>/<set>/<point>/: reports/internal/figures.csv,
         data/released/{initial,evolve}/<method>/usage.json
Writes   reports/internal/sweeps/<sweep>/   figures.csv (everything), table.csv (the final sets),
                                            index.html
Spends   nothing. All values were computed on real texts, so the output is internal
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Collection
from itertools import accumulate
from pathlib import Path

import pandas as pd

import sugarbush as sb
from research.sweep_layout import points_of, sweep_folder
from research.sweep_points import Point
from research.sweep_report import OVER_TEXTS, SweepPage, headline, render_sweep_page
from sugarbush.errors import MissingInputError
from sugarbush.evaluation import FINAL, REAL
from sugarbush.generators import Usage
from sugarbush.paths import Roots, atomic_file, make_private
from sugarbush.release import final_folder, first_folder
from sugarbush.run import run_with_error_report

NAME = "sweep_table"


def figures_of_point(folder: Path, point: Point) -> pd.DataFrame | None:
    """Return the figures of a point, with columns for its data set, method, epsilon and seed.

    Return None while the point is unfinished. The column `calls` is the number of generator calls
    up to a round. Calls with cached answers count too.
    """
    path = Roots(folder).internal / "figures.csv"
    if not path.exists():
        return None
    frame = pd.read_csv(path)
    calls = calls_by_round(folder, point.params.chosen[0])
    frame["calls"] = frame["round"].map(calls).where(frame["method"] != REAL)
    frame["arm"] = frame["method"].where(frame["method"] == REAL, point.arm)
    frame["epsilon"] = point.epsilon
    frame["set"], frame["seed"] = point.set_name, point.seed
    return frame


def calls_by_round(folder: Path, method: sb.Method) -> dict[int, int]:
    """Return the number of generator calls up to each round.

    The key FINAL has all calls. The result is empty if the method makes no generator calls.
    """
    roots = Roots(folder)
    start = first_folder(roots, method)
    if start is None:
        return {}
    files = (start, final_folder(roots, method))
    first, later = (json.loads((file / "usage.json").read_text()) for file in files)
    steps = [Usage(**fields) for fields in (first, *later.values())]
    totals = list(accumulate(usage.calls + usage.cached_calls for usage in steps))
    return dict(enumerate(totals[:-1])) | {FINAL: totals[-1]}


def collected(base: Path, file: Path, *, without: Collection[Path] = ()) -> SweepPage:
    """Collect the figures of all finished points. Raises MissingInputError if there are none.

    `without` lists the folders of points that failed. Failed points are not collected, because
    figures in their folders may come from earlier settings.
    """
    _, points = points_of(base, file)
    folder = sweep_folder(base, file)
    found = [
        (p, None if (own := folder / p.set_name / p.name) in without else figures_of_point(own, p))
        for p in points
    ]
    frames = [frame for _, frame in found if frame is not None]
    if not frames:
        raise MissingInputError(
            f"{file}: no point is finished. Run: python -m research.sweep {file}"
        )
    return SweepPage(
        name=file.stem,
        intervals=OVER_TEXTS,
        figures=pd.concat(frames, ignore_index=True),
        missing=tuple(f"{p.set_name}/{p.name}" for p, frame in found if frame is None),
    )


def run(base: Path, file: Path, *, without: Collection[Path] = ()) -> None:
    """Write both tables and the page."""
    page = collected(base, file, without=without)
    folder = make_private(Roots(base).internal / "sweeps" / file.stem)
    with atomic_file(folder / "figures.csv") as path:
        page.figures.to_csv(path, index=False)
    with atomic_file(folder / "table.csv") as path:
        headline(page.figures).to_csv(path, index=False)
    with atomic_file(folder / "index.html") as path:
        path.write_text(render_sweep_page(page), encoding="utf-8")
    print(f"{folder / 'index.html'}: {len(headline(page.figures))} rows")


def main() -> None:
    """Collect a sweep in the current folder."""
    parser = argparse.ArgumentParser(prog="python -m research.sweep_table")
    parser.add_argument("file", type=Path)
    parser.add_argument("--without", type=Path, nargs="+", default=[], help="points that failed")
    asked = parser.parse_args()
    run_with_error_report(NAME, lambda base: run(base, asked.file, without=asked.without))


if __name__ == "__main__":
    main()
