"""Tests of DP-SGD training: its charge, its noise, what it shows, and resuming after a kill."""

import logging
import math
import shutil
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch

from benchmarks.opacus_hooks import HooksClipper
from sugarbush.errors import (
    BudgetExceededError,
    FailureError,
    InvariantError,
    LedgerError,
    PrivacyError,
)
from sugarbush.privacy.accounting import Relation, epsilon, rounded_up
from sugarbush.privacy.data_types import Private
from sugarbush.privacy.events import DpSgdBound, NonPrivate, PoissonGaussian
from sugarbush.training.dpsgd import train as train_module
from sugarbush.training.dpsgd.checkpoints import Checkpoints
from sugarbush.training.dpsgd.train import Decay, Learning, Mechanism, Training, train
from tests.unit.training.dpsgd.small_runs import LEARNING, PERFORMANCE, ledger_in, session_of
from tests.unit.training.dpsgd.tiny import relative_error, some_examples, tiny_gpt2

UNITS = Private([(example,) for example in some_examples(12)])
PROBE = some_examples(2, seed=5)
MECHANISM = Mechanism(
    rate=0.5,
    steps=6,
    repeatable_steps=2,
    noise_multiplier=20.0,
    clip_norm=1.0,
    expected_batch_size=6.0,
)
# Every unit is in every step and there is no noise, so all runs give the same weights.
EXACT = replace(MECHANISM, rate=1.0, noise_multiplier=0.0, expected_batch_size=12.0)


@pytest.fixture
def ledger(tmp_path):
    return ledger_in(tmp_path)


def run(folder, ledger, *, model=None, units=UNITS, **changes):
    model = tiny_gpt2() if model is None else model
    training = Training(mechanism=MECHANISM, learning=LEARNING, performance=PERFORMANCE)
    training = replace(training, **{n: changes.pop(n) for n in vars(training) if n in changes})
    settings = {
        "training": training,
        "probe": PROBE,
        "checkpoints": Checkpoints(folder / "private" / "run"),
        "session": session_of(ledger),
    }
    return train(model, units, **(settings | changes))


def weights(model):
    return [p.detach().clone() for p in model.parameters()]


class Killed(Exception):
    pass


def kill_before_step(monkeypatch, number):
    """Make the process die in its step `number`.

    The step is counted, but its result is not stored.
    """
    take, taken = train_module.NoisyStep.take, []

    def dying(self):
        taken.append(0)
        if len(taken) == number:
            raise Killed
        take(self)

    monkeypatch.setattr(train_module.NoisyStep, "take", dying)


def test_the_whole_run_is_charged_once_and_before_its_first_sample(tmp_path, ledger, monkeypatch):
    charged = []
    draw = train_module.PoissonSampler.draw

    def watched(self):
        charged.append([entry.event for entry in ledger.entries()])
        return draw(self)

    monkeypatch.setattr(train_module.PoissonSampler, "draw", watched)
    released = run(tmp_path, ledger)
    event = PoissonGaussian(noise_multiplier=20.0, rate=0.5, count=8)
    assert charged == [[event]] * 6
    assert released.ledger_ids == tuple(entry.id for entry in ledger.entries())


def test_a_run_for_a_dp_count_is_charged_with_its_bound_and_never_outside_it(tmp_path, ledger):
    bound = DpSgdBound(mu=0.1, noise_multiplier=1.0, rate=0.001, steps=100)
    with pytest.raises(InvariantError, match="not within"):
        run(tmp_path, ledger, mechanism=replace(MECHANISM, noise_multiplier=10.0, bound=bound))
    assert not ledger.entries()
    mechanism = replace(MECHANISM, bound=bound)
    released = run(tmp_path, ledger, mechanism=mechanism)
    assert [entry.event for entry in ledger.entries()] == [bound]
    assert run(tmp_path, ledger, mechanism=mechanism).ledger_ids == released.ledger_ids
    with pytest.raises(PrivacyError, match="other settings"):
        run(tmp_path, ledger, mechanism=replace(mechanism, noise_multiplier=30.0))


def test_a_run_beyond_the_cap_takes_no_sample(tmp_path, monkeypatch):
    ledger = ledger_in(tmp_path, cap=0.001)
    monkeypatch.setattr(train_module.PoissonSampler, "draw", lambda self: pytest.fail("drew"))
    model = tiny_gpt2()
    before = weights(model)
    with pytest.raises(BudgetExceededError):
        run(tmp_path, ledger, model=model)
    assert relative_error(weights(model), before) == 0
    assert Checkpoints(tmp_path / "private" / "run").draws == 0


