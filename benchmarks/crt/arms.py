"""The arms: what each trains on, and how. All start from one model, trained on the public texts."""

from __future__ import annotations

import copy
import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.crt.corpus import Corpus, Planted
from benchmarks.crt.grid import Arm, Grid, Model, Point
from sugarbush.crt.confidentiality import bayesian, noise_for
from sugarbush.crt.lstm import LstmModel
from sugarbush.crt.marked import marked_units
from sugarbush.crt.screening import screen
from sugarbush.crt.selective import SelectiveMechanism, train_selectively, true_cost
from sugarbush.crt.sentences import sentences_of
from sugarbush.crt.train import PublicPass, train_by_crt
from sugarbush.crt.units import add_mask_token, text_units
from sugarbush.dpsgd import models
from sugarbush.dpsgd.checkpoints import Checkpoints
from sugarbush.dpsgd.data import probe_examples
from sugarbush.dpsgd.language_modelling import Example
from sugarbush.dpsgd.ordinary import train_on_public, train_without_privacy
from sugarbush.dpsgd.sampling import Schedule, make_schedule
from sugarbush.dpsgd.train import Clipping, Decay, Learning, Mechanism, Performance, train
from sugarbush.paths import whole_file
from sugarbush.privacy.accounting import Relation, epsilon
from sugarbush.privacy.kinds import Private
from sugarbush.privacy.ledger import Ledger
from sugarbush.privacy.unit import Unit

PERFORMANCE = Performance(
    micro_batch_tokens=8192, bfloat16=False, clipping=Clipping.BOOK_KEEPING, checkpoint_every=10**9
)


@dataclass(frozen=True)
class Start:
    """What all arms of a set and a model begin with."""

    model: Any
    tokenizer: Any
    context: int

    def examples(self, texts: Sequence[str]) -> list[tuple[Example]]:
        return text_units(texts, tokenizer=self.tokenizer, max_length=self.context)


@dataclass(frozen=True, kw_only=True)
class Trained:
    """A trained model, its noise multiplier (0: none) and what it promises at the grid's delta.

    `epsilon` is of adding or removing a record (dpsgd), Bayesian (crt), of a secret where the
    policy misses none (sdp at gamma 0), or 0 (public); infinite for the others.
    """

    model: Any
    noise: float
    epsilon: float


def make_start(corpus: Corpus, grid: Grid, model: Model, *, kept: Path) -> Start:
    """The model after its public texts. `kept` holds its weights once it has been trained."""
    shapes, training = grid.shapes, grid.training
    tokenizer = models.train_tokenizer(corpus.public, vocabulary=shapes.vocabulary)
    add_mask_token(tokenizer)
    made: Any = (
        LstmModel(vocabulary=len(tokenizer), width=shapes.lstm_width, seed=1)
        if model is Model.LSTM
        else models.new_model(
            tokenizer,
            models.Shape(
                layers=shapes.gpt2_layers, width=shapes.gpt2_width, heads=2, context=shapes.context
            ),
            seed=1,
        )
    )
    start = Start(made, tokenizer, shapes.context)
    if kept.exists():
        made.load_state_dict(torch.load(kept, weights_only=True))
        return start
    train_on_public(
        made,
        [example for (example,) in start.examples(corpus.public)],
        learning=_learning(training.learning_rate, Decay.LINEAR),
        epochs=training.public_epochs,
        batch_size=training.batch_size,
        micro_batch_tokens=PERFORMANCE.micro_batch_tokens,
        bfloat16=False,
        seed=1,
    )
    with whole_file(kept) as path:
        torch.save(made.state_dict(), path)
    return start


def train_arm(start: Start, corpus: Corpus, planted: Planted, grid: Grid, point: Point) -> Trained:
    """Train a copy of the first model by the arm of `point`."""
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(
            Path(folder) / "state",
            dataset="benchmark",
            purpose="benchmark",
            unit=Unit.RECORD,
            cap=math.inf,
            delta=grid.delta,
        )
        run = {"ledger": ledger, "stage": "finetune", "run": point.key(grid)}
        model = copy.deepcopy(start.model)
        if point.arm is Arm.PUBLIC:
            return Trained(model=model, noise=0.0, epsilon=0.0)
        if point.arm is Arm.SDP:
            return _selectively(model, start, planted, grid, run=run)
        units = _units(start, corpus, planted, point)
        if point.arm in (Arm.NONPRIVATE, Arm.REDACT_ONLY):
            return _ordinarily(model, units, grid, point, run=run)
        return _noisily(model, units, start, grid, point, run=run, folder=Path(folder))


def _units(
    start: Start, corpus: Corpus, planted: Planted, point: Point
) -> Private[Sequence[Example]]:
    texts = Private(planted.texts)
    if point.arm in (Arm.REDACT_ONLY, Arm.CRT):
        texts = screen(texts, policy=planted.policy, known=sentences_of(corpus.public)).texts
    return texts.map_batch(start.examples)


