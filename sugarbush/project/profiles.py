"""Draws a DP profile, writes its page, and derives a schema and settings from it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from sugarbush.data.schema import json_schema_file, load_schema
from sugarbush.data.shapes.interface import Shape
from sugarbush.paths import Roots, atomic_file, find_input, reading
from sugarbush.pipeline.opening import open_project
from sugarbush.privacy.budget import mu_of
from sugarbush.privacy.spending import Spending, spending_of
from sugarbush.profiling.draft import (
    Draft,
    draft_from_profile,
    schema_text,
    subject_of_file,
    word_counts,
)
from sugarbush.profiling.page import render_profile
from sugarbush.profiling.records_per_user import RecordsPerUser, proposed_records_per_user
from sugarbush.profiling.release import FILE, ReleasedProfile
from sugarbush.profiling.requests import STAGE, profile_of_project
from sugarbush.progress import working
from sugarbush.project.assignments import changed_settings, write_settings
from sugarbush.project.local_model import tokens_for_words
from sugarbush.run.context import Project
from sugarbush.run.ledgers import profile_charges
from sugarbush.tables.settings import Engine

PAGE = "profile.html"
_DAMAGED = "Run `sugarbush profile` again; a finished profile costs nothing"


@dataclass(frozen=True, kw_only=True)
class DrawnProfile:
    """A finished profile, what its dataset spent, and its page. `is_charged` is false if the
    profile was restored."""

    profile: ReleasedProfile
    spending: Spending
    page: Path
    is_charged: bool


@dataclass(frozen=True, kw_only=True)
class ProfiledProject:
    """The profile of a new project, the schema from it, and notes on the settings from it."""

    drawn: DrawnProfile
    draft: Draft
    notes: tuple[str, ...]


def draw_profile(project: Project, *, force: bool = False) -> DrawnProfile:
    """Draw or restore the profile, and write its page."""
    before = len(profile_charges(project))
    profile = profile_of_project(project, forced=force)
    return _with_page(project, profile, is_charged=len(profile_charges(project)) > before)


def _with_page(project: Project, profile: ReleasedProfile, *, is_charged: bool) -> DrawnProfile:
    with working("the total of the ledger"):
        spending = spending_of(project.ledger(rehearse=False).snapshot(), profile.ledger_ids)
    page = write_page(project, profile, spending)
    return DrawnProfile(profile=profile, spending=spending, page=page, is_charged=is_charged)


def other_records_per_user(project: Project, profile: ReleasedProfile) -> RecordsPerUser | None:
    """Return the number that the profile proposes, or None if params.yaml has this number or the
    profile proposes none."""
    proposed = _proposed_records_per_user(project, profile)
    current = project.settings.privacy.records_per_user
    return None if proposed is None or proposed.limit == current else proposed


def write_page(project: Project, profile: ReleasedProfile, spending: Spending) -> Path:
    """Write reports/public/profile.html."""
    path = project.roots.published / PAGE
    page = render_profile(profile, title=_title(project), spending=spending)
    with atomic_file(path, public=True) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return path


def read_profile(base: Path) -> ReleasedProfile | None:
    """Read the project's last profile, or return None."""
    path = Roots(base).released / STAGE / FILE
    if not path.exists():
        return None
    with reading(path, advice=_DAMAGED):
        return ReleasedProfile.from_json(path.read_text(encoding="utf-8"))


def use_profile(folder: Path, schema: Path, *, subject: str | None) -> ProfiledProject:
    """Draw the profile of a new project, and write its schema and the lengths of its texts.

    The schema is the draft of a new project, which nobody has edited.
    """
    project = open_project(folder)
    before = len(profile_charges(project))
    profile = profile_of_project(project)
    named = subject or subject_of_file(Path(project.settings.prepare.file).stem)
    draft = write_schema_of(profile, schema, subject=named, shape_of=schema)
    notes = set_from_profile(project, profile, draft.schema.shape)
    drawn = _with_page(project, profile, is_charged=len(profile_charges(project)) > before)
    return ProfiledProject(drawn=drawn, draft=draft, notes=notes)


def set_from_profile(
    project: Project, profile: ReleasedProfile, shape: Shape | None
) -> tuple[str, ...]:
    """Write what the profile proposes to params.yaml: the lengths of texts, and the records per
    user if nobody has set them. Return notes on the records per user.

    The limit of tokens suits the longest text that prompts request. Donated texts give other
    lengths.
    """
    folder, words = project.base, word_counts(profile)
    is_history = shape is not None and shape.groups_rows  # one record of its user
    proposed = None if is_history else _proposed_records_per_user(project, profile)
    notes: tuple[str, ...] = ()
    if profile.users is not None and proposed is None and not is_history:
        notes = ("privacy.records_per_user: no proposal, because the noise is too large for it",)
    elif proposed is not None and project.settings.privacy.records_per_user == 1:
        limit = f"privacy.records_per_user={proposed.limit}"
        write_settings(folder, changed_settings(folder, assignments=[limit]))
        notes = (f"privacy.records_per_user: {proposed.limit}: {proposed.cost}",)
    if words and project.settings.prepare.donated is None:
        changes = [f"initialise.length.words={list(words)}"]
        if project.settings.generator.provider == "huggingface":
            longest = None if shape is None else shape.words_of(shape.longest)
            tokens = tokens_for_words(max(*words, longest or 0))
            changes.append(f"generator.huggingface.max_tokens={tokens}")
        write_settings(folder, changed_settings(folder, assignments=changes))
    return notes


def _proposed_records_per_user(project: Project, profile: ReleasedProfile) -> RecordsPerUser | None:
    """Return the proposal for the noise of a count that has the share of the run's metadata."""
    settings = project.settings
    if settings.synthesize_metadata.engine is Engine.SMARTNOISE:  # one record per user
        return None
    privacy = settings.privacy
    mu = mu_of(epsilon=privacy.epsilon, delta=privacy.delta) * math.sqrt(privacy.metadata_share)
    return proposed_records_per_user(profile, stddev=1 / mu)


def write_schema_of(
    profile: ReleasedProfile, output: Path, *, subject: str | None, shape_of: Path
) -> Draft:
    """Write the schema that the profile proposes, and return it.

    The schema `shape_of` declares the shape of a record; without this file, it is one string.
    """
    form, file = None, None
    if shape_of.exists():
        form = load_schema(shape_of).text
        file = json_schema_file(shape_of, beside=output)
    draft = draft_from_profile(profile, subject=subject, form=form)
    with atomic_file(output, public=True) as temporary:
        temporary.write_text(schema_text(draft, profile, json_schema=file), encoding="utf-8")
    return draft


def _title(project: Project) -> str:
    """Return the schema's subject, or the dataset's name without a schema."""
    path = find_input(project.base, project.settings.prepare.schema_)
    return project.schema.subject if path.exists() else project.dataset
