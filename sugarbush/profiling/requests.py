"""Draws or restores the DP profile of a project's private file, or of a frame."""

from __future__ import annotations

import hmac
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sugarbush import versions
from sugarbush.attributes.placeholders import SUBJECT, TONE
from sugarbush.data.private_columns import (
    PRIVATE,
    private_name,
    private_names,
    refuse_private_columns,
)
from sugarbush.data.private_store import TRAIN, digest_of_frame
from sugarbush.data.reading import (
    Row,
    column_names,
    digest_of_source,
    reads_keys,
    require_column,
    rows_of_frame,
)
from sugarbush.data.records import Record, donated_records, shape_of, wanted_columns
from sugarbush.data.remote import Source, source_of
from sugarbush.data.schema import Schema, UnlistedColumn, load_schema
from sugarbush.data.shapes.declaration import TextForm
from sugarbush.data.shapes.interface import Shape
from sugarbush.data.table_digest import keyed_digest
from sugarbush.embedding.cache import EmbeddingsInMemory
from sugarbush.embedding.encoder import Encoder
from sugarbush.errors import BudgetExceededError, ParamsError
from sugarbush.methods.plan import plan_beside
from sugarbush.paths import atomic_directory, find_input
from sugarbush.preparation.corpus import SplitCorpus, file_batches
from sugarbush.preparation.public_texts import refuse_private_files
from sugarbush.privacy.accounting import rounded_up
from sugarbush.privacy.events import Event, ThresholdedGaussian
from sugarbush.privacy.ledger import PROFILE, Ledger
from sugarbush.privacy.results import ResultStore
from sugarbush.privacy.session import PrivacySession
from sugarbush.privacy.unit import Unit
from sugarbush.profiling.contributions import Contributions, Reader
from sugarbush.profiling.layout import measures_of
from sugarbush.profiling.measure import draw_profile
from sugarbush.profiling.plan import ProfilePlan, plan_profile
from sugarbush.profiling.release import ReleasedProfile
from sugarbush.profiling.topics import topics_of
from sugarbush.progress import progress, working
from sugarbush.release.folders import write_release
from sugarbush.run.context import Project
from sugarbush.run.ledgers import open_store
from sugarbush.run.records import key_of, snapshots_of
from sugarbush.run.settings import ProjectSettings

if TYPE_CHECKING:
    import pandas as pd

STAGE: Final = PROFILE
MOST_COLUMNS: Final = 20
_PLAN = "plan.json"
_BLOCK: Final = 500  # records between two steps of the progress
_Batches = Iterable[tuple[str, Sequence[Row]]]


