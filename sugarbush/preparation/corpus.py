"""Reads, checks and splits the corpus that the settings name.

A corpus has shards, which depend only on its files. A shard is split in this process, in several
processes or on a cluster. The splits of the result, the ids and the messages are the same in each
case.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, groupby, islice
from typing import Any

from sugarbush.data.formats.rows import BATCH_ROWS, Reading, require_columns
from sugarbush.data.numbers import NotationsOfColumns
from sugarbush.data.private_columns import refuse_private_columns
from sugarbush.data.private_store import HELDOUT, TRAIN, PreparedDigests, PreparedFiles
from sugarbush.data.reading import FileShard, Row, file_shards, row_batches, shard_batches
from sugarbush.data.records import (
    Record,
    require_decimal_signs,
    shape_of,
    usable,
    wanted_columns,
)
from sugarbush.data.remote import Source, source_of
from sugarbush.data.schema import Schema
from sugarbush.data.settings import PrepareSettings
from sugarbush.data.shapes.interface import Shape
from sugarbush.data.split import (
    ChosenRecords,
    ContributionBounder,
    SplitRecords,
    Splitter,
    SplitTotals,
    normalised,
    private_frame,
)
from sugarbush.errors import InputError
from sugarbush.preparation.public_texts import Comparison, PublicSources, refuse_private_files
from sugarbush.privacy.fingerprint import FingerprintBuilder, FingerprintState
from sugarbush.privacy.ledger import has_fingerprint_of_0_2
from sugarbush.privacy.overlap import PublicTexts
from sugarbush.privacy.results import digest_of
from sugarbush.privacy.shards import MapShards, map_shards
from sugarbush.privacy.unit import ContributionBounds, Unit
from sugarbush.run.context import Project
from sugarbush.run.records import key_of
from sugarbush.run.usable_inputs import require_histories

Batches = Iterable[tuple[str, Sequence[Row]]]


@dataclass(frozen=True)
class _NumberedShard:
    """A shard of a corpus, with the choice of its records if the unit is a user. A cluster may log
    the `repr`, so it shows only the number."""

    number: int
    shard: Any = field(repr=False)
    chosen: ChosenRecords | None = field(default=None, repr=False)


@dataclass
class _ShardFacts:
    """What is found in one shard. `missing` are the columns that no record has. Private."""

    totals: SplitTotals = field(default_factory=SplitTotals)
    bad: Counter[str] = field(default_factory=Counter)
    omitted: Counter[str] = field(default_factory=Counter)
    missing: frozenset[str] = frozenset()
    notations: NotationsOfColumns = field(default_factory=NotationsOfColumns)
    rows: int = 0
    digests: PreparedDigests | None = None
    error: InputError | None = None


@dataclass
class _Findings:
    """What is found in some shards, in any order. Private."""

    shards: dict[int, _ShardFacts]
    fingerprint: FingerprintState | None
    compared: Any

    def joined(self, other: _Findings) -> _Findings:
        """Add the findings in other shards."""
        self.shards |= other.shards
        if self.fingerprint is not None and other.fingerprint is not None:
            self.fingerprint = self.fingerprint.joined(other.fingerprint)
        self.compared = Comparison.joined(self.compared, other.compared)
        return self


@dataclass(frozen=True)
class _ShardSplitter:
    """Splits one shard of a corpus, also on a worker."""

    read: Callable[[Any], Batches] = field(repr=False)
    params: PrepareSettings
    schema: Schema
    bounds: ContributionBounds
    source: str
    setting: str
    key: bytes = field(repr=False)
    public: frozenset[str] = field(repr=False)
    public_texts: Mapping[str, PublicTexts] = field(repr=False)
    fingerprint: bool
    of_0_2: bool

    def split(self, shard: _NumberedShard, found: list[_Findings]) -> Iterator[SplitRecords]:
        """Yield the records of each batch by their split. After the last batch, append the
        findings.

        Raises InputError for a row that cannot be used.
        """
        builder = FingerprintBuilder(key=self.key, of_0_2=self.of_0_2) if self.fingerprint else None
        splitter = self._splitter(shard.chosen, builder)
        comparison, facts = Comparison(self.public_texts), _ShardFacts(splitter.totals)
        found.append(_Findings({shard.number: facts}, None, comparison.state()))
        for source, records in self._records(shard.shard, facts):
            comparison.add(records, splitter.kept(records))
            yield splitter.split(records, source=source)
        splitter.require_complete(source=self.source)
        found[-1].compared = comparison.state()
        found[-1].fingerprint = None if builder is None else builder.state()

    def write(self, shard: _NumberedShard, *, files: PreparedFiles) -> _Findings:
        """Split a shard into the files of its number. An error is a finding, because the error of
        the first shard counts, and not the first error in time. After an error, no later shard is
        read."""
        found: list[_Findings] = []
        if files.has_error_before(shard.number):
            return _Findings({}, None, Comparison(self.public_texts).state())
        by_user = self.bounds.unit is Unit.USER
        no_records: SplitRecords = {TRAIN: [], HELDOUT: []}
        try:
            with files.shard(shard.number) as writer:
                for split in chain([no_records], self.split(shard, found)):
                    writer.add(
                        {
                            name: private_frame(own, self.schema, key=self.key, by_user=by_user)
                            for name, own in split.items()
                        }
                    )
                found[-1].shards[shard.number].digests = writer.digests
        except InputError as error:
            found[-1].shards[shard.number].error = error
            files.mark_error(shard.number)
        return found[-1]

    def owners(
        self, shard: _NumberedShard, *, files: PreparedFiles | None
    ) -> tuple[ContributionBounder, dict[int, _ShardFacts]]:
        """Read the users of a shard, for the choice of their records. An error is a finding, as in
        `write`. Without `files`, an error is raised at once."""
        bounder = ContributionBounder(records=self.bounds.records_per_unit, key=self.key)
        kept, facts = self._splitter(None, None).kept, _ShardFacts()
        if files is not None and files.has_error_before(shard.number):
            return bounder, {}
        try:
            bounder.add((), shard=shard.number)
            for _, records in self._records(shard.shard, facts):
                bounder.add(kept(records), shard=shard.number)
        except InputError as error:
            if files is None:
                raise
            facts.error = error
            files.mark_error(shard.number)
        return bounder, {shard.number: facts}

    def _splitter(
        self, chosen: ChosenRecords | None, builder: FingerprintBuilder | None
    ) -> Splitter:
        return Splitter(
            self.params,
            public=self.public,
            bound=chosen,
            fingerprint=builder,
            shape=self.schema.shape,
        )

    def _records(self, shard: Any, facts: _ShardFacts) -> Iterator[tuple[str, tuple[Record, ...]]]:
        wanted = wanted_columns(self.params, self.schema, private=True)
        missing = set(wanted) if isinstance(shard, FileShard) and shard.has_keys else set()
        for source, rows in self.read(shard):
            for row in rows if missing else ():
                missing.difference_update(row.fields)
            facts.rows, facts.missing = facts.rows + len(rows), frozenset(missing)
            records, dropped = usable(
                rows,
                self.params,
                self.schema,
                source=source,
                setting=self.setting,
                notations=facts.notations,
                omitted=facts.omitted,
            )
            facts.bad.update(dropped)
            yield source, records


class SplitCorpus:
    """Splits a corpus into its private splits. `tally` and `fingerprint` are complete after the
    last batch.

    `shards` returns the shards of the corpus, and `read` the rows of a shard with the name of their
    source. If the shape of a record joins rows, there must be one shard. If the unit is a user,
    each shard is read twice. Records that equal a public text (`PublicSources`) are removed. If the
    public texts overlap the records, InputError is raised after the last shard.
    """

    def __init__(
        self,
        shards: Callable[[], Sequence[Any]],
        read: Callable[[Any], Batches],
        project: Project,
        *,
        donated: Iterable[str],
        source: str,
        setting: str,
    ) -> None:
        require_histories(project.settings, project.schema)
        shape = shape_of(project.schema, project.settings.prepare)
        if shape.groups_rows:
            read = partial(_grouped, read=read, shape=shape, corpus=source)
        self._shards, self._read, self._project = shards, read, project
        self._source, self._setting = source, setting
        private_columns = project.settings.publication.private_columns
        refuse_private_columns(project.schema, project.settings.prepare, private_columns)
        self._inputs = PublicSources(
            project.settings, project.base, project.schema.shape, donated=donated
        )
        self._public = self._inputs.texts
        self.bounds = project.settings.contribution_bounds
        self.records_of_users: Mapping[str | None, int] = {}
        self.tally: Mapping[str, int] = {}
        self.fingerprint: tuple[str, ...] = ()

    def records(self) -> Iterator[Record]:
        """Yield all records, without a fingerprint."""
        for split in self.batches(fingerprint=False):
            for records in split.values():
                yield from records

    def batches(self, *, fingerprint: bool = True) -> Iterator[SplitRecords]:
        """Yield the records of each batch by their split. If `fingerprint` is false, no fingerprint
        is computed."""
        splitter = self._splitter(fingerprint=fingerprint)
        numbered, found = self._numbered(splitter, map_shards), list[_Findings]()
        for shard in numbered:
            yield from splitter.split(shard, found)
        self._finish(numbered, found)

    def write(self, files: PreparedFiles, map_shards: MapShards) -> PreparedDigests:
        """Write the records. `map_shards` runs the shards, and the files do not depend on it.
        Returns the digests of the records."""
        splitter = self._splitter(fingerprint=True)
        numbered = self._numbered(splitter, map_shards, files)
        found = map_shards(partial(splitter.write, files=files), numbered, _Findings.joined)
        self._finish(numbered, [found])
        digests = PreparedDigests(key_of(self._project))
        for shard in numbered:
            if (own := found.shards[shard.number].digests) is not None:
                digests.merge(own)
        return digests

    @property
    def public_inputs(self) -> str:
        """The digest of all settings and public texts that affect the private splits and codes."""
        project = self._project
        names = ("prepare", "extract_metadata", "embedding", "privacy.unit")
        return digest_of(
            settings=project.settings.changed_output_settings((*names, "privacy.records_per_user")),
            schema=project.schema.fields_for_private_results(),
            public=sorted(self._public),
        )

    def _splitter(self, *, fingerprint: bool) -> _ShardSplitter:
        project = self._project
        return _ShardSplitter(
            read=self._read,
            params=project.settings.prepare,
            schema=project.schema,
            bounds=self.bounds,
            source=self._source,
            setting=self._setting,
            key=key_of(project),
            public=frozenset(map(normalised, self._public)),
            public_texts=self._inputs.compared,
            fingerprint=fingerprint,
            of_0_2=fingerprint and has_fingerprint_of_0_2(project.state),
        )

    def _numbered(
        self, splitter: _ShardSplitter, map_shards: MapShards, files: PreparedFiles | None = None
    ) -> list[_NumberedShard]:
        """Return the shards, with the choice of their records if the unit is a user."""
        numbered = [_NumberedShard(number, shard) for number, shard in enumerate(self._shards())]
        if self.bounds.unit is not Unit.USER:
            return numbered
        bounder, facts = map_shards(partial(splitter.owners, files=files), numbered, _joined_owners)
        self._require_columns(numbered, facts)
        self.records_of_users, chosen = bounder.totals, bounder.chosen()
        return [_NumberedShard(each.number, each.shard, chosen[each.number]) for each in numbered]

    def _finish(self, numbered: Sequence[_NumberedShard], found: Sequence[_Findings]) -> None:
        """Raise the first error of the shards, and then the errors of the whole corpus."""
        params, totals, bad = self._project.settings.prepare, SplitTotals(), Counter[str]()
        facts = {number: own for findings in found for number, own in findings.shards.items()}
        self._require_columns(numbered, facts)
        files = {
            shard.shard.file: shard.shard
            for shard in numbered
            if isinstance(shard.shard, FileShard)
        }
        for last in files.values():
            last.require_unchanged()
        if not any(own.rows for own in facts.values()):
            raise InputError(f"{self._source}: has no rows (setting {self._setting})")
        notations = NotationsOfColumns()
        for own in facts.values():
            notations.merge(own.notations)
        require_decimal_signs(
            notations, self._project.schema, source=self._source, setting=self._setting
        )
        comparison = self._inputs.comparison()
        for findings in found:
            comparison.merge(findings.compared)
        comparison.refuse_overlap()
        for shard in numbered:
            totals.merge(facts[shard.number].totals)
            bad.update(facts[shard.number].bad)
            bad.update(facts[shard.number].omitted)
        bounded = self.bounds.unit is Unit.USER
        tally = totals.tally(params, source=self._source, bounded=bounded)
        self.tally = {**tally, **bad}
        states = [own.fingerprint for own in found if own.fingerprint is not None]
        if states:
            builder = FingerprintBuilder(
                key=key_of(self._project), of_0_2=has_fingerprint_of_0_2(self._project.state)
            )
            for state in states:
                builder.merge(state)
            self.fingerprint = builder.values()

    def _require_columns(
        self, numbered: Sequence[_NumberedShard], facts: Mapping[int, _ShardFacts]
    ) -> None:
        """Raise the first error in the order of the files and rows, also for a column that no
        record of a file has. Shards after an error may have no facts."""
        wanted = wanted_columns(self._project.settings.prepare, self._project.schema, private=True)
        for file, shards in groupby(numbered, lambda shard: getattr(shard.shard, "file", None)):
            missing = frozenset(wanted)
            for shard in shards:
                own = facts[shard.number]
                if own.error is not None:
                    raise own.error
                missing &= own.missing
            require_columns(str(file), wanted, wanted.keys() - missing)


def _grouped(shard: Any, *, read: Callable[[Any], Batches], shape: Shape, corpus: str) -> Batches:
    """Yield the joined rows of a shard with the name of the corpus. A row that cannot be joined has
    the name of its file."""
    source = ""

    def rows_of_files() -> Iterator[Row]:
        nonlocal source
        for source, rows in read(shard):  # noqa: B007 (the batches below name it)
            yield from rows

    rows = shape.grouped(rows_of_files())
    while batch := list(islice(rows, 1)):
        batch += islice(rows, BATCH_ROWS - 1) if not batch[0].problem else ()
        yield source if batch[0].problem else corpus, batch


def _joined_owners(
    one: tuple[ContributionBounder, dict[int, _ShardFacts]],
    other: tuple[ContributionBounder, dict[int, _ShardFacts]],
) -> tuple[ContributionBounder, dict[int, _ShardFacts]]:
    one[0].merge(other[0])
    return one[0], one[1] | other[1]


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


def _shard_batches(shard: FileShard, *, reading: Reading) -> Iterator[tuple[str, Sequence[Row]]]:
    for rows in shard_batches(shard, reading):
        yield str(shard.file), rows


def _whole_file(
    shard: Any, *, path: Source, settings: PrepareSettings, reading: Reading
) -> Batches:
    """Yield all rows, because the rows of a person may be anywhere."""
    return file_batches(path, settings, reading.wanted, all_columns=reading.all_columns)


def read_corpus(project: Project, *, engine: MapShards = map_shards) -> SplitCorpus:
    """Open the data file. The rows are read and split while the caller iterates over the shards.
    `engine` divides the file into shards."""
    settings = project.settings.prepare
    refuse_private_files(project.settings, project.base)
    path = source_of(project.base, settings.file, setting="prepare.file")
    reading = Reading(
        "prepare.file",
        wanted_columns(settings, project.schema, private=True),
        all_columns=shape_of(project.schema, settings).reads_all_columns,
        broken=True,
        options=settings.read_options,
    )
    shards: Callable[[], Sequence[Any]] = partial(
        file_shards, path, reading=reading, map_shards=engine
    )
    read: Callable[[Any], Batches] = partial(_shard_batches, reading=reading)
    if shape_of(project.schema, settings).groups_rows:
        shards = lambda: [0]  # noqa: E731
        read = partial(_whole_file, path=path, settings=settings, reading=reading)
    return SplitCorpus(
        shards,
        read,
        project,
        donated=project.inputs.donated_texts(),
        source=str(path),
        setting="prepare.file",
    )
