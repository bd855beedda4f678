"""Stores the finished points of a leakage grid and their values.

    python -m research.leakage_points research/settings/crt_figures.yaml

Reads    the grid file and the files of the data sets
Writes   data/private/leakage/<grid>/<key>.json    one file per finished point
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from research.leakage.grid import LeakageGrid, LeakagePoint, Sizes, load_grid, points
from sugarbush.data import digest_of_files
from sugarbush.errors import ParamsError
from sugarbush.paths import Roots, atomic_file, make_private
from sugarbush.run import run_with_error_report

NAME = "leakage"


class Points:
    """The stored points of one grid.

    If the grid, a data file or the redaction changes, old points stay on disk but are not used.
    Raises InputError if the file of a data set is missing.
    """

    def __init__(self, base: Path, file: Path) -> None:
        self.grid: LeakageGrid = load_grid(base / file)
        self._folder = Roots(base).private / NAME / file.stem
        self._files = {name: file_of(base, name, sizes) for name, sizes in self.grid.sets.items()}

    def done(self) -> list[dict[str, Any]]:
        """Return the values of the finished points, in the order of the grid."""
        files = map(self._file, points(self.grid))
        return [json.loads(file.read_text()) for file in files if file.exists()]

    def unfinished(self, batch: str | None = None) -> Iterator[LeakagePoint]:
        """Return the unfinished points of `batch`, or of all batches if it is None.

        Raises ParamsError for an unknown batch.
        """
        if batch is not None and batch not in {point.batch for point in points(self.grid)}:
            raise ParamsError(
                f"the grid has no batch '{batch}'. An example of a batch: customersim/gpt2/0"
            )
        for point in points(self.grid):
            if batch in (None, point.batch) and not self._file(point).exists():
                yield point

    def key(self, point: LeakagePoint) -> str:
        """Return the name of the point. The ledger and the point's file use this name."""
        return point.key(self.grid, file=self._files[point.set_name])

    def keep(self, point: LeakagePoint, figures: dict[str, Any]) -> None:
        """Store a finished point."""
        make_private(self._folder)
        with atomic_file(self._file(point)) as path:
            path.write_text(json.dumps(point.model_dump(mode="json") | figures) + "\n")

    def _file(self, point: LeakagePoint) -> Path:
        return self._folder / f"{self.key(point)}.json"


def file_of(base: Path, name: str, sizes: Sizes) -> str:
    """Return the digest of the file of data set `name`.

    Raises InputError if the file cannot be read.
    """
    return digest_of_files(base, [sizes.file], setting=f"sets.{name}.file").hex()


def _print_batches(base: Path, file: Path) -> None:
    for batch in dict.fromkeys(point.batch for point in Points(base, file).unfinished()):
        print(batch)


def main() -> None:
    """Print the unfinished batches of a grid in the current folder."""
    parser = argparse.ArgumentParser(prog="python -m research.leakage_points")
    parser.add_argument("file", type=Path)
    file: Path = parser.parse_args().file
    run_with_error_report(NAME, lambda base: _print_batches(base, file))


if __name__ == "__main__":
    main()
