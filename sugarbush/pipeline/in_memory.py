"""A project without files: a corpus in memory, for `sugarbush.synthesize` and for research.

It runs the same functions as the stages, with the same cache keys, and charges the same ledger.
Private texts stay in this process; finished results, the ledger and received answers go to the
state folder.
"""

from __future__ import annotations

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
from sugarbush.data.donated import donated_records, wanted_columns
from sugarbush.data.private_store import (
    HELDOUT,
    TRAIN,
    CorpusInMemory,
    PrivateCorpus,
    RealTexts,
    Records,
    codes_frame,
    records_of,
)
from sugarbush.data.reading import rows_of_frame
from sugarbush.data.records import frame_of, usable
from sugarbush.data.schema import Schema
from sugarbush.data.split import ContributionBounder, private_frame, split
from sugarbush.embedding.cache import EmbeddingCache, EmbeddingsInMemory
from sugarbush.embedding.encoder import Encoder
from sugarbush.evolution.initialisation import Donated
from sugarbush.generators.interface import GeneratorContext
from sugarbush.paths import state_root
from sugarbush.pipeline.project import Project
from sugarbush.pipeline.settings import ProjectSettings
from sugarbush.privacy.key import state_key
from sugarbush.privacy.ledger import make_dataset_fingerprint
from sugarbush.privacy.settings import Purpose
from sugarbush.privacy.unit import Unit


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """A private corpus in memory, split and coded, with the embeddings computed so far.

    Made by `sugarbush.prepare`. Several methods and budgets can use one corpus: texts are embedded
    once. `settings` are those that the corpus was prepared with.
    """

    private: CorpusInMemory = field(repr=False)
    donated: DonatedCodes = field(repr=False)
    schema: Schema
    settings: ProjectSettings
    digests: Mapping[str, str] = field(repr=False)
    state: Path
    private_embeddings: EmbeddingsInMemory = field(repr=False)
    public_embeddings: EmbeddingsInMemory = field(repr=False)
    base: Path = Path()
    generators: dict[Any, Any] = field(default_factory=dict, repr=False)

    def real_texts(self, part: str) -> RealTexts:
        """The records of part `train` or `heldout`, opened. What is computed on them is not DP."""
        return self.private.real_texts(self.schema.names, part=part)

    def encode(self, texts: Sequence[str], *, private: bool) -> NDArray[np.float32]:
        """Unit vectors (n, d) of the texts. `private` decides which cache stores them."""
        cache = self.private_embeddings if private else self.public_embeddings
        return Encoder(self.settings.embedding, cache=cache).encode(texts)


class InMemoryProject(Project):
    """A project with its corpus in memory. Relative paths of public files start at this folder."""

    def __init__(self, corpus: Corpus, settings: ProjectSettings) -> None:
        super().__init__(corpus.base, settings=settings)
        self._corpus = corpus
        self._scratch: Path | None = None
        self.__dict__ |= {"schema": corpus.schema, "state": corpus.state}

    @property
    def corpus(self) -> PrivateCorpus:
        return self._corpus.private

    def donated(self) -> Donated | None:
        found = self._corpus.donated
        return Donated(texts=found.texts, codes=found.codes) if found.texts else None

    def data_digests(self) -> dict[str, str]:
        return dict(self._corpus.digests)

    def encoder_named(self, name: str, *, private: bool) -> Encoder:
        corpus = self._corpus
        cache = corpus.private_embeddings if private else corpus.public_embeddings
        return Encoder(self.settings.embedding.model_copy(update={"model": name}), cache=cache)

    def generator_context(self, stage: str) -> GeneratorContext:
        memory = self._corpus.generators.setdefault(self.settings.embedding, {})
        return replace(super().generator_context(stage), memory=memory)

    @property
    def pretrained(self) -> Path:
        return self.scratch("pretrained")

    def scratch(self, name: str) -> Path:
        """A folder for checkpoints that only its owner may enter; it is deleted with this
        object."""
        if self._scratch is None:
            self._scratch = Path(tempfile.mkdtemp(prefix="sugarbush-"))
            weakref.finalize(self, shutil.rmtree, self._scratch, ignore_errors=True)
        folder = self._scratch / name
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder


