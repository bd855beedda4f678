"""Settings of `sugarbush.report`, and of what a publication states about itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from typing import Literal

from pydantic import field_validator

from sugarbush.settings import Section

Sector = Literal["Technology", "Healthcare", "Education", "Government", "Energy", "Finance"]
_LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})*")
_OPTIONAL = ("private_columns", "url", "notes")


class ReportSettings(Section):
    """Settings of the pages of the report."""

    title: str | None = None
    """Title of the report; null: the schema's subject."""
    accept_poor: bool = False
    """Whether a release with the verdict poor is a success; false: exit code 3."""


class PublicationSettings(Section):
    """Public answers that no program can derive, for the card and `sugarbush publish`.

    The card, the dataset folder and the record for the deployment registry show these values.
    A run does not need them. `missing` names those that a publication needs.
    """

    curators: tuple[str, ...] = ()
    """Who publishes the release, such as [City Library]."""
    contact: str | None = None
    """Where readers send questions: a role with an address, such as privacy@library.example."""
    intended_use: str | None = None
    """What the release is for."""
    recipients: str | None = None
    """Who may receive the release, such as: everybody."""
    region: str | None = None
    """Region that the data describes, or whose law applies."""
    sector: Sector | None = None
    """Technology, Healthcare, Education, Government, Energy or Finance."""
    licence: str | None = None
    """Licence of the published texts, such as cc-by-4.0."""
    languages: tuple[str, ...] = ()
    """Languages of the texts as BCP 47 tags, such as [en]."""
    data_source: Literal["static", "dynamic"] | None = None
    """static: the private data stays as it is. dynamic: new records arrive."""
    source_access: str | None = None
    """Who has access to the private texts, and how the access is controlled."""
    source_retention: str | None = None
    """How long the private texts are stored after the release."""
    exploration: str | None = None
    """What anybody learned from the private texts before the run, such as: nothing."""
    justification_of_epsilon: str | None = None
    """Why this epsilon and delta."""
    justification_of_unit: str | None = None
    """Why the unit is a record or a user."""
    intruder_test: str | None = None
    """Result of a motivated-intruder test in one sentence. The sentence is published."""
    review_date: date | None = None
    """Date on which somebody reviews the publication, such as 2027-06-30."""
    private_columns: tuple[str, ...] = ()
    """Columns of the data file that no published attribute may come from."""
    url: str | None = None
    """Address at which the release is published; null: none yet."""
    notes: str | None = None
    """Further remarks for the deployment registry; null: none."""

    @field_validator("languages")
    @classmethod
    def _tags(cls, languages: tuple[str, ...]) -> tuple[str, ...]:
        if not all(map(_LANGUAGE.fullmatch, languages)):
            raise ValueError("use BCP 47 tags, such as [en] or [pt-BR]")
        return languages

    @field_validator("*")
    @classmethod
    def _not_blank(cls, value: object) -> object:
        texts = value if isinstance(value, tuple) else (value,)
        if any(isinstance(text, str) and not text.strip() for text in texts):
            raise ValueError("is blank. Write a sentence, or null")
        return value

    def missing(self) -> Iterator[str]:
        """Yield the names of the settings that a publication needs and that have no value."""
        for name, value in self:
            if name not in _OPTIONAL and value in (None, ()):
                yield f"publication.{name}"
