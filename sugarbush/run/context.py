"""Opens a project: the folder with params.yaml, and everything that its settings name.

A stage receives a `Project`. The project opens the ledger, the stores, the encoders and the
generator.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sugarbush.data.lengths import lengths_of
from sugarbush.data.private_store import PrivateCorpus, PrivateStore, read_stamp, write_stamp
from sugarbush.data.reading import digest_of_files
from sugarbush.data.schema import Schema, load_schema, parse_schema
from sugarbush.data.settings import is_in_example
from sugarbush.errors import ParamsError, printable
from sugarbush.evaluation.figures_plan import figure_requests
from sugarbush.evaluation.first_look import (
    CENTRE,
    FIT,
    KINDS,
    LENGTHS,
    STYLE,
    FirstLook,
    look_requests,
)
from sugarbush.evolution.inputs import MetadataRelease, PublicInputs
from sugarbush.evolution.settings import FirstLength
from sugarbush.evolution.targets import Donated
from sugarbush.evolution.writer import Writer
from sugarbush.generators.interface import Generator, GeneratorContext, GeneratorSettings
from sugarbush.generators.shaped import in_shape
from sugarbush.methods.interface import Method, MethodInputs, PrivateInputs, Tools
from sugarbush.methods.plan import plan_beside, plan_for
from sugarbush.paths import Roots, atomic_file, checkout_root, find_input, make_private, state_root
from sugarbush.pipeline.foreign_releases import refuse_foreign_folders, refuse_foreign_lock
from sugarbush.pipeline.graph import stage_named
from sugarbush.privacy.accounting import rounded_up
from sugarbush.privacy.budget import BudgetPlan, BudgetRequest
from sugarbush.privacy.key import random_id, state_key
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.reservation import Reservation
from sugarbush.privacy.results import ResultStore, digest_of, open_result_store
from sugarbush.privacy.settings import Purpose
from sugarbush.privacy.snapshots import Snapshots
from sugarbush.progress import working
from sugarbush.release.folders import charges_of_releases, load_donated
from sugarbush.run.settings import FILE, ProjectSettings, dataset_name, load_params
from sugarbush.run.usable_inputs import require_packages, require_usable_inputs
from sugarbush.versions import EXTRACTION

if TYPE_CHECKING:  # slow imports
    import pandas as pd

    from sugarbush.attributes.donated import DonatedCodes
    from sugarbush.attributes.llm_labels import Labeller
    from sugarbush.attributes.reader import LabelReader
    from sugarbush.attributes.zero_shot import ZeroShotReader
    from sugarbush.embedding.encoder import Encoder

PUBLIC_STAMPS = ("schema", "donated", "pool")  # stamp files with digests of public files


def rehearsal_file(base: Path) -> Path:
    """Return the file of a project's last rehearsal. Everything in it is public.

    The copy of a DVC experiment uses the file of its checkout.
    """
    return checkout_root(base) / ".cache" / "rehearsal.json"


def _print(line: str) -> None:
    print(line, flush=True)


class Project:
    """The project in `base`. Reading a wrong file raises ParamsError, SchemaError or InputError.

    `rehearse` judges the generator's first texts before the first charge of this process, and
    raises an error if they are not good enough. `open_project` opens a project with the rehearsal
    of a stage.
    """

    def __init__(
        self,
        base: Path,
        *,
        settings: ProjectSettings | None = None,
        rehearse: Callable[[Project], object],
    ) -> None:
        self.base = base
        self._rehearse = rehearse
        self.roots = Roots(base)
        self.reservation: Reservation | None = None
        self._rehearsed = False
        if settings is not None:
            self.__dict__["settings"] = settings

    def with_settings(self, settings: ProjectSettings) -> Project:
        """Return a project in the same folder with other settings, and the same state folder."""
        project = Project(self.base, settings=settings, rehearse=self._rehearse)
        project.__dict__["state"] = self.state
        return project

    @cached_property
    def settings(self) -> ProjectSettings:
        return load_params(self.base / FILE)

    @cached_property
    def schema(self) -> Schema:
        """The schema. That of the example is known before the first run has written it."""
        path = self.find(self.settings.prepare.schema_)
        if is_in_example(self.settings.prepare.schema_) and not path.exists():
            from sugarbush.examples.corpus import schema_files

            if (content := schema_files().get(path.name)) is not None:
                return parse_schema(content, path)
        return load_schema(path)

    @cached_property
    def state(self) -> Path:
        """The state folder, with ledgers, key, finished results and received answers."""
        return state_root(self.base, example=self.settings.privacy.purpose is Purpose.EXAMPLE)

    @property
    def key(self) -> bytes:
        return state_key(self.state)

    @property
    def private(self) -> PrivateStore:
        from sugarbush.run.cluster import engine

        return PrivateStore(self.roots.private, map_parts=engine(self.settings.run.cluster))

    @property
    def corpus(self) -> PrivateCorpus:
        """The private records. Raises PrivacyError as `require_prepared` does."""
        self.require_prepared()
        return self._records()

    def require_prepared(self) -> None:
        """Raise PrivacyError if the records were prepared for another unit, user column or number
        of records per user than the settings say."""
        self._records().bounds().require(self.settings.contribution_bounds)

    def require_packages(self) -> None:
        """Raise ParamsError if an optional package that a run needs is missing."""
        require_packages(self.settings, self.base)

    def require_usable_inputs(self) -> None:
        """Raise ParamsError or SchemaError if a package is missing, or if no release can be good
        with the generator and the schema."""
        self.require_packages()
        path = self.find(self.settings.prepare.schema_)
        require_usable_inputs(self.settings, self.schema, source=str(path))

    def _records(self) -> PrivateCorpus:
        return self.private

    def donated(self) -> Donated | None:
        """Return the donated examples with their codes, or None without donated examples."""
        return load_donated(self.roots, self.schema)

    def donated_texts(self) -> tuple[str, ...]:
        """Return the texts of the donated examples."""
        return tuple(self.read_donated_file()["text"])

    def read_donated_file(self) -> pd.DataFrame:
        """Read the donated examples. Without donated examples, the frame is empty."""
        from sugarbush.data.reading import read_rows
        from sugarbush.data.records import donated_records, frame_of, wanted_columns

        settings, schema = self.settings.prepare, self.schema
        if settings.donated is None:
            return frame_of([], schema)
        path = self.find(settings.donated)
        wanted = wanted_columns(settings, schema, private=False)
        rows = read_rows(path, setting="prepare.donated", wanted=wanted, all_columns=True)
        return donated_records(rows, settings, schema, source=str(path))

    def read_examples(self) -> DonatedCodes:
        """Read the donated file, and the attributes of its texts without a call to a model.

        Attributes with `source: llm` come from the labels in the file.
        """
        from sugarbush.attributes.donated import GivenLabels, read_donated_codes  # slow imports
        from sugarbush.data.private_store import labels_of

        frame, schema = self.read_donated_file(), self.schema
        return read_donated_codes(
            frame,
            schema=schema,
            embed=self.encoder(private=False).encode,
            labeller=GivenLabels(labels_of(frame)) if schema.asked_of_llm else None,
            settings=self.settings.extract_metadata,
        )

    def digest_of_examples(self) -> str:
        """Return a digest of the donated file."""
        file = self.settings.prepare.donated
        files = [] if file is None else [file]
        return digest_of_files(self.base, files, setting="prepare.donated").hex()

    def keep_rehearsal(self, fields: Mapping[str, Any]) -> None:
        """Store the last rehearsal of this project."""
        with atomic_file(rehearsal_file(self.base)) as path:
            path.write_text(json.dumps(fields, indent=1) + "\n")

    def kept_rehearsal(self) -> Any:
        """Return the fields of the last rehearsal, or an empty mapping."""
        try:
            return json.loads(rehearsal_file(self.base).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}

    def label_reader(self, metadata: MetadataRelease, method: Method) -> LabelReader:
        """Return the reader of the labels of a method's texts. All of its inputs are public or DP.

        The embeddings of texts of a method without a DP guarantee stay in the private cache.
        """
        from sugarbush.attributes.reader import LabelReader

        donated = self.donated()
        return LabelReader(
            schema=self.schema,
            embed=self.encoder(private=method.stays_private).encode,
            requests_tell=not method.facts.asks_generator
            or self.settings.generator.chosen.follows_requests,
            examples=() if donated is None else donated.texts,
            codes=None if donated is None else donated.codes,
            readers=self._zero_shot_readers(),
            abstain=self.settings.extract_metadata.zero_shot_abstain,
            counts=metadata.counts_of(self.schema),
        )

    def _zero_shot_readers(self) -> Mapping[str, ZeroShotReader]:
        from sugarbush.attributes.donated import load_readers

        embed = self.encoder(private=False).encode
        return load_readers(self.roots.public / "donated", self.schema, embed=embed)

    def data_names(self) -> dict[str, str]:
        """Return the random names of the private texts and of their codes, for cache keys."""
        return {
            "texts": self.stamp("train_texts", left_by="prepare"),
            "codes": self.stamp("train_codes", left_by="extract_metadata"),
        }

    @property
    def dataset(self) -> str:
        """The name of the ledger. Raises ParamsError if the settings contain no name."""
        if not self.settings.privacy.dataset:
            suggested = dataset_name(self.settings.prepare.file)
            raise ParamsError(
                "params.yaml: privacy.dataset is not set. This setting names the ledger. Files "
                "about the same people must have the same name, so that they share one budget. For "
                f"example, set `dataset: {suggested}`"
            )
        return self.settings.privacy.dataset

    @cached_property
    def snapshots(self) -> Snapshots:
        return Snapshots(self.state, f"{self.settings.privacy.purpose}-{self.dataset}")

    @property
    def pretrained(self) -> Path:
        return self.roots.public / "pretrained"

    def scratch(self, name: str) -> Path:
        return self.private.folder(name)

    @property
    def label_answers(self) -> Path:
        """The private folder with an endpoint's answers about private texts. The folder may be
        missing. The copy of a DVC experiment uses the checkout's folder, because its answers are
        already paid."""
        return PrivateStore(Roots(checkout_root(self.base)).private).labels

    def find(self, name: str) -> Path:
        return find_input(self.base, name)

    def stamp(self, name: str, *, left_by: str) -> str:
        """Read the random name that a stage wrote to data/stamps for a private file."""
        return read_stamp(self.roots.stamps / f"{name}.json", left_by=left_by)

    def write_stamp(self, name: str, *, digest: str, within: str, stage: str) -> None:
        """Write the random name of a private file to data/stamps. DVC compares this name.

        `digest` is the keyed digest of the file. `stage` computed the file from another private
        file. `within` names the stamp of that other file. If a stage is run by hand, that stamp may
        be missing.
        """
        parent = self._stamp_if_written(within)
        public = self._public_inputs(stage)
        named = self.snapshots.of(name, digest=digest, within=parent, public=public)
        write_stamp(self.roots.stamps / f"{name}.json", named)

    def renew_stamp(self, name: str) -> None:
        """Write a new random name for an internal file. Every run of its stage changes the name. So
        the name does not show whether other settings changed the file."""
        write_stamp(self.roots.stamps / f"{name}.json", random_id())

    def _stamp_if_written(self, name: str) -> str:
        path = self.roots.stamps / f"{name}.json"
        return read_stamp(path, left_by=name) if path.exists() else ""

    def _public_inputs(self, stage: str) -> str:
        """Return a digest of the settings and public files that the output of a stage depends on.
        The digest does not depend on code, so that an edited comment costs no budget."""
        declared = stage_named(stage)
        files = [Path(path).stem for path in declared.inputs if Path(path).stem in PUBLIC_STAMPS]
        return digest_of(
            version=EXTRACTION,
            settings=self.settings.changed_output_settings(declared.settings),
            files={name: self._stamp_if_written(name) for name in files},
        )

    @cached_property
    def plan(self) -> BudgetPlan:
        """The budget share of every mechanism of a run, computed from the settings alone.

        The run and the profiles of the dataset together are within privacy.epsilon.
        """
        with working("planning the budget"):
            return self._planned()

    def _planned(self) -> BudgetPlan:
        settings, profile = self.settings, self.profile_charges
        if not profile:
            return plan_for(settings.privacy, settings.chosen, figures=self.measured_requests)
        ledger = self.ledger(rehearse=False)
        return plan_beside(
            settings.privacy,
            settings.chosen,
            figures=self.measured_requests,
            total=lambda plan: ledger.epsilon_with(profile, (plan.events, plan)),
        )

    @property
    def measured_requests(self) -> tuple[BudgetRequest, ...]:
        """The mechanisms of the first look and of the public figures."""
        return (*look_requests(self._cells_of_look), *self.figure_requests)

    @property
    def _cells_of_look(self) -> Mapping[str, int]:
        """The groups of counts of the first look, each with the most cells of a record.

        Settings and the schema decide it, never the records.
        """
        settings = self.settings
        if not settings.looks:
            return {}
        schema = self.schema
        cells = {CENTRE: 1, FIT: 1, KINDS: len(schema.names)}
        has_lengths = settings.initialise.length.numbers or (
            schema.shape is not None and schema.shape.requested
        )
        if settings.prepare.donated is None and not (has_lengths and schema.style):
            from sugarbush.profiling.form import FormReader  # slow

            reader = FormReader(schema.shape)
            cells |= {LENGTHS: reader.lengths.cells, STYLE: reader.style.cells}
        return cells

    @cached_property
    def look(self) -> FirstLook | None:
        """The first look of the run that stage look released, or None."""
        path = self.roots.released / "look" / "look.json"
        return FirstLook.from_json(path.read_text(encoding="utf-8")) if path.exists() else None

    def first_length(self) -> FirstLength:
        """Return the lengths that prompts request: as the settings say, else as the donated texts
        have, else as the first look released."""
        own = self.settings.initialise.length
        if own.numbers:
            return own
        look, donated = self.look, self.donated_texts()
        words = lengths_of(donated) if donated else look.words if look is not None else ()
        return own.model_copy(update={"words": words or None})

    def schema_of_prompts(self) -> Schema:
        """Return the schema, completed with the style and the lengths of the first look."""
        schema, look = self.schema, self.look
        if look is None:
            return schema
        changes: dict[str, Any] = {}
        if look.style and not schema.style:
            changes["style"] = look.style
        if look.lengths and schema.text is not None:
            requested = {**look.lengths, **schema.text.shape.requested}
            changes["text"] = schema.text.with_lengths(requested)
        return schema.model_copy(update=changes)

    @property
    def figure_requests(self) -> tuple[BudgetRequest, ...]:
        """The mechanisms of the public figures, by the settings and the schema.

        Raises ParamsError for a rule about an attribute that the schema lacks.
        """
        share = self.settings.figures_share
        if not share:
            return ()
        for rule in self.settings.rules:
            rule.require_measured(self.schema.names)
        names = [method.name for method in self.settings.released]
        return figure_requests(self.schema, names, share=share)

    def planned_line(self) -> str:
        """Return the epsilon that a run plans, with that of its profile, for the terminal."""
        line = f"epsilon {rounded_up(self.plan.epsilon)}"
        if self.profile_charges:
            ledger = self.ledger(rehearse=False)
            planned = self.plan.planned
            both = ledger.epsilon_with(self.profile_charges, (planned.events, planned))
            line += f", and {rounded_up(both)} together with its profile"
        return line

    @property
    def profile_charges(self) -> tuple[str, ...]:
        """The ledger ids of the dataset's profiles. The settings may lack the dataset's name."""
        return self.ledger(rehearse=False).profiles() if self.settings.privacy.dataset else ()

    def ledger(self, *, rehearse: bool = True) -> Ledger:
        """Return the ledger of `privacy.dataset`. A benchmark and a release have separate
        ledgers. `rehearse` is false for a charge that pays for no texts."""
        privacy = self.settings.privacy
        return self._ledger(
            purpose=privacy.purpose.value,
            cap=privacy.cap,
            paid_for=self._paid_for,
            different_from=privacy.different_from,
            user_column=self.settings.prepare.user_column,
            reservation=self.reservation,
            assumes=self.settings.declared,
            before_charge=self._rehearse_once if rehearse else lambda: None,
        )

    def _rehearse_once(self) -> None:
        """Judge the generator's first texts before the first charge of this process.

        Every charge comes here, also that of a stage whose earlier stages are up to date.
        """
        if not self._rehearsed:
            self._rehearse(self)
            self._rehearsed = True

    def _paid_for(self) -> dict[str, Path]:
        """Return the charges in released folders of the dataset. The example has no such charges,
        because its state may be deleted."""
        privacy = self.settings.privacy
        if privacy.purpose is Purpose.EXAMPLE:
            return {}
        return charges_of_releases(self.roots, privacy)

    def refuse_foreign_releases(self) -> None:
        """Raise LedgerError if data/released or dvc.lock names a release that the ledger of
        `privacy.dataset` does not count."""
        privacy = self.settings.privacy
        refuse_foreign_folders(self.roots, privacy)
        refuse_foreign_lock(self.base, privacy, snapshots=self.snapshots)

    def uncapped_ledger(self, kind: str) -> Ledger:
        """Return the separate ledger of results without a DP epsilon.

        Whoever sees such results can choose by them, so the card says that there are some.
        """
        self.ledger(rehearse=False).note_shown("results without DP", of=[kind])
        return self._ledger(purpose=f"{self.settings.privacy.purpose.value}-{kind}", cap=math.inf)

    def _ledger(self, **fields: Any) -> Ledger:
        own = self.settings.privacy
        return Ledger(self.state, dataset=self.dataset, unit=own.unit, delta=own.delta, **fields)

    def open_store(
        self, stage: str, key: Mapping[str, Any], *, forced: bool, dataset_prefix: str | None = None
    ) -> AbstractContextManager[ResultStore]:
        privacy = self.settings.privacy
        return open_result_store(
            self.state,
            dataset=f"{dataset_prefix or privacy.purpose}-{self.dataset}",
            stage=stage,
            key=key,
            forced=forced,
        )

    def encoder(self, *, private: bool) -> Encoder:
        """Return the encoder. Private embeddings are cached under data/private only."""
        from sugarbush.embedding.cache import EmbeddingCache
        from sugarbush.embedding.encoder import Encoder

        cache = EmbeddingCache(self.embedding_folder(private=private))
        return Encoder(self.settings.embedding, cache=cache, private=private)

    def encoder_without_cache(self) -> Encoder:
        """Return an encoder of public texts that stores nothing, to measure its speed."""
        from sugarbush.embedding.encoder import Encoder

        return Encoder(self.settings.embedding, cache=None, private=False)

    def embedding_folder(self, *, private: bool) -> Path:
        if private:
            return self.private.folder("embeddings")
        return self.base / ".cache" / "embeddings"

    def generator_context(self, stage: str) -> GeneratorContext:
        """Return the seed, folders and functions that the generator may use. The journal of paid
        calls records `stage`."""
        return GeneratorContext(
            seed=self.settings.seed,
            state=self.state,
            account=self.settings.privacy.dataset,
            stage=stage,
            base=self.base,
            embed=self.encoder(private=False).encode,
            say=lambda line: print(printable(line), file=sys.stderr, flush=True),
            shape=self.schema.shape,
        )

    def writer(self, stage: str) -> Writer:
        """Open the generator, together with the maximum share of unusable answers."""
        section = self.settings.generator
        return Writer(
            generator=self.open_generator(section.chosen, stage),
            max_dropped_share=section.max_dropped_share,
        )

    def open_generator(self, settings: GeneratorSettings, stage: str) -> Generator:
        """Open a generator whose texts have the shape that the schema declares."""
        opened = settings.open(self.generator_context(stage))
        return in_shape(opened, self.schema.shape)

    def labeller(self) -> Labeller | None:
        """Return the endpoint for attributes with `source: llm`, or None without such attributes.
        Raises ParamsError if the endpoint is not trusted."""
        if not self.schema.asked_of_llm:
            return None
        from sugarbush.attributes.llm_labels import Labeller

        return Labeller(
            self.settings.extract_metadata.label_endpoint,
            self.schema.asked_of_llm,
            folder=make_private(self.label_answers),
            account=self.settings.privacy.dataset,
        )

    def label(self) -> str:
        """Return `synthesize_metadata.label`, or the first attribute of the schema. `augpe` starts
        from the DP counts of this attribute."""
        named = self.settings.synthesize_metadata.label
        return self.schema.names[0] if named is None else self.schema.attribute(named).name

    def method_inputs(
        self,
        method: Method,
        *,
        stage: str,
        metadata: MetadataRelease,
        report: Callable[[str], None] = _print,
    ) -> MethodInputs:
        """Collect everything that a stage of a method may use."""
        settings = self.settings
        settings.privacy.check_delta(metadata.count)
        private = PrivateInputs(
            corpus=self.corpus,
            privacy=settings.privacy,
            plan=lambda: self.plan,
            digests=self.data_names(),
            encode=self.encoder(private=True).encode,
            ledger=self.ledger,
            uncapped_ledger=self.uncapped_ledger,
            open_store=self.open_store,
            scratch=self.scratch,
        )
        tools = Tools(
            writer=self._writer_of(method),
            encode=self.encoder(private=False).encode,
            label_reader=lambda: self.label_reader(metadata, method),
            find=self.find,
            training=settings.training,
            report=report,
            restart=("-m", f"tasks.{stage}", "--method", method.name),
        )
        public = self.public_inputs(metadata, donated=self.donated())
        return MethodInputs(private=private, public=public, tools=tools)

    def _writer_of(self, method: Method) -> Callable[[str], Writer]:
        """Return a function that opens the generator for a method that says that it asks it."""

        def refuse(stage: str) -> Writer:
            raise ParamsError(
                f"{stage}: method {method.name} asks the generator, but its `facts` do not say so "
                "(asks_generator=True). The card would not name the generator"
            )

        return self.writer if method.facts.asks_generator else refuse

    def public_inputs(self, metadata: MetadataRelease, *, donated: Donated | None) -> PublicInputs:
        """Collect the public values that a method may use."""
        settings = self.settings
        return PublicInputs(
            schema=self.schema_of_prompts(),
            metadata=metadata,
            donated=donated,
            label=self.label(),
            length=self.first_length(),
            seed=settings.seed,
            again=settings.initialise.again,
            release=settings.release,
            privacy=settings.privacy,
            generator=settings.generator.identity(),
            example_sets=settings.generator.chosen.example_sets,
            follows_requests=settings.generator.chosen.follows_requests,
            embedding=settings.embedding.output_settings(),
            pretrained=self.pretrained,
            text_column=settings.prepare.text_column,
        )
