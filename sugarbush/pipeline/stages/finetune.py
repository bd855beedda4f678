"""A language model trained on the private texts by DP-SGD.

Reads    data/private/{prepared,metadata}/train.parquet, data/released/metadata/ (the DP record
         count), data/public/pretrained/
Writes   data/released/finetuned/    model and tokenizer, model_card.json, release.json
         data/private/finetune/      checkpoints, until the run has ended; the count of its draws
                                     lies with the finished draws, outside the checkout
         reports/internal/finetune.json  how many texts were cut: not DP
Spends   its share: Poisson-subsampled Gaussian steps, the repeatable ones included, at sensitivity
         finetune.<preset>.clip_norm, add/remove one unit

A run that was killed goes on from its last checkpoint, on the charge that it began with. With
`finetune.processes` above 1 the first process does all this, and the others train with it.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import torch

from sugarbush.data.private_store import (
    load_codes,
    load_records,
    load_users,
    read_keyed_digest,
)
from sugarbush.data.schema import Schema, load_schema
from sugarbush.paths import Roots, atomic_directory, atomic_file, find_input, make_private, require
from sugarbush.pipeline import entry_point as stage
from sugarbush.pipeline.budget import METADATA, TRAINING, open_session, result_store_name
from sugarbush.pipeline.forced import was_forced
from sugarbush.pipeline.release import copy_release, read_release, write_release
from sugarbush.pipeline.settings import ProjectSettings
from sugarbush.pipeline.state import state_of
from sugarbush.pipeline.training import full_plan, schedule_of
from sugarbush.privacy.budget import BudgetPlan
from sugarbush.privacy.data_types import Private
from sugarbush.privacy.results import digest_of, open_result_store
from sugarbush.privacy.unit import Unit
from sugarbush.training.device import open_device
from sugarbush.training.dpsgd import models
from sugarbush.training.dpsgd.checkpoints import Checkpoints
from sugarbush.training.dpsgd.data import examples_of, probe_examples, truncated
from sugarbush.training.dpsgd.language_modelling import Example
from sugarbush.training.dpsgd.model_card import model_card
from sugarbush.training.dpsgd.settings import TINY, DpSgdSettings
from sugarbush.training.dpsgd.train import (
    METHOD_VERSION,
    Clipping,
    Decay,
    Learning,
    Mechanism,
    Performance,
    Progress,
    train,
)
from sugarbush.training.processes import broadcast_from_first, processes

NAME = "finetune"
MODEL = "model"
TAKEN = "steps.json"  # how many steps the weights have taken


def run(base: Path, params: ProjectSettings) -> None:
    """Train, or restore a model that was trained before, and release it."""
    with processes(params.finetune.processes, stage=NAME) as rank:
        (_lead if rank == 0 else _follow)(base, params)


def _lead(base: Path, params: ProjectSettings) -> None:
    roots, plan = Roots(base), full_plan(params, Roots(base))
    mechanism = mechanism_of(params, roots, plan)
    with open_result_store(
        state_of(params, base),
        dataset=result_store_name(params),
        stage=NAME,
        digest=digest_for(base, params, mechanism),
        forced=was_forced(),
    ) as store:
        if broadcast_from_first(store.run if store.finished(MODEL) is None else None):
            checkpoints = Checkpoints(roots.private / NAME / store.run, counts=store.folder)
            trained, ids = _trained(base, params, mechanism, checkpoints, run_id=store.run)
            with store.writing(MODEL) as folder:
                models.save(*trained, folder)
                (folder / "ledger_ids.json").write_text(json.dumps(ids))
                (folder / TAKEN).write_text(json.dumps({"steps_taken": checkpoints.step()}))
            shutil.rmtree(checkpoints.folder, ignore_errors=True)
        finished = store.finished(MODEL)
        assert finished is not None
        with atomic_directory(roots.released / "finetuned") as folder:
            ids = [*_metadata_ids(roots), *copy_release(finished, folder)]
            card = model_card(
                mechanism,
                **json.loads((finished / TAKEN).read_text()),
                others=[plan.of(METADATA).event],
                unit=params.privacy.unit,
                records_per_unit=params.privacy.records_per_user,
                delta=params.privacy.delta,
                settings=params.finetune.chosen,
            )
            (folder / "model_card.json").write_text(json.dumps(card, indent=1) + "\n")
            write_release(folder, stage=NAME, params=params, ledger_ids=tuple(ids), run=store.run)


def _follow(base: Path, params: ProjectSettings) -> None:
    """Train along in another process than the first, if there is anything to train."""
    run_id = broadcast_from_first(None)
    if run_id is not None:
        roots = Roots(base)
        mechanism = mechanism_of(params, roots, full_plan(params, roots))
        checkpoints = Checkpoints(roots.private / NAME / run_id)
        _trained(base, params, mechanism, checkpoints, run_id=run_id)


def mechanism_of(params: ProjectSettings, roots: Roots, plan: BudgetPlan) -> Mechanism:
    """What the training draws, with the noise of its share of the plan."""
    settings, schedule = params.finetune.chosen, schedule_of(params, roots)
    event = plan.of(TRAINING).subsampled
    assert event is not None
    return Mechanism(
        rate=schedule.rate,
        steps=schedule.steps,
        repeatable_steps=settings.repeatable_steps,
        noise_multiplier=event.noise_multiplier,
        clip_norm=settings.clip_norm,
        expected_batch_size=schedule.expected_batch_size,
    )


def digest_for(base: Path, params: ProjectSettings, mechanism: Mechanism) -> str:
    """What the trained weights depend on: nothing else makes them be drawn again."""
    roots, settings = Roots(base), params.finetune.chosen
    schema = load_schema(find_input(base, params.prepare.schema_))
    return digest_of(
        version=METHOD_VERSION,
        texts=read_keyed_digest(roots.stamps / "train_texts.json", left_by="prepare"),
        codes=read_keyed_digest(roots.stamps / "train_codes.json", left_by="extract_metadata"),
        start=_pretraining(roots) if settings.model == TINY else settings.model,
        schema=schema.model_dump(mode="json"),
        settings=settings.model_dump(mode="json"),
        privacy=params.privacy.promise,
        event=mechanism.event.as_dict(),
    )


def load_start(settings: DpSgdSettings, roots: Roots, device: torch.device) -> tuple[Any, Any]:
    """The model that training starts from, and its tokenizer."""
    name = settings.model
    if name == TINY:
        name = str(require(roots.public / "pretrained" / "config.json", left_by="pretrain").parent)
    model, tokenizer = models.load(name, device=device)
    models.refuse_beyond_context(model, settings.max_length)
    return model, tokenizer


def units_of(
    base: Path, params: ProjectSettings, schema: Schema, *, tokenizer: Any
) -> Private[tuple[Example, ...]]:
    """Every record of the train part as one training example; a person's make one unit."""
    private = Roots(base).private
    file = private / "prepared" / "train.parquet"
    records = load_records(file)
    codes = load_codes(private / "metadata" / "train.parquet", schema.names)
    units: Private[tuple[Example, ...]] = records.zip_batch(
        codes,
        lambda r, table: examples_of(
            r.texts,
            table,
            schema=schema,
            tokenizer=tokenizer,
            max_length=params.finetune.chosen.max_length,
        ),
    )
    return units if params.privacy.unit is Unit.RECORD else units.joined_by(load_users(file))


