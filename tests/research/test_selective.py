"""Tests of selective DP-SGD: which gradients and states are clipped and get noise, and its cost."""

import copy
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from dp_accounting import get_epsilon_gaussian

from research.leakage import selective
from research.leakage.selective import (
    MarkedExample,
    SelectiveMechanism,
    marked_examples,
    train_selectively,
    true_cost,
)
from sugarbush.training.crt.lstm import LstmModel
from sugarbush.training.crt.patterns import RegexDetector
from sugarbush.training.crt.redact import Policy
from sugarbush.training.dpsgd import models
from tests.unit.training.dpsgd.small_runs import LEARNING
from tests.unit.training.dpsgd.tiny import record_l2_sensitivity, relative_error

MECHANISM = SelectiveMechanism(
    rate=0.5,
    steps=4,
    expected_batch_size=2.0,
    gradient_noise=1.0,
    state_noise=1.0,
    clip_norm=0.01,
    state_clip_norm=1.0,
)


def gradient_sums(model, examples, mechanism):
    return selective.gradient_sums(model, examples, mechanism, torch.Generator().manual_seed(1))


@pytest.fixture
def model():
    return LstmModel(vocabulary=30, width=8, seed=1)


def example(*tokens, private=()):
    flags = np.zeros(len(tokens), dtype=bool)
    flags[list(private)] = True
    return MarkedExample(tokens=np.array(tokens, dtype=np.int32), private=flags)


@pytest.fixture
def no_state_noise(monkeypatch):
    monkeypatch.setattr(selective, "add_noise", lambda tensors, *, stddev, noise: None)


def test_with_nothing_private_it_is_ordinary_training(model):
    one = example(1, 2, 3, 4)
    sums = gradient_sums(model, [one], MECHANISM)
    ids = torch.tensor([[1, 2, 3, 4]])
    loss = torch.nn.functional.cross_entropy(model(ids).logits[0, :-1], ids[0, 1:])
    expected = torch.autograd.grad(loss, list(model.parameters()))
    assert relative_error(sums.public, expected) < 1e-5
    assert record_l2_sensitivity(sums.private) == 0


def test_a_found_secret_moves_the_clipped_sum_alone_and_by_twice_the_clip_norm_at_most(
    model, no_state_noise
):
    # Without noise, the state would show the secret to the tokens after it. So the span is at the
    # end of the text.
    one = gradient_sums(model, [example(1, 2, 3, 20, private=[3])], MECHANISM)
    other = gradient_sums(model, [example(1, 2, 3, 21, private=[3])], MECHANISM)
    assert relative_error(one.public, other.public) == 0
    moved = record_l2_sensitivity([a - b for a, b in zip(one.private, other.private, strict=True)])
    assert 0 < moved <= 2 * MECHANISM.clip_norm


def test_a_missed_secret_moves_the_sum_that_gets_no_clipping(model):
    # The secret is the same, but it is not marked as private. Such a missed secret is why epsilon
    # is infinite.
    one = gradient_sums(model, [example(1, 2, 3, 20)], MECHANISM)
    other = gradient_sums(model, [example(1, 2, 3, 21)], MECHANISM)
    moved = record_l2_sensitivity([a - b for a, b in zip(one.public, other.public, strict=True)])
    assert moved > 10 * 2 * MECHANISM.clip_norm
    assert true_cost(MECHANISM, gamma=1e-6, delta=1e-5) == math.inf


def test_public_tokens_see_a_secret_only_through_the_noisy_state(model):
    # The clip norm of the state is nearly 0, so the tokens after a span cannot depend on the span.
    # Both runs add the same noise, so they differ by their tokens only.
    narrow = replace(MECHANISM, state_clip_norm=1e-9, state_noise=1e9)
    one = gradient_sums(model, [example(1, 20, 22, 3, 4, private=[1, 2])], narrow)
    other = gradient_sums(model, [example(1, 21, 23, 3, 4, private=[1, 2])], narrow)
    assert record_l2_sensitivity(one.public) > 0
    assert relative_error(one.public, other.public) < 1e-6


def test_the_state_is_clipped_before_it_is_noised(model, no_state_noise):
    seen = []
    take = model._next

    def watched(inputs, state):
        seen.append(torch.cat([state.hidden, state.cell], dim=1).detach())
        return take(inputs, state)

    model._next = watched
    with torch.no_grad():
        model.from_input.bias.fill_(5.0)
    gradient_sums(model, [example(1, 2, 3, 4, private=[1])], MECHANISM)
    assert float(seen[2].norm()) <= 1.0 + 1e-6
    assert float(seen[3].norm()) > 1.0


def test_both_passes_share_the_noise_on_states(model, monkeypatch):
    draws = []
    monkeypatch.setattr(selective, "add_noise", lambda t, *, stddev, noise: draws.append(stddev))
    gradient_sums(model, [example(1, 2, 3, private=[1])], MECHANISM)
    assert len(draws) == 1


def test_an_empty_sample_has_zeros(model):
    sums = gradient_sums(model, [], MECHANISM)
    assert record_l2_sensitivity(sums.public) == record_l2_sensitivity(sums.private) == 0


@pytest.mark.slow
def test_its_cost_without_misses_counts_both_releases_and_no_amplification():
    # In 400 steps at rate 0.01, a record is expected in 4 steps. It is in more than 15 steps with a
    # probability below 5e-6.
    mechanism = replace(MECHANISM, rate=0.01, steps=400, gradient_noise=16.0, state_noise=12.0)
    found = true_cost(mechanism, gamma=0.0, delta=1e-5)
    least = 2 * math.sqrt(4 * (1 / 256 + 1 / 144))
    assert found > get_epsilon_gaussian(1 / least, 5e-6)
    most = 2 * math.sqrt(16 * (1 / 256 + 1 / 144))
    assert found <= get_epsilon_gaussian(1 / most, 5e-6)
    for silent in ({"gradient_noise": 1e9}, {"state_noise": 1e9}):
        one_release = true_cost(replace(mechanism, **silent), gamma=0.0, delta=1e-5)
        assert 0 < one_release < found


def test_training_learns_and_can_be_repeated(model):
    one = example(1, 2, 3, 4, 5, 6, private=[5])
    ids = torch.tensor([[1, 2, 3, 4, 5]])

    def loss():
        with torch.no_grad():
            logits = model(ids).logits[0, :-1]
        return float(torch.nn.functional.cross_entropy(logits, ids[0, 1:]))

    before = loss()
    learning = replace(LEARNING, learning_rate=0.02)
    again = copy.deepcopy(model)
    for trained in (model, again):
        train_selectively(
            trained,
            [one] * 4,
            mechanism=replace(MECHANISM, steps=60),
            learning=learning,
            seed=1,
        )
    assert loss() < before - 0.5
    for one_run, other in zip(model.parameters(), again.parameters(), strict=True):
        assert torch.equal(one_run, other)


def test_a_token_that_a_span_touches_is_private_for_selective_training():
    tokenizer = models.train_tokenizer(["call 555-010-2345 now"] * 5, vocabulary=300)
    (example,) = marked_examples(
        ["call 555-010-2345 now"],
        policy=Policy([RegexDetector(["PHONE"])]),
        tokenizer=tokenizer,
        max_length=64,
    )
    assert len(example.tokens) == len(example.private)
    private = tokenizer.decode(example.tokens[example.private]).strip()
    public = tokenizer.decode(example.tokens[~example.private])
    assert private == "555-010-2345"
    assert "555" not in public