def test_training_without_noise_is_charged_as_not_private(tmp_path, ledger):
    run(tmp_path, ledger, mechanism=EXACT)
    assert [entry.event for entry in ledger.entries()] == [NonPrivate()]
    assert ledger.total() == math.inf


@pytest.mark.slow
def test_training_lowers_the_loss(tmp_path, ledger):
    from sugarbush.training.dpsgd.language_modelling import pad_together, record_losses

    model = tiny_gpt2()
    batch = pad_together(some_examples(12))
    before = float(record_losses(model, batch).mean().detach())
    run(tmp_path, ledger, model=model, mechanism=replace(EXACT, steps=20))
    assert float(record_losses(model, batch).mean().detach()) < before - 0.2


def test_without_noise_the_weights_equal_those_of_opacus_hooks(tmp_path, monkeypatch):
    ours, theirs = tiny_gpt2(), tiny_gpt2()
    run(tmp_path / "ours", ledger_in(tmp_path / "ours"), model=ours, mechanism=EXACT)
    monkeypatch.setattr(
        train_module,
        "PerRecordClipper",
        lambda model, *, clip_norm, bfloat16: HooksClipper(model, clip_norm=clip_norm),
    )
    run(
        tmp_path / "theirs",
        ledger_in(tmp_path / "theirs"),
        model=theirs,
        mechanism=EXACT,
        performance=replace(PERFORMANCE, micro_batch_tokens=10_000),
    )
    assert relative_error(weights(ours), weights(theirs)) < 1e-10
    assert relative_error(weights(ours), weights(tiny_gpt2())) > 1e-3


def test_micro_batches_and_their_order_change_nothing(tmp_path):
    models = [tiny_gpt2(), tiny_gpt2()]
    for tokens, model in zip([20, 10_000], models, strict=True):
        run(
            tmp_path / str(tokens),
            ledger_in(tmp_path / str(tokens)),
            model=model,
            mechanism=EXACT,
            performance=replace(PERFORMANCE, micro_batch_tokens=tokens),
        )
    assert relative_error(weights(models[0]), weights(models[1])) < 1e-10


def test_a_sum_is_divided_by_the_expected_batch_size(tmp_path):
    """The sum must not be divided by the true number of units, which is private.

    AdamW makes the same step for any divisor, so the test compares gradients.
    """
    gradients = []
    for expected in (12.0, 24.0):
        model, folder = tiny_gpt2(), tmp_path / str(expected)
        once = replace(EXACT, steps=1, expected_batch_size=expected)
        run(folder, ledger_in(folder), model=model, mechanism=once)
        gradients.append([p.grad.clone() * expected for p in model.parameters()])
    assert relative_error(*gradients) < 1e-12


def test_an_empty_sample_is_a_step_of_noise(tmp_path, ledger, monkeypatch):
    draws = []
    monkeypatch.setattr(train_module.PoissonSampler, "draw", lambda self: [])
    noise = train_module.NoisyOptimizer.add_noise
    monkeypatch.setattr(
        train_module.NoisyOptimizer, "add_noise", lambda self: (draws.append(0), noise(self))
    )
    model = tiny_gpt2()
    run(tmp_path, ledger, model=model)
    assert len(draws) == MECHANISM.steps
    assert relative_error(weights(model), weights(tiny_gpt2())) > 0


def test_noise_is_added_once_per_step_for_any_number_of_micro_batches(
    tmp_path, ledger, monkeypatch
):
    calls = []
    monkeypatch.setattr(
        "sugarbush.training.dpsgd.optimizer.add_gaussian",
        lambda tensors, *, stddev: calls.append((len(list(tensors)), stddev)),
    )
    run(
        tmp_path,
        ledger,
        mechanism=replace(MECHANISM, rate=1.0),
        performance=replace(PERFORMANCE, micro_batch_tokens=20),
    )
    assert calls == [(len(weights(tiny_gpt2())), 20.0)] * MECHANISM.steps


def test_a_step_of_many_micro_batches_has_the_noise_that_is_accounted_for(tmp_path, ledger):
    """n is about 34,000, limit |z| < 5, false-alarm rate 6e-7.

    If noise were added per micro-batch, |z| would be above 100. The clipped sum of 12 records adds
    less than 1e-4 to the variance.
    """
    model = tiny_gpt2()
    once = replace(MECHANISM, steps=1, rate=1.0)
    run(
        tmp_path, ledger, model=model, mechanism=once,
        performance=replace(PERFORMANCE, micro_batch_tokens=20),
    )  # fmt: skip
    drawn = torch.cat([p.grad.flatten() for p in model.parameters()]) * once.expected_batch_size
    variance = float((drawn / once.noise_multiplier).square().mean())
    assert len(drawn) > 30_000
    assert abs(variance - 1) * math.sqrt(len(drawn) / 2) < 5


