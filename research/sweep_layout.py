"""Makes the folders of a sweep. Each point has its own pipeline, settings and results.

    python -m research.sweep_layout kind research/settings/sweep.yaml    # its kind
    python -m research.sweep_layout grounds research/settings/sweep.yaml   # one folder per set
    python -m research.sweep_layout points research/settings/sweep.yaml    # one folder per point

Reads    the sweep file, params.yaml, the settings of the data sets
Writes   data/private/sweeps/<sweep>/<set>/<point>/: params.yaml, links to this checkout's code,
         and for a new point a copy of the data set's prepared folder (`ground`)
Spends   nothing; each point charges the benchmark ledger of its dataset when it runs

A point is a DVC project without git. To resume a killed sweep, run the same command again. DVC
skips finished stages, and stored results are restored. All points share the embeddings and DVC's
cache. With separate caches, DVC would report the copied output of the first stages as missing.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from research.sweep_points import Point, Sweep, kind_of, load_fields, load_sweep, points
from sugarbush.paths import Roots, atomic_file, make_private
from sugarbush.run import FILE, complete_fields, run_with_error_report

NAME = "sweep"
GROUND = "ground"
_CODE = ("sugarbush", "tasks", "flows", "dvc.yaml", ".dvcignore")
_PREPARED = ("data/stamps", "data/public", "data/private/prepared", "data/private/metadata")
_CACHES = {".cache/embeddings": "public", "data/private/embeddings": "private"}
_DVC = """\
[core]
    no_scm = true
    analytics = false
    check_update = false
[cache]
    dir = {cache}
"""


def sweep_folder(base: Path, file: Path) -> Path:
    """Return the folder of a sweep.

    The folder is under data/private, although the data is declared public.
    """
    return Roots(base).private / "sweeps" / file.stem


def points_of(base: Path, file: Path) -> tuple[Sweep, tuple[Point, ...]]:
    """Return a sweep and all its points. File names in their settings are absolute paths."""
    sweep = load_sweep(base / file)
    files = {name: load_fields(base / own.file) for name, own in sweep.sets.items()}
    found = tuple(points(sweep, base=complete_fields(load_fields(base / FILE)), files=files))
    for point in found:
        _make_absolute(point.fields, base.absolute())
    return sweep, found


def lay_grounds(base: Path, file: Path) -> Iterator[Path]:
    """Make a folder for each data set. The common stages of its points run once in this folder."""
    _, found = points_of(base, file)
    folder = make_private(sweep_folder(base, file))
    for point in {point.set_name: point for point in found}.values():
        ground = folder / point.set_name / GROUND
        _lay(ground, base, point.fields, shared=folder)
        yield ground


def lay_points(base: Path, file: Path) -> Iterator[Path]:
    """Make a folder for each point. A new folder gets a copy of the data set's prepared output."""
    _, found = points_of(base, file)
    folder = make_private(sweep_folder(base, file))
    for point in found:
        own = folder / point.set_name / point.name
        fresh = not (own / "dvc.lock").exists()
        _lay(own, base, point.fields, shared=folder)
        if fresh:
            _begin(own, folder / point.set_name / GROUND)
        yield own


def _make_absolute(fields: dict[str, Any], base: Path) -> None:
    prepare = fields["prepare"]
    for name in ("file", "donated", "schema"):
        if prepare[name] is not None:
            prepare[name] = str(base / prepare[name])
    for source in (*fields["generator"]["pool"]["sources"], *fields["pretrain"]["sources"]):
        source["file"] = str(base / source["file"])


def _lay(own: Path, base: Path, fields: dict[str, Any], *, shared: Path) -> None:
    (own / ".dvc").mkdir(parents=True, exist_ok=True)
    config = _DVC.format(cache=shared.absolute() / "cache")
    (own / ".dvc" / "config").write_text(config)
    for name in _CODE:
        _link(own / name, base.absolute() / name)
    for name, kind in _CACHES.items():
        cache = shared.absolute() / "embeddings" / kind
        cache.mkdir(parents=True, exist_ok=True)
        _link(own / name, cache)
    with atomic_file(own / FILE) as path:
        path.write_text(yaml.safe_dump(fields, sort_keys=False, allow_unicode=True))


def _link(link: Path, target: Path) -> None:
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.is_symlink():
        link.symlink_to(target)


def _begin(own: Path, ground: Path) -> None:
    """Copy the prepared output to the folder of a point.

    dvc.lock is copied last. If it is missing, the next call copies everything again.
    """
    for name in _PREPARED:
        if (ground / name).exists():
            shutil.copytree(ground / name, own / name, dirs_exist_ok=True)
    if (ground / "dvc.lock").exists():
        with atomic_file(own / "dvc.lock") as path:
            shutil.copy(ground / "dvc.lock", path)


def main() -> None:
    """Print the kind, or write the requested folders and print them, one per line."""
    parser = argparse.ArgumentParser(prog="python -m research.sweep_layout")
    told: dict[str, Callable[[Path, Path], Iterable[object]]] = {
        "kind": lambda base, file: [kind_of(base / file)],
        "grounds": lay_grounds,
        "points": lay_points,
    }
    parser.add_argument("what", choices=list(told))
    parser.add_argument("file", type=Path)
    asked = parser.parse_args()
    run_with_error_report(NAME, lambda base: print(*told[asked.what](base, asked.file), sep="\n"))


if __name__ == "__main__":
    main()
