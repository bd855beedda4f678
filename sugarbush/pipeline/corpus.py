"""Reads, checks and splits the corpus that the settings name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import pandas as pd

from sugarbush.data.reading import Row, row_batches
from sugarbush.data.records import Record, shape_of, usable, wanted_columns
from sugarbush.data.remote import Source, source_of
from sugarbush.data.settings import PrepareSettings
from sugarbush.data.split import ContributionBounder, SplitRecords, Splitter, private_frame
from sugarbush.pipeline.project import Project
from sugarbush.pipeline.public_inputs import PublicInputs, refuse_private_files
from sugarbush.privacy.fingerprint import FingerprintBuilder
from sugarbush.privacy.ledger import has_fingerprint_of_0_2
from sugarbush.privacy.results import digest_of
from sugarbush.privacy.unit import Unit


class SplitCorpus:
    """Splits a corpus into its private parts, batch by batch. `tally` and `fingerprint` are
    complete after the last batch.

    `batches` returns the rows with the name of their source. If the unit is a user, `batches` is
    called twice. Records that equal a public text (`PublicInputs`) are removed. If the public texts
    overlap the records, `parts` raises InputError after the last batch.
    """

    def __init__(
        self,
        batches: Callable[[], Iterable[tuple[str, Sequence[Row]]]],
        project: Project,
        *,
        donated: Iterable[str],
        source: str,
        setting: str,
    ) -> None:
        self._batches, self._project = batches, project
        self._source, self._setting = source, setting
        self._inputs = PublicInputs(project, donated=donated)
        self._public = self._inputs.texts
        self.bounds = project.settings.contribution_bounds
        self.records_of_users: Mapping[str | None, int] = {}
        self.tally: Mapping[str, int] = {}
        self.fingerprint: tuple[str, ...] = ()

    def parts(self, *, fingerprint: bool) -> Iterator[SplitRecords]:
        """Yield the parts of each batch. If `fingerprint` is false, no fingerprint is computed."""
        params = self._project.settings.prepare
        builder, bound, bad = None, None, Counter[str]()
        if fingerprint:
            of_0_2 = has_fingerprint_of_0_2(self._project.state)
            builder = FingerprintBuilder(key=self._project.key, of_0_2=of_0_2)
        if self.bounds.unit is Unit.USER:
            most = self.bounds.records_per_unit
            bound = ContributionBounder(records=most, key=self._project.key)
            kept = Splitter(params, public=self._public).kept
            for _, records in self._records(Counter()):
                bound.add(kept(records))
            self.records_of_users = bound.totals
        splitter = Splitter(params, public=self._public, bound=bound, fingerprint=builder)
        comparison = self._inputs.comparison()
        for source, records in self._records(bad):
            comparison.add(records, splitter.kept(records))
            yield splitter.parts(records, source=source)
        comparison.refuse_overlap()
        self.tally = {**splitter.tally(source=self._source), **bad}
        self.fingerprint = builder.values() if builder is not None else ()

    @property
    def public_inputs(self) -> str:
        """The digest of all settings and public texts that affect the private parts and codes."""
        project = self._project
        names = ("prepare", "extract_metadata", "embedding", "privacy.unit")
        return digest_of(
            settings=project.settings.changed_output_settings((*names, "privacy.records_per_user")),
            schema=project.schema.fields_for_private_results(),
            public=sorted(self._public),
        )

    def frames(self) -> Iterator[dict[str, pd.DataFrame]]:
        project = self._project
        by_user = self.bounds.unit is Unit.USER
        for parts in self.parts(fingerprint=True):
            yield {
                part: private_frame(own, project.schema, key=project.key, by_user=by_user)
                for part, own in parts.items()
            }

    def records(self) -> Iterator[Record]:
        for parts in self.parts(fingerprint=False):
            for own in parts.values():
                yield from own

    def _records(self, bad: Counter[str]) -> Iterator[tuple[str, tuple[Record, ...]]]:
        settings, schema = self._project.settings.prepare, self._project.schema
        for source, rows in self._batches():
            records, dropped = usable(rows, settings, schema, source=source, setting=self._setting)
            bad.update(dropped)
            yield source, records


def file_batches(
    path: Source,
    settings: PrepareSettings,
    wanted: Mapping[str, str],
    *,
    all_columns: bool = False,
) -> Iterator[tuple[str, Sequence[Row]]]:
    """Yield the rows of the data file with the name of their file, as `row_batches` does."""
    for file, rows in row_batches(
        path,
        setting="prepare.file",
        wanted=wanted,
        all_columns=all_columns,
        broken=True,
        options=settings.read_options,
    ):
        yield str(file), rows


def read_corpus(project: Project) -> SplitCorpus:
    """Open the data file. The rows are read and split while the caller iterates over the parts."""
    settings = project.settings.prepare
    refuse_private_files(project)
    path = source_of(project.base, settings.file, setting="prepare.file")
    wanted = wanted_columns(settings, project.schema, private=True)
    all_columns = shape_of(project.schema, settings).reads_all_columns

    return SplitCorpus(
        lambda: file_batches(path, settings, wanted, all_columns=all_columns),
        project,
        donated=project.donated_texts(),
        source=str(path),
        setting="prepare.file",
    )
