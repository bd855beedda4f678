"""The corpus and the public texts that the settings name, read and checked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pandas as pd

from sugarbush.data.private_store import HELDOUT, TRAIN
from sugarbush.data.reading import Row, read_rows
from sugarbush.data.records import donated_records, frame_of, usable, wanted_columns
from sugarbush.data.split import ContributionBounder, Prepared, private_frame, split
from sugarbush.pipeline.project import Project
from sugarbush.privacy.unit import Unit


def read_corpus(project: Project) -> Prepared:
    """Read, check and split the data file, and write nothing."""
    settings, schema = project.settings.prepare, project.schema
    path = project.find(settings.file)
    wanted = wanted_columns(settings, schema, private=True)
    return split_rows(
        read_rows(path, setting="prepare.file", wanted=wanted),
        project,
        public=tuple(read_donated(project)["text"]),
        source=str(path),
        setting="prepare.file",
    )


def split_rows(
    rows: Sequence[Row], project: Project, *, public: Iterable[str], source: str, setting: str
) -> Prepared:
    """Check and split rows. Texts that the generator returns unchanged count as public, too."""
    settings, privacy = project.settings, project.settings.privacy
    records, bad = usable(rows, settings.prepare, project.schema, source=source, setting=setting)
    bound = None
    if privacy.unit is Unit.USER:
        bound = ContributionBounder(records=privacy.records_per_user, key=project.key)
    known = (*public, *settings.generator.chosen.public_texts(project.base))
    parts = split(records, settings.prepare, public=known, source=source, bound=bound)
    return replace(parts, tally={**parts.tally, **bad})


def private_frames(parts: Prepared, project: Project) -> dict[str, pd.DataFrame]:
    """Make one frame of the training records and one frame of the held-out records."""
    return {
        TRAIN: private_frame(parts.train, project.schema, key=project.key),
        HELDOUT: private_frame(parts.heldout, project.schema, key=project.key),
    }


def read_donated(project: Project) -> pd.DataFrame:
    """The donated examples; an empty frame if there are none."""
    settings, schema = project.settings.prepare, project.schema
    if settings.donated is None:
        return frame_of([], schema)
    path = project.find(settings.donated)
    wanted = wanted_columns(settings, schema, private=False)
    rows = read_rows(path, setting="prepare.donated", wanted=wanted, all_columns=True)
    return donated_records(rows, settings, schema, source=str(path))