@dataclass(frozen=True, kw_only=True)
class ProfileRequest:
    """A request for the profile of a private table.

    `batches` returns the rows of the table with the name of their source, `digest` a digest of its
    content, `donated` the donated texts, and `encoder` that of the released terms. `columns` are
    the columns whose values are counted. `form` declares the shape of a record; None means one
    string. The profile is written to `folder`, if there is one.
    `characters` is about the number of characters of all texts, for the progress; 0 if unknown.
    """

    project: Project
    columns: tuple[str, ...]
    batches: Callable[[], _Batches]
    digest: Callable[[], bytes]
    donated: Callable[[], tuple[str, ...]]
    encoder: Callable[[], Encoder]
    source: str
    folder: Path | None
    characters: int
    form: TextForm | None = None

    @property
    def _shape(self) -> Shape | None:
        return None if self.form is None else self.form.shape

    def release(self, *, forced: bool = False) -> ReleasedProfile:
        """Draw the profile, or restore a finished one. A finished mechanism is never drawn again.

        Raises BudgetExceededError, before anything is read, if the cap does not allow the profile
        together with a run. Raises InputError for a file that stage prepare would refuse.
        """
        with working("profile of the records"):
            return self._released(forced=forced)

    def _released(self, *, forced: bool) -> ReleasedProfile:
        project, ledger = self.project, self.project.ledger(rehearse=False)
        with open_store(project, STAGE, self._key(), forced=forced) as store:
            plan = self._plan(store, ledger)
            missing = [name for name in plan.events if store.finished(name) is None]
            if _needs_new_slack(plan, missing, ledger, run=store.run):
                plan = plan.again(missing, slack=ledger.next_slack())
            waiting = [plan.events[name] for name in missing]
            if missing:
                self._require_cap(ledger, plan, waiting)
                contributions, fingerprint = self._read()
            else:
                contributions, fingerprint = self._reader().contributions(), ()
            session = PrivacySession(
                ledger=ledger,
                stage=STAGE,
                run=store.run,
                dataset_fingerprint=fingerprint,
                plan=plan.planned,
            )
            session.check(waiting)
            profile = draw_profile(
                contributions,
                plan,
                self.columns,
                store=store,
                session=session,
                check_count=project.settings.privacy.check_delta,
                measures=measures_of(self._shape),
            )
            run = store.run
        profile = replace(
            profile, topics=topics_of(profile, embed=lambda texts: self.encoder().encode(texts))
        )
        self._save(profile, ledger, run=run)
        return profile

    def _save(self, profile: ReleasedProfile, ledger: Ledger, *, run: str) -> None:
        if self.folder is None:
            return
        with atomic_directory(self.folder) as folder:
            profile.save(folder)
            write_release(
                folder,
                stage=STAGE,
                privacy=self.project.settings.privacy,
                ledger_ids=profile.ledger_ids,
                run=run,
                ledger=ledger,
            )

    def _key(self) -> dict[str, object]:
        project = self.project
        settings = project.settings
        keyed = hmac.digest(key_of(project), b"profile" + self.digest(), "sha256").hex()
        return {
            "version": versions.PROFILE,
            "corpus": snapshots_of(project).of("profile", digest=keyed),
            "columns": list(self.columns),
            "epsilon": settings.profile.epsilon,
            "privacy": [settings.privacy.unit.value, settings.privacy.delta],
            "settings": settings.changed_output_settings(("prepare",)),
            # the numbers that prompts request change no profile
            **({} if self.form is None else {"text": self.form.without_lengths.model_dump()}),
        }

    def _reader(self) -> Reader:
        """Return a reader that has read no record."""
        project = self.project
        by_user = project.settings.privacy.unit is Unit.USER
        return Reader(self.columns, by_user=by_user, key=key_of(project), shape=self._shape)

    def _plan(self, store: ResultStore, ledger: Ledger) -> ProfilePlan:
        """Return the stored plan of an interrupted profile, or make and store a plan."""
        settings = self.project.settings

        def write(folder: Path) -> Sequence[str]:
            plan = plan_profile(
                epsilon=settings.profile.epsilon,
                delta=settings.privacy.delta,
                slack=ledger.next_slack(),
                columns=len(self.columns),
                by_user=settings.privacy.unit is Unit.USER,
                measures=measures_of(self._shape),
            )
            (folder / _PLAN).write_text(plan.to_json())
            return ()

        return ProfilePlan.from_json((store.drawn("plan", write).value / _PLAN).read_text())

    def _require_cap(self, ledger: Ledger, plan: ProfilePlan, waiting: Sequence[Event]) -> None:
        """Raise BudgetExceededError if the cap does not allow the profile and one run with it."""
        settings = self.project.settings
        profile, charged = (waiting, plan.planned), ledger.profiles()
        run = plan_beside(
            settings.privacy,
            settings.chosen,
            total=lambda other: ledger.epsilon_with(charged, profile, (other.events, other)),
        )
        before, after = ledger.total(), ledger.total_with(profile)
        whole = ledger.total_with(profile, (run.planned.events, run.planned))
        if max(after, whole) > ledger.cap:
            raise BudgetExceededError(
                f"a profile needs epsilon {rounded_up(plan.epsilon)}, and it and a run together "
                f"{rounded_up(settings.privacy.epsilon)} (privacy.epsilon). With "
                f"{rounded_up(before)} spent, dataset '{ledger.dataset}' would come to "
                f"{rounded_up(after)} after the profile and {rounded_up(whole)} after the run, "
                f"above its cap {rounded_up(ledger.cap)}. Nothing was spent. Lower profile.epsilon "
                "or privacy.epsilon, or raise privacy.cap if you are allowed to"
            )

    def _read(self) -> tuple[Contributions, tuple[str, ...]]:
        """Read the training records, one of each user, and the fingerprint of the corpus."""
        project = _one_record_per_user(self.project, self.columns, self.form)
        by_user = project.settings.privacy.unit is Unit.USER
        corpus = SplitCorpus(
            lambda: [0],
            lambda _: self.batches(),
            project,
            donated=self.donated(),
            source=self.source,
            setting="prepare.file",
        )
        reader = self._reader()
        shown = progress(self.characters, what="profile", private=True)
        with shown if self.characters else nullcontext(_no_progress) as advance:
            for split in corpus.batches():
                counts = corpus.records_of_users
                for block in _blocks(split[TRAIN]):
                    own = {r.user: counts[r.user] for r in block if r.user} if by_user else None
                    reader.read(block, of_user=own)
                    advance(sum(len(record.text) for record in block))
        return reader.contributions(), corpus.fingerprint