def learning_of(settings: DpSgdSettings) -> Learning:
    """AdamW's settings."""
    return Learning(
        learning_rate=settings.learning_rate,
        decay=Decay(settings.decay),
        warmup_steps=settings.warmup_steps,
        weight_decay=settings.weight_decay,
    )


def _trained(
    base: Path,
    params: ProjectSettings,
    mechanism: Mechanism,
    checkpoints: Checkpoints,
    *,
    run_id: str,
) -> tuple[tuple[Any, Any], tuple[str, ...]]:
    """The model without LoRA factors and its tokenizer, and what paid for them."""
    roots, settings, how = Roots(base), params.finetune.chosen, params.finetune
    schema = load_schema(find_input(base, params.prepare.schema_))
    device = open_device(how.device)
    model, tokenizer = load_start(settings, roots, device)
    if how.activation_checkpointing:
        model.activation_checkpointing_enable()
    if settings.lora_rank is not None:
        model = models.with_lora(model, rank=settings.lora_rank)
    units = units_of(base, params, schema, tokenizer=tokenizer)
    _tell_cut(units, roots, end=tokenizer.eos_token_id)
    trained = train(
        model,
        units,
        mechanism=mechanism,
        learning=learning_of(settings),
        performance=Performance(
            micro_batch_tokens=how.micro_batch_tokens,
            bfloat16=how.precision == "bfloat16"
            or (how.precision == "auto" and device.type == "cuda"),
            clipping=Clipping(how.clipping),
            checkpoint_every=how.checkpoint_every,
        ),
        probe=probe_examples(len(tokenizer), max_length=settings.max_length),
        checkpoints=checkpoints,
        session=open_session(params, base, stage=NAME, run=run_id),
        report=_say,
    )
    plain = models.merged(trained.value).to(torch.device("cpu"))
    return (plain, tokenizer), trained.ledger_ids


def _tell_cut(units: Private[tuple[Example, ...]], roots: Roots, *, end: int) -> None:
    make_private(roots.internal)
    with atomic_file(roots.internal / f"{NAME}.json") as path:
        path.write_text(json.dumps({"texts_cut": truncated(units, end=end)}) + "\n")


def _pretraining(roots: Roots) -> str:
    path = require(roots.public / "pretrained" / "pretrain.json", left_by="pretrain")
    return str(json.loads(path.read_text())["digest"])


def _metadata_ids(roots: Roots) -> list[str]:
    return list(read_release(roots.released / "metadata")["ledger_ids"])


def _say(progress: Progress) -> None:
    print(
        f"{NAME}: step {progress.step} of {progress.steps}, epsilon {progress.epsilon:.3g} by the "
        f"plan, {progress.expected_examples_per_s:.0f} examples/s expected, "
        f"{progress.remaining_s / 60:.1f} minutes left",
        flush=True,
    )


if __name__ == "__main__":
    stage.main(NAME, run)
