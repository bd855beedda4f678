"""The result of `synthesize`: texts with their guarantee, their card and their report."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from sugarbush.attributes.reader import Labels
from sugarbush.errors import ParamsError, PrivacyError
from sugarbush.evolution.parts import Lineage
from sugarbush.html_table import html_table
from sugarbush.paths import atomic_directory
from sugarbush.pipeline.finished_run import FinishedRun
from sugarbush.privacy.accounting import rounded_up
from sugarbush.privacy.entries import composed_epsilon
from sugarbush.privacy.results import digest_of
from sugarbush.privacy.spending import spending_of
from sugarbush.release.columns import typed_table
from sugarbush.release.folders import readable, texts_as_lines, write_release, write_texts
from sugarbush.report.settings import PublicationSettings
from sugarbush.report.verdict import Verdict

if TYPE_CHECKING:
    from sugarbush.report.model import Download, PublicData, ReleaseFacts
    from sugarbush.report.notebook import ReportPage

_SHOWN_TEXTS, _SHORT = 3, 200  # texts of a release in a notebook, and characters of a text


@dataclass(frozen=True, kw_only=True)
class Release:
    """A synthetic corpus with its privacy guarantee and the ids of its ledger entries.

    `frame` has one row per synthetic text, with the attribute values that were read from the text
    (see `labels`), the values that were requested for it, and a weight. `verdict` tells how good
    the texts are, from released and public values. `lineage` contains the candidates and the noisy
    scores. If `epsilon` is infinite, the texts have no guarantee and must stay private.
    """

    method: str
    frame: pd.DataFrame = field(repr=False)
    delta: float
    ledger_ids: tuple[str, ...] = field(repr=False)
    run: str = field(repr=False)
    lineage: Lineage = field(repr=False)
    labels: Labels = field(repr=False)
    verdict: Verdict = field(repr=False)
    _finished: FinishedRun = field(repr=False)

    @property
    def card(self) -> Mapping[str, Any] | None:
        """The release card, or None if the method has no DP guarantee.

        The card describes the ledger as it is at the moment of the access, so it also counts what
        was charged on the dataset after this run. Raises LedgerError if the ledger is not there.
        """
        card = self._finished.card()
        return None if card is None else card.to_json()

    @property
    def epsilon(self) -> float:
        """The first epsilon on the card, or infinity if the method has no DP guarantee.

        It counts all charges on the dataset so far, because this release may be chosen among
        several. `epsilon_of_this_run` is that of this run alone.
        """
        card = self._finished.card()
        return math.inf if card is None else card.promise.epsilon

    @property
    def epsilon_of_this_run(self) -> float:
        """The epsilon of the charges of this run alone, or infinity without a DP guarantee."""
        finished = self._finished
        if finished.method.stays_private:
            return math.inf
        return composed_epsilon(finished.ledger.of(self.ledger_ids), delta=self.delta)

    @property
    def texts(self) -> tuple[str, ...]:
        return self.lineage.final.texts

    @property
    def records(self) -> pd.DataFrame:
        """One row for each record of the histories: `person`, `record` (1 for the first one), the
        dates that the schema has attributes for, the text, and the columns of `frame`.

        Raises ParamsError if the schema declares no histories.
        """
        from sugarbush.release.histories import history_of, records_table

        schema = self._finished.schema
        if history_of(schema) is None:
            raise ParamsError("records: the schema declares no histories (text.history)")
        lines = texts_as_lines(self.lineage.final, schema, self.labels)
        frame: pd.DataFrame = records_table(lines, schema).arrow.to_pandas()
        return frame

    def save(self, folder: str | Path) -> Path:
        """Write the texts, the rounds, release.json, the card and the report into a new or empty
        folder.

        The report is index.html, with links to the texts and the card. Both state the ledger as it
        is now. Raises ParamsError if the folder is not empty. Raises PrivacyError if the method has
        no DP guarantee. Raises LedgerError if the ledger is not there.
        """
        from sugarbush.report.card_files import card_files
        from sugarbush.report.card_values import release_card
        from sugarbush.report.downloads import downloads_in_folder

        target, facts = Path(folder), self._facts()
        if target.exists() and any(target.iterdir()):
            raise ParamsError(f"{target}: is not empty. Choose another folder")
        with atomic_directory(target) as temporary:
            write_texts(self.lineage, self._finished.schema, temporary, labels=self.labels)
            page = self._page(facts, downloads_in_folder())
            files = {**card_files(release_card(facts)), "index.html": page}
            for name, content in files.items():
                (temporary / name).write_text(content, encoding="utf-8")
            write_release(
                temporary,
                stage=self.method,
                privacy=self._finished.settings.privacy,
                ledger_ids=self.ledger_ids,
                run=self.run,
                ledger=self._finished.ledger,
            )
        return target

    def publish(
        self,
        folder: str | Path,
        *,
        publication: Mapping[str, Any] | None = None,
        another: bool = False,
        to: str | None = None,
    ) -> Path:
        """Write a dataset folder that dataset hubs and `datasets.load_dataset` open.

        The folder contains README.md, the texts as parquet, metadata.json, croissant.json, the
        card, a draft of a record for the deployment registry, and CITATION.cff. The card counts all
        charges on the dataset so far. `publication` contains the settings `publication`, in place
        of those of the run. The state folder records the publication. `to` is an address, such as
        hf://org/name or s3://bucket/folder, to which the folder is uploaded, too.

        Raises ParamsError for missing settings or a folder that is not empty. Raises PrivacyError
        if the method has no DP guarantee, if the data is an example or a benchmark, or if another
        release of the dataset was published. With `another`, this release is published, too, and
        both are counted.
        """
        from sugarbush.publication.publish import publish_finished
        from sugarbush.publication.upload import checked_target, upload

        target = Path(folder)
        settings = self._finished.settings.publication
        if publication is not None:
            settings = PublicationSettings(**publication)
        remote = checked_target(to)
        publish_finished(
            self._finished,
            target,
            publication=settings,
            another=another,
            resume=remote is not None,
        )
        if remote is not None:
            upload(remote, target)
        return target

    def note_evaluation(self) -> None:
        """Record in the ledger that exact figures of this release on real texts are shown.

        `sugarbush.evaluate` calls this. Call it yourself before you compare the texts with real
        texts by other code, so that the card says so. Raises LedgerError.
        """
        finished = self._finished
        if not finished.method.stays_private:
            finished.ledger.snapshot().of(self.ledger_ids)  # raises if the ledger is not there
        texts = digest_of(run=self.run, texts=self.texts)
        finished.ledger.note_shown("evaluation", of=[texts])

    def report(self) -> ReportPage:
        """Return the public report as one HTML page, which a notebook shows.

        The page contains its texts and its card, so it needs no other file. Both state the ledger
        as it is now. `report().open()` opens the page in the browser, and
        `report().save("report.html")` writes it. Raises PrivacyError if the method has no DP
        guarantee.
        """
        from sugarbush.report.card_files import card_files
        from sugarbush.report.card_values import release_card
        from sugarbush.report.downloads import LINES, PARQUET, TEXTS, downloads_inside
        from sugarbush.report.notebook import ReportPage

        facts = self._facts()
        lines = texts_as_lines(self.lineage.final, self._finished.schema, self.labels)
        parquet = typed_table(lines, self._finished.schema).content()
        files: dict[str, str | bytes] = {**card_files(release_card(facts)), TEXTS + LINES: lines}
        files[TEXTS + PARQUET] = parquet
        return ReportPage(self._page(facts, downloads_inside(files)))

    def _facts(self) -> ReleaseFacts:
        """Return what the card and the report state now."""
        if self._finished.method.stays_private:
            raise PrivacyError(
                f"method {self.method} has no DP guarantee, so its texts are not released. "
                "Read the texts from the attribute `texts`"
            )
        return self._finished.facts()

    @cached_property
    def _public_data(self) -> PublicData:
        return self._finished.public_data()

    def _page(self, facts: ReleaseFacts, downloads: tuple[Download, ...]) -> str:
        from sugarbush.report.page import render_public_page

        return render_public_page(replace(self._public_data, release=facts, downloads=downloads))

    def _repr_html_(self) -> str:
        """Show the guarantee and the first texts. Without a DP guarantee, show no text, because
        notebooks are saved with their output."""
        privacy = self._finished.settings.privacy
        facts = [("texts", f"{len(self.texts):,}"), ("dataset", privacy.dataset)]
        if self._finished.method.stays_private:
            title = f"{self.method}: NOT PRIVATE"
            return html_table(title, facts, note="No DP guarantee. The texts must stay private.")
        spent = spending_of(self._finished.ledger.snapshot(), self.ledger_ids, delta=self.delta)
        delta = rounded_up(self.delta)
        facts.append(("guarantee", f"{spent.line()}, delta {delta}, per {privacy.unit}"))
        for number, text in enumerate(self.texts[:_SHOWN_TEXTS], start=1):
            facts.append((f"text {number}", text if len(text) <= _SHORT else text[:_SHORT] + " …"))
        note = "All texts: .frame. Report: .report(). Card: .card"
        return html_table(f"Release of {self.method}", facts, note=note)


def release_of(finished: FinishedRun) -> Release:
    """Return the release of a finished run."""
    lineage = finished.final.lineage
    return Release(
        method=finished.method.name,
        frame=readable(lineage.final, finished.schema, finished.labels),
        delta=finished.settings.privacy.delta,
        ledger_ids=finished.ledger_ids,
        run=finished.final.run,
        lineage=lineage,
        labels=finished.labels,
        verdict=finished.verdict,
        _finished=finished,
    )