def _no_progress(done: int = 1, note: str = "") -> None:
    """Show nothing, because the size of the source is unknown."""


def _size(source: Source) -> int:
    """Return the bytes of a local file, or 0."""
    return source.stat().st_size if isinstance(source, Path) and source.is_file() else 0


def _needs_new_slack(
    plan: ProfilePlan, missing: Sequence[str], ledger: Ledger, *, run: str
) -> bool:
    """Return whether the missing mechanisms of an interrupted profile need a separate plan.

    Either a draw was lost: its mechanism was charged, but has no result. Or another plan has taken
    the slack of the stored plan before this run charged a set.
    """
    charged = Counter(entry.event for entry in ledger.entries() if entry.run == run)
    finished = Counter(event for name, event in plan.events.items() if name not in missing)
    lost = charged - finished  # several mechanisms have equal events
    if any(plan.events[name] in lost for name in missing):
        return True
    has_slack = any(isinstance(event, ThresholdedGaussian) for event in charged)
    return not has_slack and plan.deltas(missing) > ledger.next_slack()


def _blocks(records: Sequence[Record]) -> Iterator[Sequence[Record]]:
    for start in range(0, len(records), _BLOCK):
        yield records[start : start + _BLOCK]


def _one_record_per_user(
    project: Project, columns: Sequence[str], form: TextForm | None
) -> Project:
    """Return the project with a schema that reads the columns as they are, one record per user,
    and no minimum number of records."""
    settings = project.settings
    changed = settings.model_copy(
        update={
            "privacy": settings.privacy.model_copy(update={"records_per_user": 1}),
            "prepare": settings.prepare.model_copy(update={"min_records": 2}),
        }
    )
    attributes = [
        UnlistedColumn(name=f"column_{number}", column=column)
        for number, column in enumerate(columns)
    ]
    schema = Schema(subject=SUBJECT, attributes=tuple(attributes) or (TONE,), text=form)
    return project.with_settings(changed, schema=schema)


def _without_columns(form: TextForm | None) -> Schema:
    """Return a schema that reads the text alone."""
    return Schema(subject=SUBJECT, attributes=(TONE,), text=form)


def _donated_texts(project: Project, form: TextForm | None) -> tuple[str, ...]:
    """Return the donated texts. The columns of the private file may be missing in their file."""
    other = project.with_settings(project.settings, schema=_without_columns(form))
    return other.inputs.donated_texts()


def form_of_project(project: Project) -> TextForm | None:
    """Return the shape of a record that the project's schema declares.

    A project that needs a profile may have no schema. Raises SchemaError for one with mistakes.
    """
    path = find_input(project.base, project.settings.prepare.schema_)
    return load_schema(path).text if path.exists() else None


def profile_of_project(project: Project, *, forced: bool = False) -> ReleasedProfile:
    """Draw or restore the profile of `prepare.file`, and write data/released/profile."""
    settings = project.settings
    form = form_of_project(project)
    schema = _without_columns(form)
    shape = shape_of(schema, settings.prepare)
    refuse_private_columns(schema, settings.prepare, settings.publication.private_columns)
    refuse_private_files(project.settings, project.base)
    path = source_of(project.base, settings.prepare.file, setting="prepare.file")
    columns = profiled_columns(settings, base=project.base, shape=shape)
    wanted = {name: "profile.columns" for name in columns if not shape.is_computed(name)}
    wanted |= wanted_columns(settings.prepare, schema, private=True)
    every = dict(wanted)
    if shape.reads_all_columns:  # the digest of a database needs the columns' names
        every |= dict.fromkeys(shape.types, "text.json_schema of the schema")

    return ProfileRequest(
        project=project,
        columns=columns,
        batches=lambda: file_batches(
            path, settings.prepare, wanted, all_columns=shape.reads_all_columns
        ),
        digest=lambda: digest_of_source(
            path, setting="prepare.file", wanted=every, options=settings.prepare.read_options
        ),
        donated=lambda: _donated_texts(project, form),
        encoder=lambda: project.inputs.encoder(private=False),
        source=str(path),
        folder=project.roots.released / STAGE,
        characters=_size(path),
        form=form,
    ).release(forced=forced)


