"""Publishes a release as a dataset folder, after checks that nothing else leaves.

The folder contains the texts of methods with a DP guarantee, their card, and descriptions that are
made from the card and the settings. Nothing private is read. Every check runs before the folder
gets its name. After an error or a kill, no folder with this name is there.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from sugarbush.attributes.reader import Labels
from sugarbush.data.private_columns import refuse_private_columns
from sugarbush.data.schema import Schema
from sugarbush.data.settings import PrepareSettings
from sugarbush.errors import InputError, ParamsError, PrivacyError
from sugarbush.methods.interface import FinalSet, Method
from sugarbush.paths import atomic_directory, require
from sugarbush.privacy.accounting import rounded_up
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.settings import Purpose
from sugarbush.publication.content import Publication
from sugarbush.publication.folder import write_dataset
from sugarbush.publication.records import Publications, Published, open_publications
from sugarbush.quality.judge import FILE as VERDICTS
from sugarbush.quality.judge import read_verdicts
from sugarbush.release.card_state import has_old_card, states_too_little
from sugarbush.release.figures import given_lines
from sugarbush.release.folders import final_folder, read_release, texts_as_lines
from sugarbush.release.histories import table_of
from sugarbush.release.own_charges import charges_of_texts
from sugarbush.report.card import CARD_FILE, Card, read_card
from sugarbush.report.downloads import texts_name
from sugarbush.report.officer import with_publication
from sugarbush.report.settings import PublicationSettings
from sugarbush.report.verdict import Verdict
from sugarbush.run.context import Project
from sugarbush.run.settings import FILE, ProjectSettings

_RUN = "Write the release and its card again with: sugarbush run"
_WRITTEN_BY_STAGES = ("data", "reports", ".git", ".dvc")


@dataclass(frozen=True, kw_only=True)
class ReleaseContent:
    """What is published: the card, and for each method the lines of its texts and its verdict.

    `ledger_ids` are the charges of the texts. `ledger` is a snapshot of the ledger now.
    `private_paths` are files and folders that no published description may name.
    """

    card: Card
    settings: PublicationSettings
    schema: Schema
    lines: Mapping[str, str]
    verdicts: Mapping[str, Verdict]
    ledger_ids: Sequence[str]
    ledger: Ledger
    private_paths: tuple[Path, ...]


class FinishedRelease(Protocol):
    """A release in memory: its settings, its texts with their labels, its charges and its card."""

    @property
    def settings(self) -> ProjectSettings: ...

    @property
    def schema(self) -> Schema: ...

    @property
    def method(self) -> Method: ...

    @property
    def final(self) -> FinalSet: ...

    @property
    def labels(self) -> Labels: ...

    @property
    def verdict(self) -> Verdict: ...

    @property
    def ledger(self) -> Ledger: ...

    @property
    def ledger_ids(self) -> tuple[str, ...]: ...

    def card(self) -> Card | None:
        """Return the card by the ledger as it is now, or None without a DP guarantee."""
        ...


def publish_project(
    project: Project, target: Path, *, another: bool, resume: bool = False
) -> Publication:
    """Publish the project's finished release in `target`, a new or empty folder.

    With `resume`, `target` may also contain this publication already.

    Raises ParamsError for missing settings or a folder that is not empty. Raises PrivacyError if
    the card does not cover the texts, if the card is older than the ledger or states less, or,
    without `another`, if another release of the dataset was published. Raises MissingInputError
    without a card.
    """
    _refuse_target(target, base=project.base, resume=resume)
    settings = project.settings
    _refuse_other_purposes(settings.privacy.purpose)
    _refuse_incomplete(settings.publication, source=FILE)
    _refuse_private_columns(project.schema, settings.prepare, settings.publication)
    card = _current_card(project)
    folders = {method.name: final_folder(project.roots, method) for method in settings.released}
    content = ReleaseContent(
        card=card,
        settings=settings.publication,
        schema=project.schema,
        lines={
            method.name: _covered_lines(project, method, folders[method.name], card)
            for method in settings.released
        },
        verdicts=_verdicts(project),
        ledger_ids=charges_of_texts(project.roots, settings.released),
        ledger=project.ledger().snapshot(),
        private_paths=(*_private_files(settings), project.base.absolute(), project.state),
    )
    return _publish(content, target, another=another)


def publish_finished(
    finished: FinishedRelease,
    target: Path,
    *,
    publication: PublicationSettings,
    another: bool,
    resume: bool = False,
) -> Publication:
    """Publish a release in memory, with a card that counts all charges so far.

    With `resume`, `target` may also contain this publication already. Raises the errors of
    `publish_project`.
    """
    _refuse_target(target, resume=resume)
    settings = finished.settings
    _refuse_other_purposes(settings.privacy.purpose)
    _refuse_incomplete(publication, source="the settings")
    _refuse_private_columns(finished.schema, settings.prepare, publication)
    card = finished.card()
    name = finished.method.name
    if card is None:
        raise PrivacyError(f"method {name} has no DP guarantee, so its texts cannot be published")
    lines = texts_as_lines(finished.final.lineage.final, finished.schema, finished.labels)
    content = ReleaseContent(
        card=card,
        settings=publication,
        schema=finished.schema,
        lines={name: lines},
        verdicts={name: finished.verdict},
        ledger_ids=finished.ledger_ids,
        ledger=finished.ledger.snapshot(),
        private_paths=(*_private_files(settings), finished.ledger.state.absolute()),
    )
    return _publish(content, target, another=another)


def _publish(content: ReleaseContent, target: Path, *, another: bool) -> Publication:
    """Write the folder, and record the publication before the folder gets its name."""
    card, ledger, ids = content.card, content.ledger, tuple(dict.fromkeys(content.ledger_ids))
    if not card.publishable:
        raise PrivacyError(f"this release cannot be published. {card.heading}")
    with open_publications(ledger.state, f"{card.purpose}-{ledger.dataset}") as publications:
        number = publications.number_of(ids)
        is_new = number is None
        if is_new and publications.releases and not another:
            _refuse_another(publications, ledger)
        release = Published(
            date=_today() if number is None else publications.releases[number - 1].date,
            ledger_ids=ids,
            epsilon=card.promise.epsilon,
            delta=card.promise.delta,
        )
        number = number or len(publications.releases) + 1
        publication = Publication(
            card=with_publication(
                card,
                content.settings,
                number=number,
                date=release.date,
                others=[r.date for n, r in enumerate(publications.releases, 1) if n != number],
            ),
            settings=content.settings,
            schema=content.schema,
            tables={name: table_of(lines, content.schema) for name, lines in content.lines.items()},
            verdicts={name: content.verdicts[name] for name in content.lines},
        )
        with _complete_folder(publication, target, content.private_paths):
            if is_new:
                publications.add(release)
    return publication


@contextmanager
def _complete_folder(
    publication: Publication, target: Path, private_paths: Iterable[Path]
) -> Iterator[None]:
    """Write all files and check them, and yield before the folder gets its name.

    A folder that contains files must be the folder of this publication.
    """
    if target.exists() and any(target.iterdir()):
        _refuse_other_content(publication, target)
        yield
        return
    with atomic_directory(target) as folder:
        write_dataset(publication, folder)
        _refuse_private_paths(folder, private_paths)
        yield


def _refuse_other_content(publication: Publication, target: Path) -> None:
    """Raise ParamsError if a folder differs from a publication."""
    with tempfile.TemporaryDirectory(prefix="sugarbush-publication-") as folder:
        write_dataset(publication, Path(folder))
        if _contents(Path(folder)) != _contents(target):
            raise ParamsError(
                f"{target}: is not empty, and contains another publication or other files. Choose "
                "a new or empty folder"
            )


def _contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def _refuse_target(target: Path, *, base: Path | None = None, resume: bool) -> None:
    """Raise ParamsError if `target` is not a new or empty folder, or if a stage writes to it."""
    choose = "Choose a new or empty folder"
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise ParamsError(f"{target}: is not a folder. {choose}")
    if target.exists() and any(target.iterdir()) and not resume:
        raise ParamsError(f"{target}: is not empty. {choose}")
    if base is None:
        return
    if base.resolve().is_relative_to(target.resolve()):
        raise ParamsError(f"{target}: contains the project. {choose}")
    for name in _WRITTEN_BY_STAGES:
        if target.resolve().is_relative_to((base / name).resolve()):
            raise ParamsError(f"{target}: is in a folder that stages or programs write. {choose}")


def _refuse_other_purposes(purpose: Purpose) -> None:
    """Raise PrivacyError for an example or a benchmark."""
    if purpose is not Purpose.RELEASE:
        raise PrivacyError(
            f"a release with `privacy.purpose: {purpose}` cannot be published: its ledger is not "
            "the ledger of private data"
        )


def _refuse_incomplete(settings: PublicationSettings, *, source: str) -> None:
    if missing := list(settings.missing()):
        raise ParamsError(
            f"{source}: a publication needs {', '.join(missing)}. The card and the record for the "
            "deployment registry state these values. `sugarbush settings publication` explains them"
        )
    if settings.review_date is not None and settings.review_date.isoformat() <= _today():
        raise ParamsError(
            f"{source}: publication.review_date must be in the future (got {settings.review_date})"
        )


def _refuse_private_columns(
    schema: Schema, prepare: PrepareSettings, settings: PublicationSettings
) -> None:
    """Raise PrivacyError if a text or an attribute contains a private column."""
    try:
        refuse_private_columns(schema, prepare, settings.private_columns)
    except InputError as error:
        raise PrivacyError(f"{error}. Then run again") from None


def _private_files(settings: ProjectSettings) -> tuple[Path, ...]:
    """Return the data file if the settings contain its whole path."""
    file = Path(settings.prepare.file)
    return (file,) if file.is_absolute() else ()


def _current_card(project: Project) -> Card:
    """Read the card. Raise PrivacyError if it is of another state of the ledger."""
    path = require(project.roots.published / CARD_FILE, left_by="report")
    privacy, methods = project.settings.privacy, project.settings.released
    if has_old_card(project.roots, privacy, project.ledger()):
        raise PrivacyError(
            f"{path}: this card is older than the ledger or belongs to another ledger, so its "
            f"totals may be too small. {_RUN}"
        )
    if states_too_little(project.roots, methods, project.ledger(rehearse=False)):
        raise PrivacyError(
            f"{path}: this card states less than the ledger says, so another version wrote it or "
            f"somebody changed it. {_RUN}"
        )
    card = read_card(path)
    made = card.dataset, card.purpose, card.made_by.methods
    if made != (privacy.dataset, privacy.purpose, tuple(method.name for method in methods)):
        raise PrivacyError(f"{path}: is the card of another dataset or of other methods. {_RUN}")
    promise = card.promise
    promised = promise.unit, promise.records_per_unit, promise.delta
    if promised != (privacy.unit, privacy.records_per_user, privacy.delta):
        raise PrivacyError(f"{path}: states another unit or delta than the settings. {_RUN}")
    return card


def _covered_lines(project: Project, method: Method, folder: Path, card: Card) -> str:
    """Read a method's texts. Raise PrivacyError if the card does not cover them."""
    public = require(project.roots.published / texts_name(method.name), left_by="report")
    lines = public.read_bytes()
    if lines != given_lines(folder):
        raise PrivacyError(f"{public}: differs from the texts in {folder}. {_RUN}")
    listed = {event.id for event in card.budget.events}
    if not set(read_release(folder)["ledger_ids"]) <= listed:
        raise PrivacyError(f"{folder}: has charges that the card does not list. {_RUN}")
    return lines.decode("utf-8")