def test_a_killed_run_continues_from_its_checkpoint_and_repeated_steps_cost_budget(
    tmp_path, ledger, monkeypatch
):
    model = tiny_gpt2()
    with monkeypatch.context() as patch, pytest.raises(Killed):
        kill_before_step(patch, 4)
        run(tmp_path, ledger, model=model, mechanism=EXACT)
    checkpoints = Checkpoints(tmp_path / "private" / "run")
    assert (checkpoints.step(), checkpoints.draws) == (2, 4)
    resumed, whole = tiny_gpt2(), tiny_gpt2()
    run(tmp_path, ledger, model=resumed, mechanism=EXACT)
    assert (checkpoints.step(), checkpoints.draws) == (6, 8)
    assert len(ledger.entries()) == 1
    run(tmp_path / "whole", ledger_in(tmp_path / "whole"), model=whole, mechanism=EXACT)
    assert relative_error(weights(resumed), weights(whole)) < 1e-12


def test_a_run_that_has_nothing_left_to_repeat_stops_early(tmp_path, ledger, monkeypatch):
    mechanism = replace(MECHANISM, repeatable_steps=0)
    with monkeypatch.context() as patch, pytest.raises(Killed):
        kill_before_step(patch, 4)
        run(tmp_path, ledger, mechanism=mechanism)
    run(tmp_path, ledger, mechanism=mechanism)
    checkpoints = Checkpoints(tmp_path / "private" / "run")
    assert (checkpoints.step(), checkpoints.draws) == (4, 6)
    assert [entry.event for entry in ledger.entries()] == [mechanism.event]


def test_repeated_kills_never_take_more_steps_than_were_charged(tmp_path, ledger, monkeypatch):
    for number in (1, 2, 2, 1):
        with monkeypatch.context() as patch, pytest.raises(Killed):
            kill_before_step(patch, number)
            run(tmp_path, ledger)
    run(tmp_path, ledger)
    checkpoints = Checkpoints(tmp_path / "private" / "run")
    assert (checkpoints.step(), checkpoints.draws) == (2, MECHANISM.draws)
    assert [entry.event for entry in ledger.entries()] == [MECHANISM.event]


def test_an_old_copy_of_the_private_root_does_not_pay_for_steps_twice(
    tmp_path, ledger, monkeypatch
):
    """An old copy of data/private is restored.

    The copy was made before the first checkpoint. After that, five steps were drawn.
    """
    taken = []
    draw = train_module.PoissonSampler.draw
    monkeypatch.setattr(
        train_module.PoissonSampler, "draw", lambda self: (taken.append(0), draw(self))[1]
    )
    private, counts = tmp_path / "private" / "run", tmp_path / "state"
    counts.mkdir()
    with monkeypatch.context() as patch, pytest.raises(Killed):
        kill_before_step(patch, 1)
        run(tmp_path, ledger, checkpoints=Checkpoints(private, counts=counts))
    shutil.copytree(private, tmp_path / "copy")
    with monkeypatch.context() as patch, pytest.raises(Killed):
        kill_before_step(patch, 6)
        run(tmp_path, ledger, checkpoints=Checkpoints(private, counts=counts))
    shutil.rmtree(private)
    (tmp_path / "copy").rename(private)
    run(tmp_path, ledger, checkpoints=Checkpoints(private, counts=counts))
    assert len(taken) <= MECHANISM.draws
    assert Checkpoints(private, counts=counts).draws == MECHANISM.draws


def test_a_run_without_its_count_of_noisy_steps_does_not_continue(tmp_path, ledger):
    run(tmp_path, ledger)
    for count in (tmp_path / "private" / "run").glob("draws-*"):
        count.unlink()
    with pytest.raises(PrivacyError, match="count"):
        run(tmp_path, ledger)


def test_a_run_that_lost_all_it_paid_for_says_so(tmp_path, ledger, monkeypatch):
    for _ in range(MECHANISM.draws):
        with monkeypatch.context() as patch, pytest.raises(Killed):
            kill_before_step(patch, 1)
            run(tmp_path, ledger)
    with pytest.raises(PrivacyError, match="checkpoint_every"):
        run(tmp_path, ledger)
    assert Checkpoints(tmp_path / "private" / "run").draws == MECHANISM.draws


