"""Writes the charts, the tables and the page of a leakage grid, from its finished points.

    python -m research.leakage_page research/settings/crt_figures.yaml

Reads    data/private/leakage/<grid>/
Writes   reports/internal/leakage/<grid>/
           table.csv            one row per condition, with every value and its bounds
           <figure>.csv         for DVC's plots, with curves.json:
                                dvc plots show <figure>.csv --template curves.json -x x -y value
           index.html           the page
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from research.leakage.figures import page_of, summarised
from research.leakage_points import NAME, Points
from research.report.curves import dvc_template, render_curve_page
from sugarbush.errors import MissingInputError
from sugarbush.paths import Roots, atomic_file, make_private
from sugarbush.run import run_with_error_report


def run(base: Path, file: Path) -> None:
    """Write the page of the finished points. Raises MissingInputError if no point is finished."""
    kept = Points(base, file)
    done = kept.done()
    if not done:
        raise MissingInputError(
            f"{file}: no point is finished. Run: python -m research.sweep {file}"
        )
    table = summarised(done)
    page = page_of(table, kept.grid, name=file.stem)
    folder = make_private(Roots(base).internal / NAME / file.stem)
    with atomic_file(folder / "table.csv") as path:
        table.to_csv(path, index=False)
    for figure in page.figures:
        with atomic_file(folder / f"{figure.name}.csv") as path:
            figure.rows.to_csv(path, index=False)
    with atomic_file(folder / "curves.json") as path:
        path.write_text(json.dumps(dvc_template()), encoding="utf-8")
    with atomic_file(folder / "index.html") as path:
        path.write_text(render_curve_page(page), encoding="utf-8")
    print(f"{folder / 'index.html'}: {len(done)} points")


def main() -> None:
    """Write the page of a grid in the current folder."""
    parser = argparse.ArgumentParser(prog="python -m research.leakage_page")
    parser.add_argument("file", type=Path)
    file: Path = parser.parse_args().file
    run_with_error_report("leakage_page", lambda base: run(base, file))


if __name__ == "__main__":
    main()