def _verdicts(project: Project) -> dict[str, Verdict]:
    require(project.roots.published / VERDICTS, left_by="report")
    return read_verdicts(project.roots)


def _refuse_another(publications: Publications, ledger: Ledger) -> None:
    dates = ", ".join(release.date for release in publications.releases)
    together = rounded_up(ledger.total())
    raise PrivacyError(
        f"a release of dataset '{ledger.dataset}' was published before ({dates}), and this is "
        f"another one. Whoever has both can combine them: together they have epsilon {together} at "
        f"delta {rounded_up(ledger.delta)}. To publish it all the same, use --another (in Python: "
        "another=True). The card then counts both"
    )


def _refuse_private_paths(folder: Path, private: Iterable[Path]) -> None:
    """Raise PrivacyError if a description names a private path. Texts may contain any path."""
    names = [str(path).encode() for path in private if len(path.parts) > 1]
    for path in sorted(path for path in folder.iterdir() if path.is_file()):
        if any(name in path.read_bytes() for name in names):
            raise PrivacyError(
                f"{path.name}: would name a private file or folder. Remove paths from section "
                "publication, report.title and the schema"
            )


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


def describe(publication: Publication, target: Path | str) -> Mapping[str, str]:
    """Return what the operator reads after a publication, by label."""
    card, published = publication.card, publication.published
    promise = card.promise
    counts = ", ".join(f"{table.rows:,} of {name}" for name, table in publication.tables.items())
    number = f"{published.number} of dataset {card.dataset}"
    if published.others:
        together = rounded_up(published.epsilon_of_all)
        number += f"; all published releases together have epsilon {together}"
    return {
        "published": str(target),
        "texts": counts,
        "guarantee": f"{promise.in_short}, delta {rounded_up(promise.delta)}, per {promise.unit}",
        "publication": number,
        "registry": "registry.yaml is a draft. Read it, and submit it by hand",
    }