def prepare_corpus(
    frame: pd.DataFrame,
    settings: ProjectSettings,
    schema: Schema,
    *,
    donated: pd.DataFrame | None,
    state: Path | None,
) -> Corpus:
    """Check, split and code the rows of `frame`, as the stages prepare and extract_metadata do."""
    state = state or state_root(Path(), example=settings.privacy.purpose is Purpose.EXAMPLE)
    key, prepare = state_key(state), settings.prepare
    donated_frame = _donated_frame(donated, settings, schema)
    rows = rows_of_frame(frame, wanted=wanted_columns(prepare, schema, private=True))
    records, _ = usable(rows, prepare, schema, source="the frame", setting="frame")
    by_user = settings.privacy.unit is Unit.USER
    parts = split(
        records,
        prepare,
        public=(
            *donated_frame["text"],
            *settings.generator.chosen.public_texts(Path()),
        ),
        source="the frame",
        bound=ContributionBounder(records=settings.privacy.records_per_user, key=key)
        if by_user
        else None,
    )
    prepared = {
        TRAIN: private_frame(parts.train, schema, key=key),
        HELDOUT: private_frame(parts.heldout, schema, key=key),
    }
    private, public = EmbeddingsInMemory(), EmbeddingsInMemory()
    examples = read_donated_codes(
        donated_frame,
        schema=schema,
        embed=Encoder(settings.embedding, cache=public).encode,
        labeller=None,
        settings=settings.extract_metadata,
    )
    encoder = Encoder(settings.embedding, cache=private)

    def coded(records: Records) -> NDArray[np.int64]:
        return codes_of(
            records,
            schema=schema,
            embed=encoder.encode,
            readers=examples.readers,
            labeller=None,
            settings=settings.extract_metadata,
        )

    codes = {
        part: codes_frame(coded(records_of(own)), schema.names) for part, own in prepared.items()
    }
    own = CorpusInMemory(
        prepared, codes, fingerprint=make_dataset_fingerprint(parts.known_by, key=key)
    )
    return Corpus(
        private=own,
        donated=examples,
        schema=schema,
        settings=settings,
        digests=own.digests(key=key, by_user=by_user),
        state=state,
        private_embeddings=private,
        public_embeddings=public,
    )


def corpus_of_project(
    project: Project, *, limit: int | None = None, seed: int = 0, state: Path | None = None
) -> Corpus:
    """The corpus that a project's stages prepared, in memory; at most `limit` records of a part.

    Its embeddings come from the project's caches. Raises MissingInputError that names the stage
    to run first: prepare or extract_metadata.
    """
    own = project.private.in_memory(limit=limit, seed=seed)
    donated = project.donated()
    no_codes = np.empty((0, len(project.schema.names)), dtype=np.int64)
    caches = {
        private: EmbeddingsInMemory(EmbeddingCache(project.embedding_folder(private=private)))
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
        digests=own.digests(key=project.key, by_user=project.settings.privacy.unit is Unit.USER),
        state=state or project.state,
        private_embeddings=caches[True],
        public_embeddings=caches[False],
        base=project.base,
    )


def _donated_frame(
    donated: pd.DataFrame | None, settings: ProjectSettings, schema: Schema
) -> pd.DataFrame:
    if donated is None:
        return frame_of([], schema)
    wanted = wanted_columns(settings.prepare, schema, private=False)
    rows = rows_of_frame(donated, wanted=wanted)
    return donated_records(rows, settings.prepare, schema, source="the donated frame")


def project_settings(
    sections: Mapping[str, Any], overrides: Mapping[str, Any] | None
) -> ProjectSettings:
    """Settings from the API's arguments, with the caller's own settings merged into them."""
    from sugarbush.deep_merge import deep_merge
    from sugarbush.pipeline.settings import parse_params

    fields: dict[str, Any] = {}
    deep_merge(fields, sections)
    deep_merge(fields, dict(overrides or {}))
    return parse_params(fields, source="settings")
