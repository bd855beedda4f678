"""Contains a project without files, with its corpus in memory, for `sugarbush.synthesize` and
research.

An in-memory project runs the same functions as the stages, with the same cache keys, and charges
the same ledger. Private texts stay in this process. The state folder contains finished results, the
ledger and received answers.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from sugarbush.attributes.donated import DonatedCodes, codes_of, read_donated_codes
from sugarbush.attributes.zero_shot import ZeroShotReader
from sugarbush.data.private_store import (
    CorpusInMemory,
    PreparedRecords,
    PrivateCorpus,
    RealTexts,
    codes_frame,
    records_of,
)
from sugarbush.data.reading import rows_of_frame
from sugarbush.data.records import donated_records, frame_of, wanted_columns
from sugarbush.data.schema import Schema
from sugarbush.data.split import private_frame
from sugarbush.deep_merge import deep_merge
from sugarbush.embedding.cache import EmbeddingCache, EmbeddingsInMemory
from sugarbush.embedding.encoder import Encoder
from sugarbush.errors import MissingInputError, ParamsError, PrivacyError
from sugarbush.evaluation.first_look import FirstLook
from sugarbush.evolution.targets import Donated
from sugarbush.pipeline.opening import open_project
from sugarbush.pipeline.plan import plan_of
from sugarbush.preparation.corpus import SplitCorpus
from sugarbush.preparation.findings import dropped_rows
from sugarbush.privacy.key import state_key
from sugarbush.privacy.results import digest_of
from sugarbush.privacy.settings import Purpose
from sugarbush.privacy.snapshots import Snapshots
from sugarbush.privacy.unit import Unit
from sugarbush.rehearsal.preflight import check_without_metadata
from sugarbush.rehearsal.rehearse import require_good_rehearsal
from sugarbush.run.context import Gate, Project
from sugarbush.run.records import folder_inputs, key_of, private_store, require_prepared
from sugarbush.run.settings import ProjectSettings, parse_params
from sugarbush.versions import EXTRACTION


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """A split private corpus in memory, with attribute codes and the embeddings computed so far.

    `sugarbush.prepare` returns a corpus for its `settings`. Several methods and budgets can use one
    corpus, so that each text is embedded once. `embeddings[True]` caches private texts.
    `embeddings[False]` caches public texts.
    """

    private: CorpusInMemory = field(repr=False)
    donated: DonatedCodes = field(repr=False)
    schema: Schema
    settings: ProjectSettings
    names: Mapping[str, str] = field(repr=False)
    state: Path
    embeddings: Mapping[bool, EmbeddingsInMemory] = field(repr=False)
    tally: Mapping[str, int] = field(default_factory=dict, repr=False)
    base: Path = Path()
    generators: dict[Any, Any] = field(default_factory=dict, repr=False)
    rehearsal: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def dropped(self) -> tuple[str, ...]:
        """Lines that say how many rows are not used, and why. The counts are exact and private."""
        return tuple(dropped_rows(self.tally))

    def real_texts(self, split: str) -> RealTexts:
        """Return the plain records of `train` or `heldout`. Results on these records are not DP."""
        return self.private.real_texts(self.schema.names, split=split)

    def encode(self, texts: Sequence[str], *, private: bool) -> NDArray[np.float32]:
        """Return unit vectors (n, d) of the texts, from the private or the public cache."""
        cache = self.embeddings[private]
        return Encoder(
            self.settings.embedding, cache=cache, private=private, shape=self.schema.shape
        ).encode(texts)


class MemoryInputs:
    """The inputs of a run on a corpus in memory."""

    def __init__(self, corpus: Corpus, settings: ProjectSettings) -> None:
        self._corpus, self._settings = corpus, settings
        self._scratch: Path | None = None
        self.look: FirstLook | None = None

    @property
    def schema(self) -> Schema:
        return self._corpus.schema

    @property
    def memory(self) -> dict[Any, Any]:
        memory: dict[Any, Any] = self._corpus.generators.setdefault(self._settings.embedding, {})
        return memory

    def records(self) -> PrivateCorpus:
        return self._corpus.private

    def names(self) -> dict[str, str]:
        return dict(self._corpus.names)

    def donated(self) -> Donated | None:
        found = self._corpus.donated
        return Donated(texts=found.texts, codes=found.codes) if found.texts else None

    def donated_texts(self) -> tuple[str, ...]:
        return self._corpus.donated.texts

    def examples(self) -> DonatedCodes:
        return self._corpus.donated

    def digest_of_examples(self) -> str:
        found = self._corpus.donated
        return digest_of(texts=found.texts, codes=found.codes.tolist())

    def readers(self) -> Mapping[str, ZeroShotReader]:
        return self._corpus.donated.readers

    def encoder(self, *, private: bool) -> Encoder:
        cache = self._corpus.embeddings[private]
        return Encoder(
            self._settings.embedding, cache=cache, private=private, shape=self.schema.shape
        )

    def paid_for(self) -> dict[str, Path]:
        """Return an empty map, because a program may save its releases anywhere."""
        return {}

    def keep_rehearsal(self, fields: Mapping[str, Any]) -> None:
        self._corpus.rehearsal.clear()
        self._corpus.rehearsal.update(fields)

    def kept_rehearsal(self) -> Any:
        return self._corpus.rehearsal

    @property
    def pretrained(self) -> Path:
        return self.scratch("pretrained")

    def scratch(self, name: str) -> Path:
        """Return a private folder for checkpoints. The folder is deleted with this object."""
        if self._scratch is None:
            self._scratch = Path(tempfile.mkdtemp(prefix="sugarbush-"))
            weakref.finalize(self, shutil.rmtree, self._scratch, ignore_errors=True)
        folder = self._scratch / name
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder

    def with_settings(self, settings: ProjectSettings, schema: Schema | None) -> MemoryInputs:
        corpus = self._corpus if schema is None else replace(self._corpus, schema=schema)
        return MemoryInputs(corpus, settings)


def project_in_memory(corpus: Corpus, settings: ProjectSettings, *, accept_poor: bool) -> Project:
    """Return the project of a corpus in memory. Relative public paths start at `corpus.base`."""

    def rehearse(project: Project) -> None:
        check_without_metadata(project)
        require_good_rehearsal(project, accept=accept_poor)

    return Project(
        corpus.base,
        settings,
        inputs=MemoryInputs(corpus, settings),
        gate=Gate(rehearse=rehearse, plan=plan_of),
        state=corpus.state,
    )


def with_assignments(settings: ProjectSettings, assignments: Sequence[str]) -> ProjectSettings:
    """Return settings with other values, such as seed=2."""
    fields = settings.model_dump(mode="json", by_alias=True, exclude_unset=True)
    for assignment in assignments:
        name, _, value = assignment.partition("=")
        change: Any = json.loads(value)
        for key in reversed(name.split(".")):
            change = {key: change}
        deep_merge(fields, change)
    return parse_params(fields)


def prepare_corpus(
    frame: pd.DataFrame,
    settings: ProjectSettings,
    schema: Schema,
    *,
    donated: pd.DataFrame | None,
    state: Path | None,
) -> Corpus:
    """Do the work of stages prepare and extract_metadata for the rows in `frame`."""
    project = open_project(Path(), settings=settings, schema=schema, state=state)
    donated_frame = _donated_frame(donated, settings, schema)
    wanted = wanted_columns(settings.prepare, schema, private=True)
    rows = rows_of_frame(frame, wanted=wanted)
    split_corpus = SplitCorpus(
        lambda: [0],
        lambda _: [("the frame", rows)],
        project,
        donated=tuple(donated_frame["text"]),
        source="the frame",
        setting="frame",
    )
    by_user = split_corpus.bounds.unit is Unit.USER
    (records,) = split_corpus.batches()
    prepared = {
        split: private_frame(own, schema, key=key_of(project), by_user=by_user)
        for split, own in records.items()
    }
    embeddings = {private: EmbeddingsInMemory() for private in (True, False)}
    examples = read_donated_codes(
        donated_frame,
        schema=schema,
        embed=Encoder(
            settings.embedding, cache=embeddings[False], private=False, shape=schema.shape
        ).encode,
        labeller=None,
        settings=settings.extract_metadata,
    )
    encoder = Encoder(settings.embedding, cache=embeddings[True], shape=schema.shape)

    def coded(records: PreparedRecords) -> NDArray[np.int64]:
        return codes_of(
            records,
            schema=schema,
            embed=encoder.encode,
            readers=examples.readers,
            labeller=None,
            settings=settings.extract_metadata,
        )

    codes = {
        split: codes_frame(coded(records_of(own)), schema.domain) for split, own in prepared.items()
    }
    own = CorpusInMemory(
        prepared, codes, fingerprint=split_corpus.fingerprint, bounds=split_corpus.bounds
    )
    return Corpus(
        private=own,
        donated=examples,
        schema=schema,
        settings=settings,
        names=_names(
            own, settings, state=project.state, what="frame", public=split_corpus.public_inputs
        ),
        state=project.state,
        embeddings=embeddings,
        tally=split_corpus.tally,
    )


def corpus_of_project(
    project: Project, *, limit: int | None = None, seed: int = 0, state: Path | None = None
) -> Corpus:
    """Load the corpus that a project's stages prepared. Each split has at most `limit` records.

    Its embeddings come from the project's caches. Raises MissingInputError, which names the stage
    to run first: prepare or extract_metadata. Raises ParamsError if the chosen methods use no
    attribute values, so that the project has none. Raises PrivacyError for a `limit` on private
    data: one record more would change about half of the chosen records.
    """
    if limit is not None and project.settings.privacy.purpose is Purpose.RELEASE:
        raise PrivacyError("a limit is only for public data (privacy.purpose: benchmark)")
    try:
        require_prepared(project)
        own = private_store(project).in_memory(limit=limit, seed=seed)
    except MissingInputError:
        if project.settings.reads_codes:
            raise
        raise ParamsError(
            "params.yaml: the chosen methods use no attribute values, so the project has none. To "
            "audit them, set audit.enabled: true and run the project again"
        ) from None
    donated = project.inputs.donated()
    no_codes = np.empty((0, len(project.schema.names)), dtype=np.int64)
    embeddings = {
        private: EmbeddingsInMemory(
            EmbeddingCache(folder_inputs(project).embedding_folder(private=private))
        )
        for private in (True, False)
    }
    return Corpus(
        private=own,
        donated=DonatedCodes(
            texts=donated.texts if donated else (),
            codes=donated.codes if donated else no_codes,
            readers={},
            agreements=(),
        ),
        schema=project.schema,
        settings=project.settings,
        names=project.inputs.names()
        if limit is None
        else _names(
            own,
            project.settings,
            state=project.state,
            what=f"{limit} of seed {seed}",
            public=digest_of(**project.inputs.names()),
        ),
        state=state or project.state,
        embeddings=embeddings,
        base=project.base,
    )


def _names(
    own: CorpusInMemory, settings: ProjectSettings, *, state: Path, what: str, public: str
) -> dict[str, str]:
    """Return random names of the texts and of their codes, for cache keys. `what` names the source
    of the texts. If `public` changes, the names change (`privacy.snapshots`)."""
    privacy = settings.privacy
    snapshots = Snapshots(state, f"{privacy.purpose}-{privacy.dataset}")
    digests = own.digests(key=state_key(state), by_user=privacy.unit is Unit.USER)
    public = digest_of(version=EXTRACTION, public=public)
    whole = snapshots.of(f"{what}: all", digest=digests["all"], public=public)
    return {
        name: snapshots.of(f"{what}: {name}", digest=digests[name], within=whole)
        for name in ("texts", "codes")
    }


def _donated_frame(
    donated: pd.DataFrame | None, settings: ProjectSettings, schema: Schema
) -> pd.DataFrame:
    if donated is None:
        return frame_of([], schema)
    wanted = wanted_columns(settings.prepare, schema, private=False)
    rows = rows_of_frame(donated, wanted=wanted, name="the donated frame")
    return donated_records(rows, settings.prepare, schema, source="the donated frame")
