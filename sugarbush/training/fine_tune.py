"""Fine-tunes one model on one private corpus, with its own budget plan."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from sugarbush.privacy.budget import BudgetRequest, Subsampling, make_plan, with_subsampling
from sugarbush.privacy.data_types import Private, Released
from sugarbush.privacy.events import PoissonGaussian
from sugarbush.privacy.session import PrivacySession
from sugarbush.privacy.spending import WHEN_WRITTEN, spending_of
from sugarbush.training.device import open_device
from sugarbush.training.dpsgd import models
from sugarbush.training.dpsgd.checkpoints import Checkpoints
from sugarbush.training.dpsgd.data import plain_examples, probe_examples
from sugarbush.training.dpsgd.sampling import make_schedule
from sugarbush.training.dpsgd.settings import FineTuning
from sugarbush.training.dpsgd.train import (
    Decay,
    Learning,
    Mechanism,
    Training,
    performance_on,
    train,
)

_PART = "training"


def fine_tune(
    texts: Private[str],
    settings: FineTuning,
    *,
    epsilon: float,
    session: PrivacySession,
    checkpoints: Path,
    counts: Path,
    output: Path,
) -> Released[float]:
    """Train, write the model to `output`, and return the epsilon that was spent.

    Guarantee: see `training.dpsgd.train.train`. The noise is the smallest noise for which all steps
    together cost at most `epsilon` at the ledger's delta.
    """
    schedule = make_schedule(
        batch_size=settings.batch_size, epochs=settings.epochs, unit_count=settings.records
    )
    delta = session.ledger.delta
    plan = with_subsampling(
        make_plan([BudgetRequest(name=_PART, share=1.0, count=0)], epsilon=epsilon, delta=delta),
        {_PART: Subsampling(rate=schedule.rate, steps=schedule.steps)},
        epsilon=epsilon,
    )
    event = plan.of(_PART).subsampled
    assert isinstance(event, PoissonGaussian)
    device = open_device(settings.device)
    model, tokenizer = models.load(settings.model, device=device)
    models.refuse_beyond_context(model, settings.max_length)
    if settings.lora_rank is not None:
        model = models.with_lora(model, rank=settings.lora_rank)
    trained = train(
        model,
        texts.map_batch(
            lambda batch: plain_examples(batch, tokenizer=tokenizer, max_length=settings.max_length)
        ),
        training=Training(
            mechanism=Mechanism(
                rate=schedule.rate,
                steps=schedule.steps,
                repeatable_steps=0,
                noise_multiplier=event.noise_multiplier,
                clip_norm=settings.clip_norm,
                expected_batch_size=schedule.expected_batch_size,
            ),
            learning=Learning(
                learning_rate=settings.learning_rate,
                decay=Decay.LINEAR,
                warmup_steps=0,
                weight_decay=0.0,
            ),
            performance=performance_on(
                device,
                max_length=settings.max_length,
                micro_batch_tokens=settings.micro_batch_tokens,
                checkpoint_every=1,
            ),
        ),
        probe=probe_examples(len(tokenizer), max_length=settings.max_length),
        checkpoints=Checkpoints(checkpoints, counts=counts),
        session=session,
    )
    models.save(models.merged(trained.value).to(torch.device("cpu")), tokenizer, output)
    spending = spending_of(session.ledger.snapshot(), trained.ledger_ids)
    card = {
        "epsilon": spending.epsilon,
        "epsilon_of_this_run": spending.of_run,
        "dataset_total_epsilon": spending.total,
        "delta": delta,
        "noise_multiplier": event.noise_multiplier,
        "sampling_rate": schedule.rate,
        "steps": schedule.steps,
        "clip_norm": settings.clip_norm,
        "unit": session.ledger.unit.value,
        "ledger_ids": list(trained.ledger_ids),
        "remarks": [WHEN_WRITTEN],
    }
    (output / "model_card.json").write_text(json.dumps(card, indent=1) + "\n")
    return Released(spending.of_run, trained.ledger_ids)