def _texts_of_frame(
    donated: pd.DataFrame, settings: ProjectSettings, schema: Schema
) -> tuple[str, ...]:
    rows = rows_of_frame(donated, wanted=shape_of(schema, settings.prepare).columns)
    return tuple(donated_records(rows, settings.prepare, schema, source="donated")["text"])


def profile_of_frame(
    project: Project,
    frame: pd.DataFrame,
    *,
    columns: tuple[str, ...],
    donated: pd.DataFrame | None,
    forced: bool = False,
    form: TextForm | None = None,
) -> tuple[ReleasedProfile, Ledger]:
    """Draw or restore the profile of a frame, and return it with the ledger that it charged.

    Nothing is written except in the state folder.
    """
    settings = project.settings
    _refuse_many(columns, "the frame", advice="the argument `columns`")
    plain = _without_columns(form)
    shape = shape_of(plain, settings.prepare)
    refuse_private_columns(plain, settings.prepare, settings.publication.private_columns)
    for column in shape.columns:
        require_column(frame, column, asked_by="text")
    for column in columns:
        if not shape.is_computed(column):
            require_column(frame, column, asked_by="columns")
    wanted = {name: "columns" for name in columns if not shape.is_computed(name)} | dict(
        wanted_columns(settings.prepare, plain, private=True)
    )
    read = [str(name) for name in frame.columns if name in {*wanted, *shape.types}]
    rows = rows_of_frame(frame[read], wanted=wanted)
    texts = () if donated is None else _texts_of_frame(donated, settings, plain)

    def digest() -> bytes:
        table = digest_of_frame(frame, key=key_of(project), columns=read)
        return keyed_digest([table], key=key_of(project)).encode()

    profile = ProfileRequest(
        project=project,
        columns=columns,
        batches=lambda: [("the frame", rows)],
        digest=digest,
        donated=lambda: texts,
        encoder=lambda: Encoder(settings.embedding, cache=EmbeddingsInMemory()),
        source="the frame",
        folder=None,
        characters=sum(int(frame[c].astype(str).str.len().sum()) for c in shape.columns),
        form=form,
    ).release(forced=forced)
    return profile, project.ledger(rehearse=False)


def profiled_columns(settings: ProjectSettings, *, base: Path, shape: Shape) -> tuple[str, ...]:
    """Return the columns to count: `profile.columns`, or those in the header of the file that
    contain no part of a text.

    A key of a jsonl record may be private, so such columns must be named. Raises ParamsError if
    there are too many.
    """
    prepare = settings.prepare
    texts = {*shape.columns, *shape.types, *shape.text_columns}
    others = {*shape.columns, *shape.text_columns}
    private = private_names(prepare, settings.publication.private_columns)
    named = settings.profile.columns
    if named is None:
        path = source_of(base, prepare.file, setting="prepare.file")
        names = (
            ()
            if reads_keys(path)
            else column_names(
                path,
                required=shape.columns,
                setting="prepare.file",
                options=prepare.read_options,
            )
        )
        columns = (
            tuple(
                name
                for name in names
                if name not in others
                and private_name(name, private) is None
                and texts.isdisjoint({name, name.partition(".")[0]})
            )
            + shape.computed_columns
        )
        what = "the header of the file"
    else:
        columns, what = tuple(dict.fromkeys(named)), "profile.columns"
        refuse_uncounted(columns, others, private, setting="profile.columns")
    _refuse_many(columns, what, advice="profile.columns, or --columns of `sugarbush init`")
    return columns


def refuse_uncounted(
    columns: Iterable[str], texts: Collection[str], private: Mapping[str, str], *, setting: str
) -> None:
    """Raise ParamsError if a column contains texts, or a private column overlaps it."""
    for name in columns:
        if name in texts or private_name(name, private) is not None:
            raise ParamsError(
                f"{setting}: '{name}' is the column of the texts, ids or users, or one of "
                f"{PRIVATE}, or contains one. Their values are never counted. Leave it out"
            )


def _refuse_many(columns: Sequence[str], what: str, *, advice: str) -> None:
    if len(columns) > MOST_COLUMNS:
        raise ParamsError(
            f"{what} names {len(columns)} columns, and a profile describes at most {MOST_COLUMNS}, "
            f"because more columns need more noise. Name the ones that matter: {advice}"
        )
