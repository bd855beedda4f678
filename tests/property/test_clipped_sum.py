"""Tests that one record changes a clipped sum by at most the clip norm, for any other records."""

from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from sugarbush.training.dpsgd.clipping import PerRecordClipper
from sugarbush.training.dpsgd.language_modelling import Example, pad_together, record_losses
from tests.unit.training.dpsgd.tiny import USUAL_LENGTH, record_l2_sensitivity, tiny_gpt2

examples = st.builds(
    lambda tokens, prompt: Example(
        tokens=np.array(tokens, dtype=np.int32), prompt_length=min(prompt, len(tokens))
    ),
    st.lists(st.integers(0, 210), min_size=1, max_size=12),
    st.integers(0, 12),
)


@cache
def model():
    return tiny_gpt2()


def clipped_sum(batch, *, clip_norm, losses_of):
    clipper = PerRecordClipper(model(), clip_norm=clip_norm, usual_length=USUAL_LENGTH)
    with clipper.recording(records=len(batch)):
        clipper.add_clipped(losses_of(model(), pad_together(batch)))
    clipper.remove()
    found = [p.grad for p in model().parameters()]
    model().zero_grad(set_to_none=True)
    return found


def movement(others, one, *, clip_norm, losses_of=record_losses):
    with_it = clipped_sum([*others, one], clip_norm=clip_norm, losses_of=losses_of)
    without = clipped_sum(others, clip_norm=clip_norm, losses_of=losses_of)
    return record_l2_sensitivity([a - b for a, b in zip(with_it, without, strict=True)])


@settings(max_examples=60)
@given(
    others=st.lists(examples, min_size=1, max_size=4),
    one=examples,
    clip_norm=st.sampled_from([0.01, 1.0, 3.0, 100.0]),
)
def test_one_record_moves_the_sum_by_at_most_the_clip_norm(others, one, clip_norm):
    assert movement(others, one, clip_norm=clip_norm) <= clip_norm * (1 + 1e-9)


def test_a_mean_over_the_tokens_of_the_batch_would_move_it_by_more():
    """The loss here is deliberately wrong: the weight of a record depends on other records.

    So the property must not hold.
    """

    def token_mean(model, batch):
        counts = batch.labels[:, 1:].ne(-100).sum(1)
        return record_losses(model, batch) * counts * len(batch) / counts.sum()

    short = Example(tokens=np.array([3, 4], dtype=np.int32), prompt_length=0)
    long = Example(tokens=np.arange(20, dtype=np.int32), prompt_length=0)
    assert movement([short] * 3, long, clip_norm=3.0, losses_of=token_mean) > 3.0 * 1.2
    assert movement([short] * 3, long, clip_norm=3.0) <= 3.0


# The largest contribution of a record in clip norms. The clipper's scale covers the rounding of the
# record's own gradient.
OWN_ROUNDING = 2.0**-20
# The largest change of the sum of 1,024 other records: their last bits depend on the padding
# (docs/decisions/dp-sgd-clipping.md).
OTHERS_ROUNDING = 1e-3


@settings(max_examples=150)
@given(
    seed_and_pairs=st.tuples(st.integers(0, 10**6), st.integers(1, 7)),
    shape=st.sampled_from([(32, 32), (700, 32), (32, 700)]),
    lengths=st.sampled_from([(1e-22, 1e17), (1e-3, 1e6), (1.0, 1.0), (3e3, 1e4), (1e8, 1e-3)]),
    remains=st.sampled_from([0.0, 1e-7, 1e-6, 1e-5, 1e-3, 1.0]),
    clip_norm=st.sampled_from([0.01, 1.0, 100.0]),
)
def test_a_record_adds_at_most_the_clip_norm_where_its_terms_cancel(
    seed_and_pairs, shape, lengths, remains, clip_norm
):
    """The layer gets every input twice, with opposite gradients, so its gradient nearly cancels.

    A rest of relative size `remains` is left.
    """
    seed, pairs = seed_and_pairs
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(pairs, shape[0], generator=generator)
    inputs = lengths[0] * torch.cat([inputs, inputs])
    gradients = torch.randn(pairs, shape[1], generator=generator)
    moved = gradients + remains * torch.randn(pairs, shape[1], generator=generator)
    gradients = lengths[1] * torch.cat([gradients, -moved])
    layer = nn.Linear(*shape, bias=False)
    clipper = PerRecordClipper(layer, clip_norm=clip_norm, usual_length=8)
    with clipper.recording(records=1):
        losses = (layer(inputs[None]) * gradients).sum((1, 2))
        clipper.add_clipped(losses)
    assert record_l2_sensitivity([layer.weight.grad]) <= clip_norm * (1 + OWN_ROUNDING)


@pytest.mark.slow
def test_a_longer_record_moves_many_similar_ones_by_their_last_bits_only():
    """A longer record changes the padding of all 1,024 other records. These are so similar that
    their rounding errors add up."""
    rng = np.random.default_rng(1)
    similar = rng.integers(0, 211, 12)

    def record(length):
        tokens = np.concatenate([similar, rng.integers(0, 211, length)])
        return Example(tokens=tokens.astype(np.int32), prompt_length=0)

    others = [record(1) for _ in range(1024)]
    narrow = tiny_gpt2(dtype=torch.float32)

    def moved(one):
        sums = []
        for batch in ([*others, one], others):
            clipper = PerRecordClipper(narrow, clip_norm=0.1, usual_length=USUAL_LENGTH)
            with clipper.recording(records=len(batch)):
                clipper.add_clipped(record_losses(narrow, pad_together(batch)))
            clipper.remove()
            sums.append([p.grad for p in narrow.parameters()])
            narrow.zero_grad(set_to_none=True)
        return record_l2_sensitivity([a - b for a, b in zip(*sums, strict=True)])

    for length in (2, 19, 50):
        found = moved(record(length))
        assert 0.05 < found <= 0.1 * (1 + OTHERS_ROUNDING)