def _ordinarily(
    model: Any, units: Private[Any], grid: Grid, point: Point, *, run: dict[str, Any]
) -> Trained:
    training = grid.training
    train_without_privacy(
        model,
        units,
        learning=_learning(training.learning_rate),
        epochs=training.epochs,
        batch_size=training.batch_size,
        micro_batch_tokens=PERFORMANCE.micro_batch_tokens,
        bfloat16=False,
        seed=point.seed,
        **run,
    )
    return Trained(model=model, noise=0.0, epsilon=math.inf)


def _noisily(
    model: Any,
    units: Private[Any],
    start: Start,
    grid: Grid,
    point: Point,
    *,
    run: dict[str, Any],
    folder: Path,
) -> Trained:
    assert point.epsilon is not None
    training = grid.training
    schedule = noisy_schedule(grid, point.set_name)
    confidential = point.arm is Arm.CRT
    gamma = accounted_gamma(grid, point) if confidential else 1.0
    relation = Relation.REPLACE_ONE if confidential else Relation.ADD_OR_REMOVE_ONE
    noise = noise_for(
        point.epsilon, gamma=gamma, delta=grid.delta, rate=schedule.rate, steps=schedule.steps,
        relation=relation,
    )  # fmt: skip
    mechanism = Mechanism(
        rate=schedule.rate,
        steps=schedule.steps,
        repeatable_steps=0,
        noise_multiplier=noise,
        clip_norm=training.clip_norm,
        expected_batch_size=schedule.expected_batch_size,
        relation=relation,
    )
    common: dict[str, Any] = {
        "mechanism": mechanism,
        "learning": _learning(training.noisy_learning_rate),
        "performance": PERFORMANCE,
        "probe": probe_examples(len(start.tokenizer), max_length=start.context),
        "checkpoints": Checkpoints(folder / "checkpoints"),
        **run,
    }
    if not confidential:
        train(model, units, **common)
        return Trained(
            model=model, noise=noise, epsilon=epsilon([mechanism.event], delta=grid.delta)
        )
    # The public part has been trained on before; the headline is without a conservative policy.
    own = PublicPass(
        learning=_learning(training.learning_rate), batch_size=training.batch_size, seed=point.seed
    )
    train_by_crt(model, public=Private([]), private=units, public_pass=own, **common)
    promised = bayesian(mechanism.event, gamma=gamma, delta=grid.delta)
    return Trained(model=model, noise=noise, epsilon=promised.epsilon)


def _selectively(
    model: Any, start: Start, planted: Planted, grid: Grid, *, run: dict[str, Any]
) -> Trained:
    """With the noise multiplier that CRT has at the same batch, on gradients and on states."""
    training = grid.training
    schedule = make_schedule(
        batch_size=training.batch_size, epochs=training.epochs, unit_count=len(planted.texts)
    )
    noise = noise_for(
        grid.epsilons[0], gamma=grid.gammas[1], delta=grid.delta, rate=schedule.rate,
        steps=schedule.steps,
    )  # fmt: skip
    mechanism = SelectiveMechanism(
        rate=schedule.rate,
        steps=schedule.steps,
        expected_batch_size=schedule.expected_batch_size,
        gradient_noise=noise,
        state_noise=noise,
        clip_norm=training.selective_clip_norm,
        state_clip_norm=training.selective_clip_norm,
    )
    units = Private(planted.texts).map_batch(
        lambda own: marked_units(
            own, policy=planted.policy, tokenizer=start.tokenizer, max_length=start.context
        )
    )
    train_selectively(
        model, units, mechanism=mechanism, learning=_learning(training.learning_rate), **run
    )
    rate_of_misses = sum(planted.missed) / len(planted.missed)
    return Trained(
        model=model,
        noise=noise,
        epsilon=true_cost(mechanism, gamma=rate_of_misses, delta=grid.delta).epsilon,
    )


def accounted_gamma(grid: Grid, point: Point) -> float:
    """The miss rate that CRT's noise is made for: no smaller than the smallest above 0."""
    return max(point.gamma or 0.0, grid.gammas[1])


def noisy_schedule(grid: Grid, set_name: str) -> Schedule:
    """Rate and steps of the noisy arms: the number of texts is a setting of the grid."""
    return make_schedule(
        batch_size=grid.training.noisy_batch_size,
        epochs=grid.training.noisy_epochs,
        unit_count=grid.sets[set_name].members + grid.canaries * grid.repeats,
    )


def _learning(rate: float, decay: Decay = Decay.CONSTANT) -> Learning:
    return Learning(learning_rate=rate, decay=decay, warmup_steps=0, weight_decay=0.0)
