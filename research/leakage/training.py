"""Trains a model by each method. All methods start from one model trained on public texts."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sugarbush as sb
from research.leakage.corpus import LeakageCorpus, Planted
from research.leakage.first_model import MICRO_BATCH_TOKENS, FirstModel, learning_at
from research.leakage.grid import LeakageGrid, LeakagePoint, TrainingMethod, TrainingSettings
from research.leakage.selective import (
    SelectiveMechanism,
    marked_examples,
    train_selectively,
    true_cost,
)
from sugarbush.privacy import Relation
from sugarbush.randomness import seed_of
from sugarbush.training import (
    Checkpoints,
    Example,
    Mechanism,
    OrdinaryTraining,
    Performance,
    PublicPass,
    Screened,
    Training,
    bayesian,
    make_public_policy,
    make_schedule,
    noise_for,
    probe_examples,
    run_dpsgd,
    screen,
    sentences_of,
    train_by_crt,
    train_on_public,
    train_without_privacy,
)

PERFORMANCE = Performance(
    micro_batch_tokens=MICRO_BATCH_TOKENS,
    checkpoint_every=10**9,
)


@dataclass(frozen=True, kw_only=True)
class Trained:
    """A trained model, its noise multiplier (0 if there is no noise), and its epsilon at `delta`.

    The meaning of `epsilon` depends on the method. The epsilon of dpsgd is for adding or removing
    one record. The epsilon of crt is Bayesian. The epsilon of sdp at gamma 0 is for one secret. The
    epsilon of public is 0. All other epsilons are infinite.
    """

    model: Any
    noise: float
    epsilon: float
    delta: float


@dataclass(frozen=True, kw_only=True)
class LeakageTrial:
    """A point of the grid, with all inputs of its training.

    `delta_2` is an upper bound of the share of secrets that the conservative policy misses.
    `scratch` is a folder for checkpoints; the caller deletes it after the training.
    """

    grid: LeakageGrid
    point: LeakagePoint
    key: str
    start: FirstModel
    corpus: LeakageCorpus
    planted: Planted
    delta_2: float
    ledger: sb.Ledger
    scratch: Path

    @property
    def training(self) -> TrainingSettings:
        return self.grid.models[self.point.model].training

    @property
    def session(self) -> sb.PrivacySession:
        """The session that charges the training."""
        return sb.PrivacySession(ledger=self.ledger, stage="leakage", run=self.key)

    def screened(self, conservative: str | None = None) -> Screened:
        """Return the texts with canaries, screened by the policy that misses some canaries."""
        return screen(
            sb.Private(self.planted.texts),
            policy=self.planted.policy,
            conservative=make_public_policy(conservative),
            known=sentences_of(self.corpus.public),
        )

    @property
    def rehearsal(self) -> list[Example]:
        """Return the public texts as examples. Each public pass trains on these examples."""
        return [example for (example,) in self.start.examples(self.corpus.public)]

    def units(self, texts: sb.Private[str]) -> sb.Private[Any]:
        return texts.map_batch(self.start.examples)


def train_point(trial: LeakageTrial) -> Trained:
    """Train a copy of the first model by the method of the trial's point."""
    model = copy.deepcopy(trial.start.model)
    match trial.point.arm:
        case TrainingMethod.PUBLIC:
            return _on_public(model, trial)
        case TrainingMethod.NONPRIVATE | TrainingMethod.REDACT_ONLY:
            return _ordinarily(model, trial)
        case TrainingMethod.SDP:
            return _selectively(model, trial)
        case TrainingMethod.DPSGD:
            return _by_dpsgd(model, trial)
        case TrainingMethod.CRT | TrainingMethod.CRT_CONSERVATIVE:
            return _by_crt(model, trial)


def _on_public(model: Any, trial: LeakageTrial) -> Trained:
    """Train on the public texts only, in the public passes of the confidential methods. The
    baseline shows the effect of public passes alone.
    """
    for epoch in range(round(trial.training.noisy_epochs)):
        train_on_public(
            model,
            trial.rehearsal,
            training=OrdinaryTraining(
                learning=learning_at(trial.training.learning_rate),
                epochs=1,
                batch_size=trial.training.batch_size,
                micro_batch_tokens=MICRO_BATCH_TOKENS,
                bfloat16=False,
            ),
            seed=seed_of(trial.point.seed, "epoch", epoch),
        )
    return Trained(model=model, noise=0.0, epsilon=0.0, delta=trial.grid.delta)


def _ordinarily(model: Any, trial: LeakageTrial) -> Trained:
    redacted = trial.point.arm is TrainingMethod.REDACT_ONLY
    texts = trial.screened().texts if redacted else sb.Private(trial.planted.texts)
    train_without_privacy(
        model,
        trial.units(texts),
        training=OrdinaryTraining(
            learning=learning_at(trial.training.learning_rate),
            epochs=trial.training.epochs,
            batch_size=trial.training.batch_size,
            micro_batch_tokens=MICRO_BATCH_TOKENS,
            bfloat16=False,
        ),
        seed=trial.point.seed,
        session=trial.session,
    )
    return Trained(model=model, noise=0.0, epsilon=math.inf, delta=trial.grid.delta)


