"""Confidentially Redacted Training (CRT) keeps secrets confidential, without a DP guarantee.

CRT deduplicates and redacts the corpus. Then CRT trains a model by alternating SGD and DP-SGD. The
texts of this model stay private. Source: Zhao, Li, Wang 2022.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from sugarbush import versions
from sugarbush.data.reading import read_rows
from sugarbush.data.schema import Schema
from sugarbush.data.settings import is_in_example
from sugarbush.errors import InputError, ParamsError
from sugarbush.evolution.population import NO_CODE
from sugarbush.methods.interface import (
    FinalSet,
    MethodContext,
    MethodFacts,
    MethodInputs,
    TrainedMethod,
    TrainedModel,
)
from sugarbush.paths import reading
from sugarbush.privacy.data_types import Private, Released
from sugarbush.privacy.results import DAMAGED, digest_of, digest_of_folder
from sugarbush.privacy.session import PrivacySession
from sugarbush.privacy.unit import Unit
from sugarbush.training.crt.findings import DESCRIPTION, LEARNED
from sugarbush.training.crt.settings import LSTM, CrtSettings
from sugarbush.training.dpsgd.settings import CLIP_NORM, TINY, TrainingSettings

if TYPE_CHECKING:
    from sugarbush.training.crt.findings import PublicPolicy
    from sugarbush.training.crt.recall import RecallMeasurement
    from sugarbush.training.crt.redact import Policy
    from sugarbush.training.crt.screening import Screened
    from sugarbush.training.dpsgd.checkpoints import Checkpoints
    from sugarbush.training.dpsgd.train import Mechanism

_MODEL, _LEDGER_IDS, _DIGEST = "model", "ledger_ids.json", ".digest"
_FIRST = "generation-1"
LEDGER = "confidentiality"  # a separate ledger, because epsilon must not be added to DP epsilon


class CRT(CrtSettings, TrainedMethod):
    """CRT gives confidentiality, not DP. The generated texts stay private.

    >>> CRT(epsilon=2.0).stays_private
    True
    """

    name: ClassVar[str] = "crt"
    stays_private: ClassVar[bool] = True

    def in_project(self, context: MethodContext) -> Self:
        """Return the method without the files of the embedded example, if the data is another."""
        if context.is_example:
            return self
        files = {"labelled": self.labelled, "known": self.known}
        of_example = {name: None for name, file in files.items() if is_in_example(file)}
        return self.model_copy(update=of_example)

    def check(self, context: MethodContext) -> None:
        """Refuse `unit: user`, because CRT protects only a secret in one record, and a detector
        that is not installed."""
        from sugarbush.training.crt.policies import require_learned

        require_learned(self._detectors)
        if context.unit is Unit.USER:
            raise ValueError(
                "methods: crt protects a secret in one record, not a user. Remove crt, or set "
                "privacy.unit: record"
            )

    @property
    def _detectors(self) -> tuple[str, ...]:
        """The detectors of both policies."""
        return (*self.detectors, *filter(None, [self.conservative]))

    @property
    def facts(self) -> MethodFacts:
        from sugarbush.training.crt.policies import extras_of, other_packages_of

        return MethodFacts(
            reads_codes=False,
            is_measured=False,
            pretrained=self.model if self.model in (TINY, LSTM) else None,
            files=self._files(),
            extras=(("train",), *extras_of(self._detectors)),
            confidential_epsilon=self.epsilon,
            packages=other_packages_of(self._detectors),
        )

    def _files(self) -> tuple[tuple[str, str], ...]:
        """Return the labelled sample, the known public texts and the tuned detectors."""
        named = [(self.labelled, "methods.crt.labelled"), (self.known, "methods.crt.known")]
        for name in self._detectors:
            if (Path(name) / DESCRIPTION).exists():
                named.append((name, "methods.crt.detectors"))
        return tuple((file, setting) for file, setting in named if file is not None)

    def preflight(self, schema: Schema, training: TrainingSettings) -> None:
        """Check that the detectors and the first model load. The detector `learned` is not opened,
        because its first use trains it."""
        from sugarbush.training.crt.policies import make_policy, make_public_policy
        from sugarbush.training.crt.start import check_start

        if self.detectors != (LEARNED,):
            named = [name for name in self.detectors if name != LEARNED]
            make_policy(named, threshold=self.threshold)
        if self.conservative != LEARNED:
            make_public_policy(self.conservative)
        check_start(self)

    def finetune(self, inputs: MethodInputs, *, forced: bool) -> TrainedModel | None:
        """Measure the recall of the policy, screen the corpus, and train."""
        from sugarbush.privacy.events import ConfidentialTraining
        from sugarbush.training.crt.card import confidentiality_card
        from sugarbush.training.crt.confidentiality import agreed_gamma
        from sugarbush.training.crt.patterns import described
        from sugarbush.training.crt.policies import make_policy, make_public_policy
        from sugarbush.training.crt.redact import identities_of
        from sugarbush.training.crt.screening import screen
        from sugarbush.training.crt.start import digest_of_start, save
        from sugarbush.training.dpsgd.checkpoints import Checkpoints

        sentences = self.known_sentences(inputs)
        policy = make_policy(self.detectors, threshold=self.threshold)
        conservative = make_public_policy(self.conservative)
        measured = self.measured_recall(inputs, policy, conservative)
        gamma = agreed_gamma(self.gamma, measured=None if measured is None else measured.gamma)
        screened = screen(
            inputs.private.corpus.records().map_batch(lambda records: records.texts),
            policy=policy,
            conservative=conservative,
            known=sentences,
        )
        delta_2 = 0.0 if measured is None else measured.delta_2
        mechanism = self.mechanism(
            screened, gamma=gamma, delta=inputs.private.privacy.delta, delta_2=delta_2
        )
        event = mechanism.event
        assert isinstance(event, ConfidentialTraining)
        key: dict[str, Any] = {
            "version": versions.CRT,
            "patterns": described(),
            "weights": (*policy.identities, *identities_of([conservative])),
            "start": digest_of_start(inputs.public.pretrained, self),
            "corpus": inputs.private.digests["texts"],
            "settings": self.model_dump(mode="json"),
            "seed": inputs.public.seed,
            "known": sorted(sentences),
            "event": event.as_dict(),
        }
        card = confidentiality_card(
            event,
            gamma=gamma,
            delta=inputs.private.privacy.delta,
            measured=measured,
            all_private=self.conservative is None,
            other_packages=self.facts.packages,
        )
        # The state folder counts the noisy steps, because an old copy of the private root would
        # show too few steps. The store's lock prevents two processes from training on one charge.
        with inputs.private.open_store(
            self.name, key, forced=forced, dataset_prefix=self.name
        ) as store:
            digest = store.digest
            scratch = inputs.private.scratch(f"{self.name}/{digest}")
            # DVC runs this stage again if another method is added. A finished model is restored.
            if store.finished(_MODEL) is None:
                # A forced run must not continue the checkpoints of an older generation, because the
                # count of their noisy steps is in the folder of that generation.
                checkpoint_folder = (
                    scratch if store.folder.name == _FIRST else scratch / store.folder.name
                )
                checkpoints = Checkpoints(checkpoint_folder, counts=store.folder)
                trained, tokenizer = self._train(
                    inputs, screened, mechanism, checkpoints, run=digest
                )
                with store.writing(_MODEL) as folder:
                    save(trained.value, tokenizer, folder)
                    (folder / _LEDGER_IDS).write_text(json.dumps(trained.ledger_ids))
                    (folder / _DIGEST).write_text(digest_of_folder(folder))
            finished = store.folder / _MODEL
            with reading(finished, advice=DAMAGED):
                stored = finished / _DIGEST  # missing if an earlier version stored the model
                if stored.exists() and stored.read_text() != digest_of_folder(finished):
                    raise ValueError("a file is missing or has changed")
                ledger_ids = tuple(map(str, json.loads((finished / _LEDGER_IDS).read_text())))
            inputs.private.uncapped_ledger(LEDGER).of(ledger_ids)  # raises if a charge is missing
            shutil.rmtree(scratch, ignore_errors=True)

        def copy(folder: Path) -> None:
            ignored = shutil.ignore_patterns(_LEDGER_IDS, _DIGEST)
            shutil.copytree(finished, folder, dirs_exist_ok=True, ignore=ignored)

        return TrainedModel(
            save=copy,
            ledger_ids=ledger_ids,
            run=digest,
            internal={"confidentiality": card},
        )

    def generate(self, inputs: MethodInputs, model: Released[Path], *, forced: bool) -> FinalSet:
        """Generate texts with the trained model. The texts have no attribute values."""
        from sugarbush.training.crt.start import load_trained
        from sugarbush.training.device import open_device
        from sugarbush.training.dpsgd.generate import generate

        training, count = inputs.tools.training, inputs.public.texts
        network, tokenizer = load_trained(model.value, device=open_device(training.device))
        made = generate(
            Released(network, model.ledger_ids),
            Released([""] * count),
            tokenizer=tokenizer,
            settings=training.sampling,
            seed=inputs.public.seed,
            max_length=self.max_length,
            after_end=True,
        )
        no_codes = np.full((count, len(inputs.public.schema.names)), NO_CODE, dtype=np.int64)
        return FinalSet.without_rounds(
            made,
            codes=no_codes,
            run=digest_of(seed=inputs.public.seed, ids=[]),
            shape=inputs.public.schema.shape,
        )

    def measured_recall(
        self, inputs: MethodInputs, policy: Policy, conservative: PublicPolicy | None
    ) -> RecallMeasurement | None:
        """Measure the fraction of secrets that the policies miss on the labelled sample.

        Without a labelled sample, the result is None. A conservative policy without a labelled
        sample raises ParamsError.
        """
        from sugarbush.training.crt.recall import load_labelled, measure

        name = self.labelled
        if name is None and conservative is not None:
            raise ParamsError(
                "params.yaml: methods.crt.conservative needs methods.crt.labelled, to measure how "
                "many secrets the conservative policy misses. Set methods.crt.labelled, or set "
                "methods.crt.conservative: null. Without a conservative policy, every text is "
                "private."
            )
        if name is None:
            return None
        sample = load_labelled(inputs.tools.find(name), text_column=inputs.public.text_column)
        return measure(
            sample,
            policy,
            name=Path(name).name,
            conservative=conservative,
            must_find=self.must_find,
        )

    def known_sentences(self, inputs: MethodInputs) -> frozenset[str]:
        """Return the sentences of setting `known`, which are public word for word.

        Raises InputError, with file and row, if a known text contains the mask or a special token.
        A private sentence with a masked secret could be equal to a known sentence with a mask.
        Known sentences never count as duplicates, so one secret would change every record with
        this sentence.
        """
        from sugarbush.training.crt.sentences import sentences_of
        from sugarbush.training.crt.start import special_tokens

        if self.known is None:
            return frozenset()
        column, path = inputs.public.text_column, inputs.tools.find(self.known)
        rows = read_rows(path, setting="methods.crt.known", wanted={column: "prepare.text_column"})
        special = special_tokens(inputs.public.pretrained, self)
        for row in rows:
            if marks := [token for token in special if token in str(row.fields.get(column))]:
                raise InputError(
                    f"{path}, row {row.number}: contains {marks[0]!r}, the mask or a special token "
                    "of the model. Remove the token from the text, or remove the row (setting "
                    "methods.crt.known)"
                )
        return sentences_of(str(row.fields.get(column)) for row in rows)

    def mechanism(
        self, screened: Screened, *, gamma: float, delta: float, delta_2: float = 0.0
    ) -> Mechanism:
        """Return DP-SGD over the private texts, with the noise for the Bayesian epsilon.

        Raises ParamsError if the conservative policy declares every text public, or if delta_2 >=
        delta.
        """
        from sugarbush.privacy.accounting import Relation
        from sugarbush.training.crt.confidentiality import noise_for
        from sugarbush.training.dpsgd.sampling import make_schedule
        from sugarbush.training.dpsgd.train import Mechanism

        if screened.private_count() == 0:
            raise ParamsError(
                "params.yaml: methods.crt.conservative declares every text public, so nothing "
                "would be protected. Set methods.crt.conservative: null, or train on the texts as "
                "public texts."
            )
        schedule = make_schedule(
            batch_size=self.batch_size,
            epochs=self.epochs,
            unit_count=screened.private_count(),
        )
        return Mechanism(
            rate=schedule.rate,
            steps=schedule.steps,
            repeatable_steps=self.repeatable_steps,
            noise_multiplier=noise_for(
                self.epsilon,
                gamma=gamma,
                delta=delta,
                rate=schedule.rate,
                steps=schedule.steps + self.repeatable_steps,
                delta_2=delta_2,
            ),
            clip_norm=CLIP_NORM,
            expected_batch_size=schedule.expected_batch_size,
            relation=Relation.REPLACE_ONE,
        )

    def _train(
        self,
        inputs: MethodInputs,
        screened: Screened,
        mechanism: Mechanism,
        checkpoints: Checkpoints,
        *,
        run: str,
    ) -> tuple[Released[Any], Any]:
        from sugarbush.training.crt.start import load_start
        from sugarbush.training.crt.train import PublicPass, train_by_crt
        from sugarbush.training.crt.units import text_units
        from sugarbush.training.device import open_device
        from sugarbush.training.dpsgd.data import probe_examples
        from sugarbush.training.dpsgd.train import Decay, Learning, Performance, Training

        training = inputs.tools.training
        model, tokenizer = load_start(
            inputs.public.pretrained, self, device=open_device(training.device)
        )
        learning = Learning(
            learning_rate=self.learning_rate,
            decay=Decay.CONSTANT,
            warmup_steps=0,
            weight_decay=0.0,
        )

        def units(texts: Private[str]) -> Private[Any]:
            return texts.map_batch(
                lambda batch: text_units(batch, tokenizer=tokenizer, max_length=self.max_length)
            )

        public, private = screened.public_and_private()
        trained = train_by_crt(
            model,
            public=units(public),
            private=units(private),
            training=Training(
                mechanism=mechanism,
                learning=learning,
                performance=Performance(
                    micro_batch_tokens=training.micro_batch_tokens,
                    checkpoint_every=training.checkpoint_every,
                ),
            ),
            public_pass=PublicPass(learning=learning, batch_size=16, seed=inputs.public.seed),
            probe=probe_examples(len(tokenizer), max_length=self.max_length),
            checkpoints=checkpoints,
            session=PrivacySession(
                ledger=inputs.private.uncapped_ledger(LEDGER), stage=self.name, run=run
            ),
        )
        return trained, tokenizer
