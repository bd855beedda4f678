"""Reads the public texts of a project, and refuses public files that contain private records.

A pool may release each of its texts word for word. A model may learn the texts of
pretrain.sources without noise. So these files must not contain private records. Stage prepare
removes the texts that are equal to a public text, but such a file names many private records.
Donated examples may be records on purpose. Prepare removes these records, so only the other records
are compared with the donated examples.

With purpose benchmark, all data is public and nothing is refused. With `prepare.accept_overlap`,
the user declares that every public text may be published, and the card shows this declaration.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path

from sugarbush.data.formats.folders import files_of
from sugarbush.data.records import Record
from sugarbush.data.remote import Source, source_of
from sugarbush.data.shapes.interface import Shape
from sugarbush.errors import InputError
from sugarbush.generators.pool_files import load_pool
from sugarbush.privacy.overlap import OverlapState, PublicTexts
from sugarbush.privacy.settings import Purpose
from sugarbush.run.settings import ProjectSettings

_DONATED, _PRETRAIN = "prepare.donated", "pretrain.sources"
_WHAT_TO_DO = (
    "Name a public file without private records. If all data is public, set privacy.purpose: "
    "benchmark"
)
_DECLARE = (
    "Texts from one template resemble each other, too. If you know that every text of the file may "
    "be published, set prepare.accept_overlap to true; the release card will say so"
)


class PublicSources:
    """The donated texts, the texts that the generator may copy, and the texts of stage pretrain."""

    def __init__(
        self, settings: ProjectSettings, base: Path, shape: Shape | None, *, donated: Iterable[str]
    ) -> None:
        generator = settings.generator.chosen
        self._by_setting = {
            _DONATED: tuple(donated),
            f"generator.{generator.name}": generator.public_texts(base, shape),
        }
        if sources := settings.pretrain.sources:
            self._by_setting[_PRETRAIN] = load_pool(
                sources, base=base, shape=shape, setting=_PRETRAIN
            )
        is_public = settings.privacy.purpose is Purpose.BENCHMARK
        self._may_overlap = is_public or settings.prepare.accept_overlap

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(chain(*self._by_setting.values()))

    @cached_property
    def compared(self) -> dict[str, PublicTexts]:
        """The public texts to compare with the records. Nothing is compared for public data, and
        if the settings declare that every public text may be published."""
        texts = {} if self._may_overlap else self._by_setting
        return {name: PublicTexts(own) for name, own in texts.items() if own}

    def comparison(self) -> Comparison:
        """Return a comparison with the private records."""
        return Comparison(self.compared)


Compared = tuple[dict[str, OverlapState], int, int]


class Comparison:
    """Compares the public texts of each setting with the private records, batch by batch."""

    def __init__(self, by_setting: Mapping[str, PublicTexts]) -> None:
        self._by_setting = by_setting
        self._count = self._kept = 0

    def add(self, records: Sequence[Record], kept: Sequence[Record]) -> None:
        """Compare a batch of `records`. `kept` contains the records that equal no public text."""
        for setting, public in self._by_setting.items():
            compared = kept if setting == _DONATED else records
            public.compare([record.text for record in compared])
        self._count, self._kept = self._count + len(records), self._kept + len(kept)

    def state(self) -> Compared:
        """Return what `merge` needs of the compared records."""
        texts = {name: public.state() for name, public in self._by_setting.items()}
        return texts, self._count, self._kept

    @staticmethod
    def joined(one: Compared, other: Compared) -> Compared:
        """Return the state of the records of both."""
        texts = {name: own.joined(other[0][name]) for name, own in one[0].items()}
        return texts, one[1] + other[1], one[2] + other[2]

    def merge(self, state: Compared) -> None:
        """Add the compared records of other shards."""
        texts, count, kept = state
        for name, public in self._by_setting.items():
            public.merge(texts[name])
        self._count, self._kept = self._count + count, self._kept + kept

    def refuse_overlap(self) -> None:
        """Raise InputError that names the setting if its texts overlap the private records."""
        for setting, public in self._by_setting.items():
            if public.overlap(self._kept if setting == _DONATED else self._count):
                raise InputError(
                    f"{setting}: contains copies of private records (prepare.file), which a "
                    f"release could repeat word for word. {_WHAT_TO_DO}. {_DECLARE}"
                )


def refuse_private_files(settings: ProjectSettings, base: Path) -> None:
    """Raise InputError if a setting names the private file, a part of it, or a copy as public.

    The same file may have another path, by a symbolic or hard link.
    """
    if settings.privacy.purpose is Purpose.BENCHMARK:
        return
    generator = settings.generator.chosen
    named = [(f"generator.{generator.name}", file) for file in generator.public_files()]
    named += [(_PRETRAIN, source.file) for source in settings.pretrain.sources]
    if settings.prepare.donated is not None:
        named.append((_DONATED, settings.prepare.donated))
    private = _local_files(base, settings.prepare.file, setting="prepare.file")
    for setting, name in named:
        for file in _local_files(base, name, setting=setting):
            if any(_are_equal(file, other) for other in private):
                raise InputError(
                    f"{setting}: {name} is the private file (prepare.file) or a copy of it, and "
                    f"texts of this setting are not protected. {_WHAT_TO_DO}"
                )


def _local_files(base: Path, name: str, *, setting: str) -> list[Path]:
    source: Source = source_of(base, name, setting=setting)
    return [file for file in files_of(source, setting=setting) if isinstance(file, Path)]


def _are_equal(one: Path, other: Path) -> bool:
    """Return whether two files are one file, or have the same content."""
    if not (one.is_file() and other.is_file()):
        return False  # the reader names a missing file
    if one.samefile(other):
        return True
    return one.stat().st_size == other.stat().st_size > 0 and _digest(one) == _digest(other)


def _digest(file: Path) -> bytes:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").digest()
