"""The corpus and the public texts that the settings name, read and checked."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from sugarbush.data.donated import donated_records, wanted_columns
from sugarbush.data.reading import read_rows
from sugarbush.data.records import frame_of, usable
from sugarbush.data.split import ContributionBounder, Prepared, split
from sugarbush.pipeline.project import Project
from sugarbush.privacy.unit import Unit


def read_corpus(project: Project) -> Prepared:
    """Read, check and split the data file, and write nothing."""
    settings, schema = project.settings.prepare, project.schema
    path = project.find(settings.file)
    wanted = wanted_columns(settings, schema, private=True)
    rows = read_rows(path, setting="prepare.file", wanted=wanted)
    records, bad = usable(rows, settings, schema, source=str(path), setting="prepare.file")
    parts = split(
        records, settings, public=public_texts(project), source=str(path), bound=bounder(project)
    )
    return replace(parts, tally={**parts.tally, **bad})


def bounder(project: Project) -> ContributionBounder | None:
    """What bounds the contributions of a user; None if the unit is a record."""
    privacy = project.settings.privacy
    if privacy.unit is not Unit.USER:
        return None
    return ContributionBounder(records=privacy.records_per_user, key=project.key)


def read_donated(project: Project) -> pd.DataFrame:
    """The donated examples; an empty frame without any."""
    settings, schema = project.settings.prepare, project.schema
    if settings.donated is None:
        return frame_of([], schema)
    path = project.find(settings.donated)
    wanted = wanted_columns(settings, schema, private=False)
    rows = read_rows(path, setting="prepare.donated", wanted=wanted, all_columns=True)
    return donated_records(rows, settings, schema, source=str(path))


def public_texts(project: Project) -> tuple[str, ...]:
    """Texts that are already public: donated ones, and those that the generator returns
    unchanged."""
    donated = tuple(read_donated(project)["text"])
    return donated + project.settings.generator.chosen.public_texts(project.base)