def _by_dpsgd(model: Any, trial: LeakageTrial) -> Trained:
    mechanism = noisy_mechanism(trial, gamma=1.0, relation=Relation.ADD_OR_REMOVE_ONE)
    run_dpsgd(model, trial.units(sb.Private(trial.planted.texts)), **_noisy(trial, mechanism))
    delta = trial.grid.delta
    return Trained(
        model=model,
        noise=mechanism.noise_multiplier,
        epsilon=sb.epsilon([mechanism.event], delta=delta),
        delta=delta,
    )


def _by_crt(model: Any, trial: LeakageTrial) -> Trained:
    """Train by CRT, with noise that is calibrated to the grid's delta.

    With a conservative policy, the delta of the result is the grid's delta plus `delta_2`.
    """
    conservative = (
        trial.grid.conservative if trial.point.arm is TrainingMethod.CRT_CONSERVATIVE else None
    )
    gamma = accounted_gamma(trial.grid, trial.point)
    mechanism = noisy_mechanism(trial, gamma=gamma, relation=Relation.REPLACE_ONE)
    views, private = trial.screened(conservative).public_and_private()
    train_by_crt(
        model,
        public=trial.units(views),
        private=trial.units(private),
        public_pass=PublicPass(
            learning=learning_at(trial.training.learning_rate),
            batch_size=trial.training.batch_size,
            seed=trial.point.seed,
            rehearsal=trial.rehearsal,
        ),
        **_noisy(trial, mechanism),
    )
    delta_2 = trial.delta_2 if conservative else 0.0
    delta = trial.grid.delta + delta_2
    promised = bayesian(mechanism.event, gamma=gamma, delta=delta, delta_2=delta_2)
    return Trained(
        model=model, noise=mechanism.noise_multiplier, epsilon=promised.epsilon, delta=delta
    )


def _noisy(trial: LeakageTrial, mechanism: Mechanism) -> dict[str, Any]:
    return {
        "training": Training(
            mechanism=mechanism,
            learning=learning_at(trial.training.noisy_learning_rate),
            performance=PERFORMANCE,
        ),
        "probe": probe_examples(len(trial.start.tokenizer), max_length=trial.start.context),
        "checkpoints": Checkpoints(trial.scratch / "checkpoints"),
        "session": trial.session,
    }


def _selectively(model: Any, trial: LeakageTrial) -> Trained:
    """Train by selective DP-SGD, with the noise of CRT at the same sampling rate. Gradients and
    hidden states get noise.
    """
    grid, training, planted = trial.grid, trial.training, trial.planted
    schedule = make_schedule(
        batch_size=training.batch_size, epochs=training.epochs, unit_count=len(planted.texts)
    )
    noise = noise_for(
        grid.epsilons[0],
        gamma=grid.gammas[1],
        delta=grid.delta,
        rate=schedule.rate,
        steps=schedule.steps,
    )
    mechanism = SelectiveMechanism(
        rate=schedule.rate,
        steps=schedule.steps,
        expected_batch_size=schedule.expected_batch_size,
        gradient_noise=noise,
        state_noise=noise,
        clip_norm=training.selective_clip_norm,
        state_clip_norm=training.selective_clip_norm,
    )
    train_selectively(
        model,
        marked_examples(
            planted.texts,
            policy=planted.policy,
            tokenizer=trial.start.tokenizer,
            max_length=trial.start.context,
        ),
        mechanism=mechanism,
        learning=learning_at(training.learning_rate),
        seed=trial.point.seed,
    )
    rate_of_misses = sum(planted.missed) / len(planted.missed)
    epsilon = true_cost(mechanism, gamma=rate_of_misses, delta=grid.delta)
    return Trained(model=model, noise=noise, epsilon=epsilon, delta=grid.delta)


def noisy_mechanism(trial: LeakageTrial, *, gamma: float, relation: Relation) -> Mechanism:
    """Return DP-SGD with noise calibrated to the point's epsilon.

    The number of texts is computed from the grid, which is public.
    """
    assert trial.point.epsilon is not None
    grid, training = trial.grid, trial.training
    schedule = make_schedule(
        batch_size=training.noisy_batch_size,
        epochs=training.noisy_epochs,
        unit_count=grid.sets[trial.point.set_name].members + grid.canaries * grid.repeats,
    )
    return Mechanism(
        rate=schedule.rate,
        steps=schedule.steps,
        repeatable_steps=0,
        noise_multiplier=noise_for(
            trial.point.epsilon,
            gamma=gamma,
            delta=grid.delta,
            rate=schedule.rate,
            steps=schedule.steps,
            relation=relation,
        ),
        clip_norm=training.clip_norm,
        expected_batch_size=schedule.expected_batch_size,
        relation=relation,
    )


def accounted_gamma(grid: LeakageGrid, point: LeakagePoint) -> float:
    """Return the miss rate for the calibration of CRT's noise."""
    return max(point.gamma or 0.0, smallest_gamma(grid))


def smallest_gamma(grid: LeakageGrid) -> float:
    """Return the smallest miss rate for the calibration of CRT's noise.

    The chart over epsilon uses this miss rate.
    """
    return grid.gammas[1]
