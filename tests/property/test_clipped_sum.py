"""One more record changes the sum by at most the clip norm, for any other records."""

from functools import cache

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sugarbush.training.dpsgd.clipping import PerRecordClipper
from sugarbush.training.dpsgd.language_modelling import Example, pad_together, record_losses
from tests.unit.training.dpsgd.tiny import record_l2_sensitivity, tiny_gpt2

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
    clipper = PerRecordClipper(model(), clip_norm=clip_norm)
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


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    others=st.lists(examples, min_size=1, max_size=4),
    one=examples,
    clip_norm=st.sampled_from([0.01, 1.0, 3.0, 100.0]),
)
def test_one_record_moves_the_sum_by_at_most_the_clip_norm(others, one, clip_norm):
    assert movement(others, one, clip_norm=clip_norm) <= clip_norm * (1 + 1e-9)


def test_a_mean_over_the_tokens_of_the_batch_would_move_it_by_more():
    """A broken loss that the property must detect: the weight of a record depends on the other
    records."""

    def token_mean(model, batch):
        counts = batch.labels[:, 1:].ne(-100).sum(1)
        return record_losses(model, batch) * counts * len(batch) / counts.sum()

    short = Example(tokens=np.array([3, 4], dtype=np.int32), prompt_length=0)
    long = Example(tokens=np.arange(20, dtype=np.int32), prompt_length=0)
    assert movement([short] * 3, long, clip_norm=3.0, losses_of=token_mean) > 3.0 * 1.2
    assert movement([short] * 3, long, clip_norm=3.0) <= 3.0