def test_a_finished_run_is_restored_without_new_noise(tmp_path, ledger, monkeypatch):
    first, again = tiny_gpt2(), tiny_gpt2()
    run(tmp_path, ledger, model=first)
    monkeypatch.setattr(train_module.PoissonSampler, "draw", lambda self: pytest.fail("drew"))
    run(tmp_path, ledger, model=again)
    assert relative_error(weights(again), weights(first)) == 0
    assert len(ledger.entries()) == 1


def test_a_run_does_not_go_on_under_other_settings(tmp_path, ledger):
    run(tmp_path, ledger)
    with pytest.raises(PrivacyError, match="other settings"):
        run(tmp_path, ledger, mechanism=replace(MECHANISM, noise_multiplier=1.0))


def test_a_run_does_not_go_on_without_its_ledger(tmp_path, ledger):
    run(tmp_path, ledger)
    with pytest.raises(LedgerError):
        run(tmp_path, ledger_in(tmp_path / "another"))


def test_checkpoints_are_private_and_hold_no_state_of_a_generator(tmp_path, ledger):
    run(tmp_path, ledger)
    folder = tmp_path / "private" / "run"
    assert folder.stat().st_mode & 0o777 == 0o700
    (entry,) = ledger.entries()
    assert {p.name for p in folder.iterdir()} == {"start.json", f"draws-{entry.id}", "step-6.pt"}
    state = torch.load(folder / "step-6.pt", weights_only=True)
    assert state.keys() == {"weights", "optimizer"}


@pytest.mark.slow
def test_the_progress_bar_follows_from_settings_alone(tmp_path, ledger, monkeypatch):
    shown, totals = [], []

    @contextmanager
    def recorded(total, *, what, private):
        totals.append((total, what, private))
        yield lambda done, note: shown.append((done, note))

    monkeypatch.setattr(train_module, "progress", recorded)
    run(tmp_path, ledger)
    assert totals == [(6, "training with noise", False)]
    assert [done for done, _ in shown] == [1] * 6
    run(tmp_path / "crt", ledger, mechanism=replace(MECHANISM, relation=Relation.REPLACE_ONE))
    assert totals.pop()[2]  # its steps follow from the exact number of units
    del shown[6:]
    cost = rounded_up(epsilon([MECHANISM.after(6)], delta=1e-5), 3)
    assert shown[-1][1] == f"epsilon {cost} by the plan"
    shown.clear()
    run(tmp_path / "longer", ledger, mechanism=replace(MECHANISM, steps=90))
    assert 10 <= sum(bool(note) for _, note in shown) <= 20  # each one takes time


def test_nothing_is_written_or_logged_of_the_records(tmp_path, ledger, capfd, caplog):
    caplog.set_level(logging.INFO)
    run(tmp_path, ledger)
    out, err = capfd.readouterr()
    assert (out, err, caplog.text) == ("", "", "")


def test_a_diverged_run_fails(tmp_path, ledger):
    model = tiny_gpt2()
    with pytest.raises(FailureError, match="learning_rate"):
        run(tmp_path, ledger, model=model, learning=replace(LEARNING, learning_rate=math.inf))


def test_a_model_that_cannot_be_clipped_exactly_is_refused_before_the_charge(
    tmp_path, ledger, monkeypatch
):
    from sugarbush.training.dpsgd import record_gradients

    inner = record_gradients._inner
    monkeypatch.setattr(
        record_gradients,
        "_inner",
        lambda a, b: torch.zeros(2).double() if type(a) is not type(b) else inner(a, b),
    )
    with pytest.raises(PrivacyError, match="exactly"):
        run(tmp_path, ledger)
    assert ledger.entries() == ()


def test_learning_rates_warm_up_and_decay():
    linear = Learning(learning_rate=8.0, decay=Decay.LINEAR, warmup_steps=2, weight_decay=0.0)
    assert [linear.rate_at(s, steps=6) for s in range(6)] == [4, 8, 8, 6, 4, 2]
    constant = replace(linear, decay=Decay.CONSTANT)
    assert [constant.rate_at(s, steps=4) for s in range(4)] == [4, 8, 8, 8]


def test_too_little_memory_names_the_setting_to_lower(tmp_path, ledger, monkeypatch):
    losses_of = train_module.record_losses

    def full(model, batch):
        if len(batch) > len(PROBE):  # the trial before the training has enough memory
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 384.00 MiB")
        return losses_of(model, batch)

    monkeypatch.setattr(train_module, "record_losses", full)
    large = replace(PERFORMANCE, micro_batch_tokens=4096)
    with pytest.raises(FailureError, match=r"memory on cpu; lower micro_batch_tokens=4096$"):
        run(tmp_path, ledger, mechanism=EXACT, performance=large)
