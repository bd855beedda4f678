"""Where the records, the public examples and the embeddings of a run are: a folder, or memory.

A stage of a project reads them from files. `sugarbush.synthesize` has them in memory. All other
code is the same for both.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from sugarbush.data.private_store import PrivateCorpus, PrivateStore, read_stamp
from sugarbush.data.reading import digest_of_files
from sugarbush.data.schema import Schema, load_schema, parse_schema
from sugarbush.data.settings import is_in_example
from sugarbush.evaluation.first_look import FirstLook
from sugarbush.evolution.targets import Donated
from sugarbush.paths import Roots, atomic_file, checkout_root, find_input
from sugarbush.privacy.settings import Purpose
from sugarbush.release.folders import charges_of_releases, load_donated
from sugarbush.run.settings import ProjectSettings

if TYPE_CHECKING:  # slow imports
    import pandas as pd

    from sugarbush.attributes.donated import DonatedCodes
    from sugarbush.attributes.zero_shot import ZeroShotReader
    from sugarbush.data.shapes.interface import Shape
    from sugarbush.embedding.encoder import Encoder


class RunInputs(Protocol):
    """The records and the public examples of one run.

    `look` is the first look, or None before it is drawn. `memory` is what a generator may keep
    between calls of one process, or None if nothing outlives a call.
    """

    look: FirstLook | None

    @property
    def schema(self) -> Schema: ...

    @property
    def memory(self) -> dict[Any, Any] | None: ...

    @property
    def pretrained(self) -> Path:
        """The folder of the small models that training starts from."""

    def records(self) -> PrivateCorpus:
        """Return the private records."""

    def names(self) -> dict[str, str]:
        """Return the random names of the private texts and of their codes, for cache keys."""

    def donated(self) -> Donated | None:
        """Return the donated examples with their codes, or None without donated examples."""

    def donated_texts(self) -> tuple[str, ...]:
        """Return the texts of the donated examples."""

    def examples(self) -> DonatedCodes:
        """Read the donated examples and their attributes, without a call to a model.

        Attributes with `source: llm` come from the labels in the file.
        """

    def digest_of_examples(self) -> str:
        """Return a digest of the donated examples."""

    def readers(self) -> Mapping[str, ZeroShotReader]:
        """Return the calibrated zero-shot readers by attribute."""

    def encoder(self, *, private: bool) -> Encoder:
        """Return the encoder. Embeddings of private texts have a cache of their own."""

    def scratch(self, name: str) -> Path:
        """Return a private folder for checkpoints."""

    def paid_for(self) -> dict[str, Path]:
        """Return the charges in released folders of the dataset, by ledger id."""

    def keep_rehearsal(self, fields: Mapping[str, Any]) -> None:
        """Store the last rehearsal. Everything in it is public."""

    def kept_rehearsal(self) -> Any:
        """Return the fields of the last rehearsal, or an empty mapping."""

    def with_settings(self, settings: ProjectSettings, schema: Schema | None) -> RunInputs:
        """Return the same inputs for other settings, and for another schema if one is given."""


class FolderInputs:
    """The inputs of a project in a folder, as its stages left them."""

    memory: dict[Any, Any] | None = None

    def __init__(
        self, base: Path, settings: ProjectSettings, *, schema: Schema | None = None
    ) -> None:
        self._base, self._settings, self._schema = base, settings, schema
        self._roots = Roots(base)

    @cached_property
    def schema(self) -> Schema:
        """The schema. That of the example is known before the first run has written it."""
        if self._schema is not None:
            return self._schema
        name = self._settings.prepare.schema_
        path = find_input(self._base, name)
        if is_in_example(name) and not path.exists():
            from sugarbush.examples.embedded import schema_files

            if (content := schema_files().get(path.name)) is not None:
                return parse_schema(content, path)
        return load_schema(path)

    @property
    def look(self) -> FirstLook | None:
        return self._look

    @look.setter
    def look(self, look: FirstLook | None) -> None:
        self.__dict__["_look"] = look

    @cached_property
    def _look(self) -> FirstLook | None:
        path = self._roots.released / "look" / "look.json"
        return FirstLook.from_json(path.read_text(encoding="utf-8")) if path.exists() else None

    @property
    def store(self) -> PrivateStore:
        from sugarbush.run.cluster import engine

        return PrivateStore(self._roots.private, map_shards=engine(self._settings.run.cluster))

    def records(self) -> PrivateCorpus:
        return self.store

    def names(self) -> dict[str, str]:
        return {
            "texts": self._stamp("train_texts", left_by="prepare"),
            "codes": self._stamp("train_codes", left_by="extract_metadata"),
        }

    def _stamp(self, name: str, *, left_by: str) -> str:
        return read_stamp(self._roots.stamps / f"{name}.json", left_by=left_by)

    def donated(self) -> Donated | None:
        return load_donated(self._roots, self.schema)

    def donated_texts(self) -> tuple[str, ...]:
        return tuple(self.read_donated_file()["text"])

    def read_donated_file(self) -> pd.DataFrame:
        """Read the donated examples. Without donated examples, the frame is empty."""
        from sugarbush.data.reading import read_rows
        from sugarbush.data.records import donated_records, frame_of, wanted_columns

        settings, schema = self._settings.prepare, self.schema
        if settings.donated is None:
            return frame_of([], schema)
        path = find_input(self._base, settings.donated)
        wanted = wanted_columns(settings, schema, private=False)
        rows = read_rows(path, setting="prepare.donated", wanted=wanted, all_columns=True)
        return donated_records(rows, settings, schema, source=str(path))

    def examples(self) -> DonatedCodes:
        from sugarbush.attributes.donated import GivenLabels, read_donated_codes  # slow imports
        from sugarbush.data.private_store import labels_of

        frame, schema = self.read_donated_file(), self.schema
        return read_donated_codes(
            frame,
            schema=schema,
            embed=self.encoder(private=False).encode,
            labeller=GivenLabels(labels_of(frame)) if schema.asked_of_llm else None,
            settings=self._settings.extract_metadata,
        )

    def digest_of_examples(self) -> str:
        file = self._settings.prepare.donated
        files = [] if file is None else [file]
        return digest_of_files(self._base, files, setting="prepare.donated").hex()

    def readers(self) -> Mapping[str, ZeroShotReader]:
        from sugarbush.attributes.donated import load_readers

        embed = self.encoder(private=False).encode
        return load_readers(self._roots.public / "donated", self.schema, embed=embed)

    def encoder(self, *, private: bool) -> Encoder:
        """Return the encoder. Private embeddings are cached under data/private only."""
        from sugarbush.embedding.cache import EmbeddingCache
        from sugarbush.embedding.encoder import Encoder

        cache = EmbeddingCache(self.embedding_folder(private=private))
        return Encoder(self._settings.embedding, cache=cache, private=private, shape=self._shape)

    @property
    def _shape(self) -> Shape | None:
        """The shape of a record, or None before `sugarbush init` has written a schema."""
        name = self._settings.prepare.schema_
        if self._schema is None and not find_input(self._base, name).exists():
            return None if not is_in_example(name) else self.schema.shape
        return self.schema.shape

    def embedding_folder(self, *, private: bool) -> Path:
        """Return the folder of the cache of embeddings."""
        if private:
            return self.store.folder("embeddings")
        return self._base / ".cache" / "embeddings"

    @property
    def pretrained(self) -> Path:
        return self._roots.public / "pretrained"

    def scratch(self, name: str) -> Path:
        return self.store.folder(name)

    def paid_for(self) -> dict[str, Path]:
        """Return the charges in released folders of the dataset. The example has no such charges,
        because its state may be deleted."""
        privacy = self._settings.privacy
        if privacy.purpose is Purpose.EXAMPLE:
            return {}
        return charges_of_releases(self._roots, privacy)

    def keep_rehearsal(self, fields: Mapping[str, Any]) -> None:
        with atomic_file(rehearsal_file(self._base)) as path:
            path.write_text(json.dumps(fields, indent=1) + "\n")

    def kept_rehearsal(self) -> Any:
        try:
            return json.loads(rehearsal_file(self._base).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}

    def with_settings(self, settings: ProjectSettings, schema: Schema | None) -> FolderInputs:
        return FolderInputs(self._base, settings, schema=schema or self._schema)


def rehearsal_file(base: Path) -> Path:
    """Return the file of a project's last rehearsal. Everything in it is public.

    The copy of a DVC experiment uses the file of its checkout.
    """
    return checkout_root(base) / ".cache" / "rehearsal.json"


def label_answers(base: Path) -> Path:
    """Return the private folder with an endpoint's answers about private texts. The folder may be
    missing. The copy of a DVC experiment uses the checkout's folder, because its answers are
    already paid."""
    return PrivateStore(Roots(checkout_root(base)).private).labels
