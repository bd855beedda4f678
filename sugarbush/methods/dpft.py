"""DP fine-tuning: DP-SGD trains a GPT-2 on the private texts. The model then writes new texts.

A control code before each text contains the attribute values of the text. The codes for generation
are rows of the DP table. Source: Yue et al. 2023, "Synthetic Text Generation with Differential
Privacy".

With `scored_texts`, half of the budget pays for scores in place of training: the model writes more
texts than are released, every record scores each text once, and kernel herding chooses the release,
as in `mosaic` (measurements: docs/log/dpsgd.md).
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from sugarbush import versions
from sugarbush.data.schema import Schema
from sugarbush.errors import InvariantError
from sugarbush.evolution.enlargers import ByPredictedScores
from sugarbush.evolution.evolve import Scoring, score_once
from sugarbush.evolution.inputs import MetadataRelease
from sugarbush.evolution.parts import Lineage, Records
from sugarbush.evolution.population import load_population, save_population
from sugarbush.evolution.scorers import KernelScorer
from sugarbush.evolution.starts import TABLE
from sugarbush.evolution.targets import targets_by_mix, targets_by_rows
from sugarbush.generators.interface import Usage
from sugarbush.methods.interface import (
    TRAINING,
    FinalSet,
    MethodContext,
    MethodFacts,
    MethodInputs,
    TrainedMethod,
    TrainedModel,
)
from sugarbush.paths import last_part, require
from sugarbush.privacy.budget import (
    BudgetPlan,
    BudgetRequest,
    Subsampling,
    noise_within,
    with_bound,
    with_gaussian_bound,
    with_subsampling,
)
from sugarbush.privacy.data_types import Private, Released, merge_ids
from sugarbush.privacy.events import PoissonGaussian
from sugarbush.privacy.remarks import DPSGD_NOISE
from sugarbush.privacy.results import ResultStore, digest_of
from sugarbush.privacy.settings import PrivacySettings
from sugarbush.privacy.spending import spending_of
from sugarbush.privacy.unit import Unit
from sugarbush.randomness import public_rng
from sugarbush.settings import AtLeastOne, Count, Positive
from sugarbush.training.dpsgd.settings import (
    PRESETS,
    TINY,
    BatchSize,
    DpSgdSettings,
    PresetName,
    Tokens,
    TrainingSettings,
)

if TYPE_CHECKING:
    import torch

    from sugarbush.training.dpsgd.language_modelling import Example
    from sugarbush.training.dpsgd.sampling import Schedule
    from sugarbush.training.dpsgd.train import Mechanism, Performance

STAGE = "finetune"  # this name is in ledgers and result stores
# The plan's bound has the steps for this number of units. For other numbers, the noise is a few
# percent larger than for steps that are fixed in advance.
_MANY_UNITS = 1e7
_MODEL, _STEPS = "model", "steps.json"
_CANDIDATES = "candidates"


class DPFT(TrainedMethod):
    """DPFT: DP-SGD trains a model that writes the texts. A preset contains all values of training.

    >>> DPFT(preset="lora", epochs=3).training.learning_rate
    0.001
    """

    name: ClassVar[str] = "dpft"

    preset: PresetName = "dpft"
    """dpft (one CPU), yue2023 (Yue et al. 2023, GPUs of 80 GB) or lora (LoRA on GPT-2)."""
    model: Annotated[str, Field(min_length=1)] | None = None
    """First model: tiny (of stage pretrain), or a GPT-2 or Llama; null: the preset's."""
    records: Annotated[float, Field(ge=1)] | None = None
    """Public number of units, for the sampling rate and the steps; null: the DP record count."""
    batch_size: BatchSize | None = None
    """Expected number of units (records or users) in a step; null: the preset's."""
    epochs: Positive | None = None
    """Expected number of passes over the records; null: the preset's."""
    learning_rate: Positive | None = None
    """Highest learning rate; null: the preset's."""
    max_length: Tokens | None = None
    """Maximum number of tokens of a text with its control codes; null: the preset's."""
    lora_rank: Count | None = None
    """Rank of the low-rank factors that are trained; 0: all weights; null: the preset's."""
    repeatable_steps: Count | None = None
    """Number of steps that may run twice after a crash; charged beforehand; null: the preset's."""
    scored_texts: AtLeastOne | None = None
    """Number of texts that the records score once to choose the release; null: no scores."""

    @property
    def training(self) -> DpSgdSettings:
        """All values of training: those of the preset, and the settings that are not null."""
        given = {
            name: value
            for name, value in self.model_dump(exclude={"preset", "scored_texts"}).items()
            if value is not None
        }
        if given.get("lora_rank") == 0:
            given["lora_rank"] = None
        return PRESETS[self.preset].model_copy(update=given)

    def check(self, context: MethodContext) -> None:
        """Refuse a DP table that lacks attributes, because a control code has all attributes.
        Refuse scores that choose nothing."""
        if context.table_attributes is not None:
            raise ValueError(
                "synthesize_metadata.attributes limits the DP table, but method dpft needs all "
                "attributes of the schema. Set synthesize_metadata.attributes: null, or remove dpft"
            )
        if self.scored_texts is not None and self.scored_texts <= (context.texts or math.inf):
            raise ValueError(
                f"methods.dpft.scored_texts={self.scored_texts} must be above release.texts, "
                "because scores choose the release from these texts. Set release.texts to at most "
                "half of it, or scored_texts: null"
            )

    def output_settings(self) -> dict[str, Any]:
        """Return all values of training. So a setting with the preset's value changes nothing."""
        return {**self.training.output_settings(), "scored_texts": self.scored_texts}

    @property
    def record_scorer(self) -> KernelScorer | None:
        return None if self.scored_texts is None else KernelScorer()

    def budget_requests(self) -> tuple[BudgetRequest, ...]:
        """Return the DP table and training, and one noisy sum if the records score texts.

        Training and the sum get equal parts of mu^2.
        """
        training = BudgetRequest(name=TRAINING, count=0, remarks=(DPSGD_NOISE,))
        if self.record_scorer is None:
            return (TABLE, training)
        sums = BudgetRequest(
            name=self.scores_name,
            count=1,
            record_l2_sensitivity=self.record_scorer.unit,
            remarks=self.record_scorer.remarks,
        )
        return (TABLE, sums, training)

    @property
    def facts(self) -> MethodFacts:
        model = last_part(self.training.model)  # the card shows no path
        return MethodFacts(
            starts_from=model,
            pretrained=TINY if self.training.model == TINY else None,
            uses_encoder=self.record_scorer is not None,
            extras=(("train",),),
            card_settings={
                **self.training.model_dump(mode="json"),
                "model": model,
                "scored_texts": self.scored_texts,
            },
        )

    def preflight(self, schema: Schema, training: TrainingSettings) -> None:
        """Check that the model loads, that a text fits its context, and that clipping is exact.

        The tiny model on a CPU needs no check, because clipping is exact for every GPT-2. On a GPU,
        the check uses a new GPT-2, because stage `pretrain` may not have run yet.
        Raises ParamsError and PrivacyError.
        """
        settings = self.training
        from sugarbush.training.device import open_device

        device = open_device(training.device)
        if settings.model == TINY and device.type == "cpu":
            return
        from sugarbush.training.dpsgd import models
        from sugarbush.training.dpsgd.data import probe_examples, refuse_long_codes
        from sugarbush.training.dpsgd.train import require_exact_clipping

        if settings.model == TINY:
            tokenizer = models.train_tokenizer([schema.subject], vocabulary=300)
            shape = models.ModelShape(layers=1, width=16, heads=2, context=settings.max_length)
            model: Any = models.new_model(tokenizer, shape, seed=1)
            model.to(device)
        else:
            model, tokenizer = models.load(settings.model, device=device)
            models.refuse_beyond_context(model, settings.max_length)
            refuse_long_codes(schema, tokenizer, settings.max_length)
        require_exact_clipping(
            self._trainable(model),
            probe_examples(len(tokenizer), max_length=settings.max_length),
            clip_norm=settings.clip_norm,
            performance=_performance(training, device, max_length=settings.max_length),
        )

    def final_plan(
        self, plan: BudgetPlan, privacy: PrivacySettings, *, beside_profile: bool
    ) -> BudgetPlan:
        """Return `plan` with the cost of training, which also covers repeated steps.

        If the setting `records` is null, the DP record count decides the steps. The cost is then a
        bound for every count. So the plan depends on settings only. Beside a profile, the cost is a
        bound that composes with it.
        """
        if not plan.holds(TRAINING):
            return plan
        records, epsilon = self.training.records, privacy.epsilon
        steps = self._charged_steps(self._schedule(_MANY_UNITS if records is None else records))
        if beside_profile:
            return with_gaussian_bound(plan, TRAINING, steps)
        if records is None:
            return with_bound(plan, TRAINING, steps, epsilon=epsilon)
        return with_subsampling(plan, {TRAINING: steps}, epsilon=epsilon)

    def finetune(self, inputs: MethodInputs, *, forced: bool) -> TrainedModel | None:
        """Train a model, or restore the model of an earlier run.

        If several processes train, only the first process returns the model.
        """
        from sugarbush.training.processes import broadcast_from_first, is_first, processes

        # computed before other processes start, so that an error is shown only once
        mechanism = self._mechanism(inputs) if is_first() else None
        with processes(inputs.tools.training.processes, restart=inputs.tools.restart):
            if mechanism is None:
                message: tuple[str, Mechanism] | None = broadcast_from_first(None)
                if message is not None:
                    self._train(inputs, message[1], run=message[0], store=None)
                return None
            key = self._cache_key(inputs, mechanism)
            with inputs.private.open_store(STAGE, key, forced=forced) as store:
                missing = store.finished(_MODEL) is None
                internal: dict[str, Any] = {}
                if broadcast_from_first((store.run, mechanism) if missing else None):
                    internal = self._train(inputs, mechanism, run=store.run, store=store)
                finished = store.finished(_MODEL)
                assert finished is not None
                return self._trained(inputs, mechanism, finished, run=store.run, internal=internal)

    def generate(self, inputs: MethodInputs, model: Released[Path], *, forced: bool) -> FinalSet:
        """Generate texts. With `scored_texts`, each record scores them once, and herding chooses.

        Guarantee: the scores are one noisy sum with L2 sensitivity `scorer.unit` per record. All
        else is post-processing of the model and of the DP table.
        """
        if self.record_scorer is None:
            return self._written(inputs, model, count=inputs.public.texts)
        key = self._scores_key(inputs, model.ledger_ids)
        with inputs.private.open_store("generate", key, forced=forced) as store:
            first = self._stored_candidates(inputs, model, store)
            scoring = Scoring(
                scorer=self.record_scorer,
                records=inputs.private.embeddings.map_batch(Records.without_codes),
                stddev=inputs.private.budget.of(self.scores_name).stddev,
                session=inputs.private.session(stage=f"generate@{self.name}", run=store.run),
                store=store,
                encode=inputs.tools.encode,
            )
            first_ids = first.lineage.ledger_ids
            lineage = score_once(Released(first.lineage.final, first_ids), scoring=scoring)
        count, herding = inputs.public.texts, ByPredictedScores()
        chosen = herding.choose(lineage, lineage.final, count=count, encode=inputs.tools.encode)
        lineage = replace(lineage, final=lineage.final.take(chosen), usage=first.lineage.usage)
        return FinalSet(lineage=lineage, run=store.run)

    def _stored_candidates(
        self, inputs: MethodInputs, model: Released[Path], store: ResultStore
    ) -> FinalSet:
        """Write the candidates, or restore them. A repeated run on a GPU may write other texts."""
        names, done = inputs.public.schema.names, store.finished(_CANDIDATES)
        if done is None:
            assert self.scored_texts is not None
            written = self._written(inputs, model, count=self.scored_texts)
            with store.writing(_CANDIDATES) as folder:
                save_population(written.lineage.final, names, folder / "candidates.parquet")
                (folder / "usage.json").write_text(json.dumps(asdict(written.lineage.usage)))
            return written
        usage = Usage(**json.loads((done / "usage.json").read_text()))
        ids = merge_ids(model, Released(None, inputs.public.metadata.ledger_ids))
        final = load_population(done / "candidates.parquet", names)
        return FinalSet(lineage=Lineage(final=final, usage=usage, ledger_ids=ids), run=store.run)

    def _scores_key(self, inputs: MethodInputs, model_ids: Sequence[str]) -> dict[str, Any]:
        """Return all values that affect a candidate or its score."""
        public = inputs.public
        return {
            "version": [versions.GENERATION, versions.EVOLUTION],
            **inputs.private.cache_key(),
            "model": list(model_ids),
            "metadata": list(public.metadata.ledger_ids),
            "schema": public.schema.fields_for_private_results(),
            "scored_texts": self.scored_texts,
            "sampling": inputs.tools.training.sampling.model_dump(mode="json"),
            "seed": public.seed,
            "embedding": public.embedding,
            "privacy": inputs.private.privacy.promise,
            "stddev": inputs.private.budget.of(self.scores_name).stddev,
        }

    def _written(self, inputs: MethodInputs, model: Released[Path], *, count: int) -> FinalSet:
        from sugarbush.training.device import open_device
        from sugarbush.training.dpsgd import models
        from sugarbush.training.dpsgd.data import control_codes
        from sugarbush.training.dpsgd.generate import generate

        schema, training = inputs.public.schema, inputs.tools.training
        codes = self._codes(inputs, count=count)
        network, tokenizer = models.load(str(model.value), device=open_device(training.device))
        prompts = codes.map(
            lambda table: [control_codes(schema.decode(tuple(row))) for row in table.tolist()]
        )
        made = generate(
            Released(network, model.ledger_ids),
            prompts,
            tokenizer=tokenizer,
            settings=training.sampling,
            seed=inputs.public.seed,
            max_length=self.training.max_length,
        )
        run = digest_of(seed=inputs.public.seed, ids=list(made.ledger_ids))
        return FinalSet.without_rounds(
            made, codes=codes.value, run=run, shape=inputs.public.schema.shape
        )

    def _codes(self, inputs: MethodInputs, *, count: int) -> Released[np.ndarray]:
        """Choose the codes (n, d) of the texts from the rows of the DP table.

        Every row is used once before any row is used again.
        """
        rows = inputs.public.metadata.rows
        if rows is None:
            raise InvariantError("dpft needs the codes of a DP table")
        schema, rng = inputs.public.schema, public_rng(inputs.public.seed, "codes")
        # Scores of the texts are charged, so they do not depend on the mix.
        mix = None if self.scored_texts else inputs.public.mix
        if mix is None:
            drawn = targets_by_rows(count, rows, schema, rng=rng)
        else:
            drawn = targets_by_mix(count, rows, schema, mix=mix, rng=rng)
        return Released(drawn.codes, inputs.public.metadata.ledger_ids)

    def _units_of(self, metadata: MetadataRelease, *, records_per_user: int) -> float:
        """Return the setting `records`, or an estimate of the number of units.

        The number of users is unknown, so the estimate is the minimum, the DP record count /
        `records_per_user`. With more users, a step samples more than `batch_size` users on average.
        The guarantee depends only on the sampling rate.
        """
        if (records := self.training.records) is not None:
            return records
        if metadata.record_count is None:
            raise InvariantError("dpft needs the DP record count")
        # The bound covers the rounding errors of at most as many steps as are planned.
        return min(metadata.record_count / records_per_user, _MANY_UNITS)

    def _schedule(self, units: float) -> Schedule:
        from sugarbush.training.dpsgd.sampling import make_schedule

        settings = self.training
        return make_schedule(
            batch_size=settings.batch_size, epochs=settings.epochs, unit_count=units
        )

    def _charged_steps(self, schedule: Schedule) -> Subsampling:
        steps = schedule.steps + self.training.repeatable_steps
        return Subsampling(rate=schedule.rate, steps=steps)

    def _mechanism(self, inputs: MethodInputs) -> Mechanism:
        """Return the training for the DP record count, with noise within the plan's bound."""
        from sugarbush.training.dpsgd.train import Mechanism

        settings = self.training
        schedule = self._schedule(
            self._units_of(
                inputs.public.metadata, records_per_user=inputs.private.privacy.records_per_user
            )
        )
        planned = inputs.private.budget.of(TRAINING).subsampled
        assert planned is not None
        bound = None
        if not isinstance(planned, PoissonGaussian):
            bound, planned = planned, noise_within(planned, self._charged_steps(schedule))
        return Mechanism(
            rate=schedule.rate,
            steps=schedule.steps,
            repeatable_steps=settings.repeatable_steps,
            noise_multiplier=planned.noise_multiplier,
            clip_norm=settings.clip_norm,
            expected_batch_size=schedule.expected_batch_size,
            bound=bound,
        )

    def _cache_key(self, inputs: MethodInputs, mechanism: Mechanism) -> dict[str, Any]:
        settings = self.training
        start = settings.model
        if start == TINY:
            path = require(inputs.public.pretrained / "pretrain.json", left_by="pretrain")
            start = str(json.loads(path.read_text())["digest"])
        # The noise follows from the bound, which the ledger contains, and these two. So a result is
        # found again on a CPU that rounds the noise differently.
        sampled = {"sampled": [mechanism.rate, mechanism.draws]} if mechanism.bound else {}
        return {
            "version": versions.TRAINING,
            **inputs.private.cache_key(),
            "start": start,
            "schema": inputs.public.schema.fields_for_private_results(),
            "settings": settings.model_dump(mode="json"),
            "privacy": inputs.private.privacy.promise,
            "event": mechanism.charge.as_dict(),
            **sampled,
        }

    def _train(
        self, inputs: MethodInputs, mechanism: Mechanism, *, run: str, store: ResultStore | None
    ) -> dict[str, Any]:
        """Train a model and write it, with merged LoRA factors, to `store`.

        Returns internal numbers, which are not DP. `store` is None in all processes except the
        first.
        """
        import torch

        from sugarbush.training.device import open_device
        from sugarbush.training.dpsgd import models
        from sugarbush.training.dpsgd.checkpoints import Checkpoints
        from sugarbush.training.dpsgd.data import probe_examples, truncated
        from sugarbush.training.dpsgd.train import Decay, Learning, Training, train

        settings = self.training
        device = open_device(inputs.tools.training.device)
        model, tokenizer = _load_start(settings, inputs.public.pretrained, device)
        model = self._trainable(model)
        units = self._units(inputs, tokenizer)
        checkpoints = Checkpoints(
            inputs.private.scratch(f"{STAGE}/{run}"), counts=None if store is None else store.folder
        )
        trained = train(
            model,
            units,
            training=Training(
                mechanism=mechanism,
                learning=Learning(
                    learning_rate=settings.learning_rate,
                    decay=Decay(settings.decay),
                    warmup_steps=settings.warmup_steps,
                    weight_decay=settings.weight_decay,
                ),
                performance=_performance(
                    inputs.tools.training, device, max_length=settings.max_length
                ),
            ),
            probe=probe_examples(len(tokenizer), max_length=settings.max_length),
            checkpoints=checkpoints,
            session=inputs.private.session(stage=STAGE, run=run),
        )
        if store is None:
            return {}
        with store.writing(_MODEL) as folder:
            models.save(models.merged(trained.value).to(torch.device("cpu")), tokenizer, folder)
            (folder / "ledger_ids.json").write_text(json.dumps(trained.ledger_ids))
            (folder / _STEPS).write_text(json.dumps({"steps_taken": checkpoints.step()}))
        shutil.rmtree(checkpoints.folder, ignore_errors=True)
        return {STAGE: {"texts_cut": truncated(units, end=tokenizer.eos_token_id)}}

    def _trainable(self, model: Any) -> Any:
        from sugarbush.training.dpsgd import models

        rank = self.training.lora_rank
        return model if rank is None else models.with_lora(model, rank=rank)

    def _units(self, inputs: MethodInputs, tokenizer: Any) -> Private[tuple[Example, ...]]:
        """Make one training example per record. With `unit: user`, a user's examples are a unit."""
        from sugarbush.training.dpsgd.data import examples_of

        codes = inputs.private.codes(inputs.public.schema.names)
        units: Private[tuple[Example, ...]] = inputs.private.corpus.records().zip_batch(
            codes,
            lambda records, table: examples_of(
                records.texts,
                table,
                schema=inputs.public.schema,
                tokenizer=tokenizer,
                max_length=self.training.max_length,
            ),
        )
        if inputs.private.privacy.unit is Unit.RECORD:
            return units
        return units.joined_by(inputs.private.corpus.users())

    def _trained(
        self,
        inputs: MethodInputs,
        mechanism: Mechanism,
        finished: Path,
        *,
        run: str,
        internal: dict[str, Any],
    ) -> TrainedModel:
        from sugarbush.training.dpsgd.model_card import model_card

        training_ids = json.loads((finished / "ledger_ids.json").read_text())
        ids = (*inputs.public.metadata.ledger_ids, *training_ids)
        ledger = inputs.private.ledger()
        card = model_card(
            mechanism,
            **json.loads((finished / _STEPS).read_text()),
            spending=spending_of(ledger.snapshot(), (*ledger.profiles(), *ids)),
            unit=inputs.private.privacy.unit,
            records_per_unit=inputs.private.privacy.records_per_user,
            delta=inputs.private.privacy.delta,
            settings=self.training,
        )

        def save(folder: Path) -> None:
            for path in finished.iterdir():
                if path.name != "ledger_ids.json":
                    shutil.copy(path, folder / path.name)
            (folder / "model_card.json").write_text(json.dumps(card, indent=1) + "\n")

        return TrainedModel(
            save=save,
            ledger_ids=ids,
            run=run,
            internal=internal,
        )


def _performance(
    training: TrainingSettings, device: torch.device, *, max_length: int
) -> Performance:
    from sugarbush.training.dpsgd.train import performance_on

    return performance_on(
        device,
        max_length=max_length,
        processes=training.processes,
        micro_batch_tokens=training.micro_batch_tokens,
        checkpoint_every=training.checkpoint_every,
    )


def _load_start(settings: DpSgdSettings, pretrained: Path, device: Any) -> tuple[Any, Any]:
    from sugarbush.training.dpsgd import models

    name = settings.model
    if name == TINY:
        name = str(require(pretrained / "config.json", left_by="pretrain").parent)
    model, tokenizer = models.load(name, device=device)
    models.refuse_beyond_context(model, settings.max_length)
    return model, tokenizer
