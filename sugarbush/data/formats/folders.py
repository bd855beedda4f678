"""Lists the files of a corpus: a file, a folder, a pattern such as `tickets-*.csv`, or a dataset.

A dataset is a folder that `datasets.save_to_disk` wrote, or a copy of a dataset of a hub. Only the
files with rows count. A dataset with several splits is refused, because the splits are different
samples, and a train split alone is often what should be released.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sugarbush.data.remote import Database, File, RemotePath, Source
from sugarbush.errors import InputError

_SPLIT = re.compile(r"(?P<split>\w+(?:[.-]\w+)*)-\d{5}-of-\d{5}\.\w+(\.\w+)?")
_NO_ROWS = re.compile(
    r"[._].*|readme(\.\w+)?|licen[cs]e(\.\w+)?|dataset_infos\.json", re.IGNORECASE
)
_MOST_SHOWN = 5
_STATE, _INFO, _SPLITS = "state.json", "dataset_info.json", "dataset_dict.json"


def files_of(path: Source, *, setting: str) -> list[Source]:
    """List the files of a corpus by name. Raises InputError for an empty folder."""
    if isinstance(path, Database):
        return [path]
    if "*" in path.name and not _exists(path):
        return _matching(path, setting)
    return _files_of_folder(path, setting) if path.is_dir() else [path]


def _files_of_folder(path: File, setting: str) -> list[Source]:
    files = {file.name: file for file in path.iterdir()}
    if _SPLITS in files:
        return files_of(_only_split(path, files[_SPLITS], setting), setting=setting)
    if _STATE in files and _INFO in files:
        return _saved_files(path, files, setting)
    rows = [file for name, file in files.items() if not _NO_ROWS.fullmatch(name)]
    if [file.name for file in rows] == ["data"] and rows[0].is_dir():
        return files_of(rows[0], setting=setting)
    if not rows:
        raise InputError(f"{path}: the folder has no file (setting {setting})")
    splits = sorted({m["split"] for file in rows if (m := _SPLIT.fullmatch(file.name))})
    if len(splits) > 1:
        raise _several(path, splits, "-*", setting)
    return _sorted(rows)


def _exists(path: File) -> bool:
    return isinstance(path, Path) and path.exists()


def _matching(path: File, setting: str) -> list[Source]:
    """List the files of a folder whose names match the pattern in the last part of `path`."""
    folder: File
    if isinstance(path, RemotePath):
        folder = RemotePath(path.url.rpartition("/")[0], path.setting)
    else:
        folder = path.parent
    name = re.compile(".*".join(map(re.escape, path.name.split("*"))))
    files = folder.iterdir() if folder.is_dir() else ()
    found = [f for f in files if name.fullmatch(f.name) and not f.name.startswith((".", "_"))]
    if not found:
        raise InputError(f"{path}: no file has such a name (setting {setting})")
    return _sorted(found)


def _saved_files(path: File, files: Mapping[str, File], setting: str) -> list[Source]:
    """List the files of a dataset that `save_to_disk` wrote, in the order of the rows."""
    try:
        listed = _json(files[_STATE])["_data_files"]
        return [files[entry["filename"]] for entry in listed]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InputError(
            f"{path}: {_STATE} lists no files, or a file is missing. Save the dataset again "
            f"(setting {setting})"
        ) from None


def _only_split(path: File, splits: File, setting: str) -> File:
    try:
        names = [str(name) for name in _json(splits)["splits"]]
        folders = {folder.name: folder for folder in path.iterdir()}
        if len(names) != 1:
            raise _several(path, names, "", setting)
        return folders[names[0]]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InputError(f"{splits}: names no split (setting {setting})") from None


def _json(file: File) -> Any:
    with file.open("rb") as opened:
        return json.load(opened)


def _several(path: File, splits: Sequence[str], ending: str, setting: str) -> InputError:
    shown = ", ".join(splits[:_MOST_SHOWN]) + (", ..." if len(splits) > _MOST_SHOWN else "")
    return InputError(
        f"{path}: contains the splits {shown}. Name one of them: {path}/{splits[0]}{ending} "
        f"(setting {setting})"
        if splits
        else f"{path}: names no split (setting {setting})"
    )


def _sorted(files: Sequence[File]) -> list[Source]:
    return sorted(files, key=str)
