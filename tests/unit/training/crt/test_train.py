"""Tests of CRT's training: its charge, the order of public and private batches, and resuming."""

import math
from dataclasses import replace

import pytest

from sugarbush.errors import BudgetExceededError, InvariantError, PrivacyError
from sugarbush.privacy.accounting import Relation
from sugarbush.privacy.data_types import Private
from sugarbush.privacy.events import ConfidentialTraining
from sugarbush.training.crt import train as crt_module
from sugarbush.training.crt.lstm import LstmModel
from sugarbush.training.crt.train import PublicPass, train_by_crt
from sugarbush.training.dpsgd import train as train_module
from sugarbush.training.dpsgd.checkpoints import Checkpoints
from sugarbush.training.dpsgd.train import Mechanism, Training
from tests.unit.training.dpsgd import small_runs
from tests.unit.training.dpsgd.small_runs import ledger_in, session_of
from tests.unit.training.dpsgd.tiny import relative_error, some_examples, tiny_gpt2, trainable

LEARNING = replace(small_runs.LEARNING, weight_decay=0.0)
MECHANISM = Mechanism(
    rate=0.5,
    steps=4,
    repeatable_steps=2,
    noise_multiplier=5.0,
    clip_norm=1.0,
    expected_batch_size=4.0,
    relation=Relation.REPLACE_ONE,
)
PUBLIC_PASS = PublicPass(learning=LEARNING, batch_size=3, seed=1)
PERFORMANCE = replace(small_runs.PERFORMANCE, checkpoint_every=1)
PRIVATE = [(example,) for example in some_examples(8, seed=2)]
PUBLIC = [(example,) for example in some_examples(6, seed=3)]


def run(folder, *, model=None, public=PUBLIC, private=PRIVATE, cap=math.inf, **changes):
    training = Training(
        mechanism=changes.pop("mechanism", MECHANISM), learning=LEARNING, performance=PERFORMANCE
    )
    settings = {
        "training": training,
        "public_pass": PUBLIC_PASS,
        "probe": some_examples(2, seed=5),
        "checkpoints": Checkpoints(folder / "private" / "run"),
        "session": session_of(ledger_in(folder, cap)),
    }
    model = tiny_gpt2() if model is None else model
    parts = {"public": Private(public), "private": Private(private)}
    return train_by_crt(model, **parts, **(settings | changes))


@pytest.fixture
def order(monkeypatch):
    """Record the training examples of each public pass and of each sample, in order."""
    seen = []
    ordinary, draw = crt_module.train_on_public, train_module.PoissonSampler.draw

    def public(model, examples, **settings):
        seen.append(("public", list(examples)))
        return ordinary(model, examples, **settings)

    def private(self):
        batch = draw(self)
        seen.append(("private", batch))
        return batch

    monkeypatch.setattr(crt_module, "train_on_public", public)
    monkeypatch.setattr(train_module.PoissonSampler, "draw", private)
    return seen


@pytest.mark.parametrize("make", [tiny_gpt2, lambda: LstmModel(vocabulary=211, width=8, seed=1)])
def test_epochs_alternate_and_batches_are_never_mixed(tmp_path, order, make):
    run(tmp_path, model=make())
    assert [kind for kind, _ in order] == ["public", "private", "private"] * 2
    for kind, examples in order:
        of = PUBLIC if kind == "public" else PRIVATE
        assert all(any(example is unit[0] for unit in of) for example in examples)


def test_it_is_charged_as_confidential_training_and_has_no_dp_epsilon(tmp_path):
    released = run(tmp_path)
    ledger = ledger_in(tmp_path)
    (entry,) = ledger.of(released.ledger_ids)
    assert entry.event == ConfidentialTraining(noise_multiplier=5.0, rate=0.5, count=6)
    assert ledger.total() == math.inf


def test_a_finite_cap_refuses_it_before_anything_is_trained(tmp_path, order):
    model = tiny_gpt2()
    before = [p.detach().clone() for p in trainable(model)]
    with pytest.raises(BudgetExceededError):
        run(tmp_path, model=model, cap=100.0)
    assert not order
    assert relative_error(trainable(model), before) == 0


def test_the_public_part_is_learned_without_noise(tmp_path):
    calm = replace(MECHANISM, noise_multiplier=0.0, rate=1.0)
    with_public, without = tiny_gpt2(), tiny_gpt2()
    run(tmp_path / "a", model=with_public, mechanism=calm)
    run(tmp_path / "b", model=without, mechanism=calm, public=[])
    assert relative_error(trainable(with_public), trainable(without)) > 1e-4


def test_a_killed_run_continues_with_the_pass_of_its_epoch(tmp_path, order, monkeypatch):
    take, taken = train_module.NoisyStep.take, []

    def dying(self):
        taken.append(0)
        if len(taken) == 3:
            raise KeyboardInterrupt
        take(self)

    with monkeypatch.context() as patch:
        patch.setattr(train_module.NoisyStep, "take", dying)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path)
    assert [kind for kind, _ in order] == ["public", "private", "private", "public"]
    order.clear()
    run(tmp_path)
    assert [kind for kind, _ in order] == ["public", "private", "private"]
    assert len(ledger_in(tmp_path).entries()) == 1


def test_a_corpus_that_is_all_private_is_trained_by_dp_sgd_alone(tmp_path, order):
    run(tmp_path, public=[])
    assert {kind for kind, _ in order} == {"private"}


def test_texts_that_everybody_may_read_come_in_each_public_pass(tmp_path, order):
    known = some_examples(2, seed=4)
    run(tmp_path, public_pass=replace(PUBLIC_PASS, rehearsal=known))
    passes = [examples for kind, examples in order if kind == "public"]
    assert passes == [[*(example for (example,) in PUBLIC), *known]] * 2
    order.clear()
    run(tmp_path / "b", public=[], public_pass=replace(PUBLIC_PASS, rehearsal=known))
    assert [examples for kind, examples in order if kind == "public"] == [known] * 2


def test_every_epoch_has_its_own_order_of_the_public_part(tmp_path, monkeypatch):
    seeds, ordinary = [], crt_module.train_on_public

    def public(*arguments, seed, **settings):
        seeds.append(seed)
        return ordinary(*arguments, seed=seed, **settings)

    monkeypatch.setattr(crt_module, "train_on_public", public)
    run(tmp_path / "a")
    run(tmp_path / "b")
    assert seeds == seeds[:2] * 2
    assert len(set(seeds)) == 2


def test_a_corpus_that_is_all_public_is_refused(tmp_path):
    with pytest.raises(PrivacyError, match="calls every text public"):
        run(tmp_path, private=[])


def test_accounting_by_adding_or_removing_is_refused(tmp_path):
    with pytest.raises(InvariantError, match="REPLACE_ONE"):
        run(tmp_path, mechanism=replace(MECHANISM, relation=Relation.ADD_OR_REMOVE_ONE))
