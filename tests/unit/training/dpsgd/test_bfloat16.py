"""Clipping in bfloat16: a record moves the computed sum by at most the clip norm."""

import itertools
import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from sugarbush.errors import PrivacyError
from sugarbush.privacy.data_types import Private
from sugarbush.training.dpsgd import clipping, record_gradients, sampling
from sugarbush.training.dpsgd.checkpoints import Checkpoints
from sugarbush.training.dpsgd.clipping import EXACT_SHARE, PerRecordClipper
from sugarbush.training.dpsgd.exactness import require_independent
from sugarbush.training.dpsgd.language_modelling import Example, pad_together, record_losses
from sugarbush.training.dpsgd.record_gradients import Factors, RecordGradients, measure
from sugarbush.training.dpsgd.sampling import (
    BatchShape,
    batch_shapes,
    batches_of_fixed_shape,
)
from sugarbush.training.dpsgd.train import Training, performance_on, train
from tests.unit.training.dpsgd.small_runs import LEARNING, PERFORMANCE, ledger_in, session_of
from tests.unit.training.dpsgd.test_train import EXACT, MECHANISM, PROBE
from tests.unit.training.dpsgd.tiny import some_examples, tiny_gpt2, tiny_llama, trainable

SHAPE = BatchShape(records=6, length=24)
SHAPES = batch_shapes(max_length=24, capacity=96)


def sums_of(model, batches, *, clip_norm, shape=SHAPE):
    """The sums that the optimizer gets, for micro-batches of one shape."""
    for parameter in trainable(model):
        parameter.wide_grad = None
    clipper = PerRecordClipper(model, clip_norm=clip_norm, usual_length=16, bfloat16=True)
    for examples in batches:
        with clipper.recording(records=shape.records):
            batch = pad_together(examples, shape=(shape.records, shape.length))
            clipper.add_clipped(record_losses(model, batch))
    clipper.remove()
    return [parameter.wide_grad.clone() for parameter in trainable(model)]


def distance(one, other):
    return math.sqrt(sum(float(((a - b) ** 2).sum()) for a, b in zip(one, other, strict=True)))


@settings(deadline=None, max_examples=12)
@given(seed=st.integers(0, 1000), row=st.integers(0, 8), scale=st.sampled_from([1.0, 30.0, 1e4]))
def test_one_record_moves_the_computed_sum_by_at_most_the_clip_norm(seed, row, scale):
    """The record takes a row, and the record of this row moves to the first free row."""
    model = tiny_gpt2(dtype=torch.float32, seed=seed)
    with torch.no_grad():
        model.transformer.ln_f.weight.mul_(scale)
    *others, record = some_examples(9, seed=seed)
    rows = [*others[:row], record, *others[row + 1 :], *others[row : row + 1]]
    assert sorted(map(id, rows)) == sorted(map(id, [*others, record]))
    batches = [[part[i : i + 6] for i in range(0, len(part), 6)] for part in (others, rows)]
    before, after = (sums_of(model, batch, clip_norm=0.5) for batch in batches)
    moved = distance(before, after)
    assert 0.5 * EXACT_SHARE * 0.8 < moved <= 0.5


def test_a_shorter_record_among_full_ones_moves_the_sum_by_at_most_the_clip_norm():
    """transformers drops a mask without padding, and then this model multiplies in another way."""
    model = tiny_llama(padding_token=3)
    shape = BatchShape(records=65, length=24)
    rng = np.random.default_rng(0)
    full = [
        Example(tokens=rng.integers(0, 200, 24).astype(np.int32), prompt_length=1)
        for _ in range(shape.capacity)
    ]
    short = Example(tokens=full[0].tokens[:23], prompt_length=1)
    sums = []
    for batches in ([full], [[short, *full[1:]], [full[0]]]):
        assert all(len(examples) <= shape.capacity for examples in batches)
        sums.append(sums_of(model, batches, clip_norm=0.05, shape=shape))
    assert distance(*sums) <= 0.05


@pytest.mark.slow
def test_the_check_sees_that_a_batch_without_padding_is_computed_in_another_way(monkeypatch):
    model = tiny_llama(padding_token=3)
    clipper = PerRecordClipper(model, clip_norm=1.0, usual_length=16, bfloat16=True)
    require_independent(model, clipper, shapes=SHAPES)
    monkeypatch.setattr(BatchShape, "capacity", property(lambda shape: shape.records))
    with pytest.raises(PrivacyError, match="depends on the other records"):
        require_independent(model, clipper, shapes=SHAPES)


def test_sums_are_float64_and_the_gradient_is_not_touched():
    model = tiny_gpt2(dtype=torch.float32)
    sums = sums_of(model, [some_examples(6)], clip_norm=1.0)
    assert {total.dtype for total in sums} == {torch.float64}
    assert all(parameter.grad is None for parameter in trainable(model))


def test_rows_without_a_record_add_exactly_nothing():
    model = tiny_gpt2(dtype=torch.float32)
    clipper = PerRecordClipper(model, clip_norm=1.0, usual_length=16, bfloat16=True)
    with clipper.recording(records=6):
        batch = pad_together(some_examples(4), shape=(6, 24))
        norms = clipper.add_clipped(record_losses(model, batch))
    assert norms[4:].tolist() == [0, 0]
    assert (norms[:4] > 0).all()


def bfloat16_factors(seed, *, records, positions, rows, columns, cancel):
    generator = torch.Generator().manual_seed(seed)
    left = torch.randn(records, positions, rows, generator=generator)
    right = torch.randn(records, positions, columns, generator=generator)
    if cancel:  # every row twice, with opposite signs: the true gradient is 0
        left, right = torch.cat([left, left], dim=1), torch.cat([right, -right], dim=1)
    return Factors(left.bfloat16(), right.bfloat16())


def stored(factors):
    own = RecordGradients(records=len(factors.left), usual_length=1, device=torch.device("cpu"))
    own.add(factors)
    return own


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    positions=st.integers(1, 40),
    size=st.sampled_from([(3, 5), (64, 300), (1500, 40)]),
    cancel=st.booleans(),
    scale=st.floats(1e-3, 1.0),
)
def test_what_a_record_adds_is_within_its_bound(seed, positions, size, cancel, scale):
    factors = bfloat16_factors(
        seed, records=1, positions=positions, rows=size[0], columns=size[1], cancel=cancel
    )
    own = stored(factors)
    bound = float(measure([own]).bounds)
    out = torch.zeros(size, dtype=torch.float64)
    own.add_scaled(torch.tensor([scale], dtype=torch.float64), out=out)
    assert float(out.norm()) <= bound * scale * (1 + 2**-20)


def test_the_bound_has_every_term_of_its_proof():
    """docs/decisions/dp-sgd-clipping.md. Measured errors are smaller, so they show no lost term."""
    factors = bfloat16_factors(1, records=1, positions=4, rows=2000, columns=70, cancel=True)
    size = float((factors.left.double().norm(dim=2) * factors.right.double().norm(dim=2)).sum())
    unit, p = 2.0**-22, 8
    terms = sum(min(k, 1024) + math.ceil(k / 1024) for k in (2000, 70)) + 8
    proved = math.sqrt(terms * unit + p**2 * 2.0**-53) + 1.01 * (p + 4) * unit + 1.01 * 2.0**-8
    assert float(measure([stored(factors)]).bounds) >= proved * size * (1 - 1e-6)


def test_the_clip_norm_pays_for_the_rounding_of_two_blocks_in_both_sums():
    for positions in range(1, record_gradients.MOST_POSITIONS + 1):
        records = math.isqrt(record_gradients.MOST_POSITIONS // positions)
        relative = (records * positions + 4) * record_gradients._ARITHMETIC[torch.bfloat16].unit
        each = relative * records * clipping._LARGEST_SIZE * EXACT_SHARE
        assert 4 * each <= (1 - EXACT_SHARE) * 0.99


def test_factors_of_a_record_are_bounded_relative_to_the_clip_norm():
    """The rows of a cancelling gradient are long although their sum is short."""
    model = tiny_gpt2(dtype=torch.float32)
    clipper = PerRecordClipper(model, clip_norm=1.0, usual_length=1, bfloat16=True)
    norms = record_gradients.Norms(*torch.tensor([[0.1], [0.1], [1000.0]], dtype=torch.float64))
    scaled_size = float(clipper._scales(norms) * norms.sizes)
    assert scaled_size <= clipping._LARGEST_SIZE * EXACT_SHARE
    assert clipping._LARGEST_SIZE <= 8


@pytest.mark.parametrize("lengths", [[3, 8, 9, 24, 24, 12, 1]])
def test_a_record_has_a_shape_that_no_other_record_decides(lengths):
    def shape_of(length, others):
        batches = batches_of_fixed_shape([length, *others], size_of=lambda x: x, shapes=SHAPES)
        return next(shape for shape, part in batches if length in part)

    for length in lengths:
        assert shape_of(length, []) == shape_of(length, lengths)


@given(st.lists(st.integers(1, 24), max_size=60))
def test_fixed_batches_have_every_record_once_and_fit(lengths):
    batches = list(batches_of_fixed_shape(lengths, size_of=lambda x: x, shapes=SHAPES))
    assert Counter(x for _, part in batches for x in part) == Counter(lengths)
    for shape, part in batches:
        assert shape in SHAPES
        assert 1 <= len(part) <= shape.capacity < shape.records
        assert max(part) <= shape.length


def test_rows_are_in_a_uniform_order():
    """A false alarm has a probability of about 1e-6 (6 cells, 6,000 orders, 5.4 deviations)."""
    shape = (BatchShape(records=3, length=8),)
    counts = Counter(
        tuple(next(batches_of_fixed_shape([1, 2, 3], size_of=lambda x: x, shapes=shape))[1])
        for _ in range(6000)
    )
    assert len(counts) == 6
    assert all(abs(n - 1000) < 5.4 * math.sqrt(1000 * 5 / 6) for n in counts.values())


def test_an_order_with_one_more_record_moves_at_most_one_other_record():
    """The joint distribution of the proof: each order of n + 1 records comes up equally often."""
    n = 3
    orders = Counter()
    for order in itertools.permutations(range(n)):
        for row in range(n + 1):
            moved = [*order[:row], n, *order[row + 1 :], *order[row : row + 1]]
            orders[tuple(moved)] += 1
            same = sum(a == b for a, b in zip(order, moved, strict=False))
            assert same >= n - 1
    assert set(orders.values()) == {1}
    assert len(orders) == math.factorial(n + 1)


def test_the_tiny_model_is_independent_on_this_cpu():
    model = tiny_gpt2(dtype=torch.float32)
    clipper = PerRecordClipper(model, clip_norm=1.0, usual_length=16, bfloat16=True)
    require_independent(model, clipper, shapes=SHAPES)


class ByRow(nn.Module):
    """Adds one last bit in some rows, as a kernel does that adds up in another order there."""

    def forward(self, values):
        rows = torch.arange(len(values))[:, None, None]
        return torch.where(rows % 2 == 1, values * (1 + 2.0**-7), values)


class ByNeighbour(nn.Module):
    """Couples the rows of a batch by their mean."""

    def forward(self, values):
        return values + 1e-2 * values.mean(0, keepdim=True)


@pytest.mark.parametrize("layer", [ByRow(), ByNeighbour()], ids=["row", "neighbours"])
def test_a_device_on_which_records_depend_on_their_batch_is_refused(layer):
    model = tiny_gpt2(dtype=torch.float32)
    model.transformer.drop = layer
    clipper = PerRecordClipper(model, clip_norm=1.0, usual_length=16, bfloat16=True)
    with pytest.raises(PrivacyError, match=r"depends on the other records.*training\.device"):
        require_independent(model, clipper, shapes=SHAPES)


UNITS = Private([(example,) for example in some_examples(12)])
FAST = replace(PERFORMANCE, bfloat16_shapes=SHAPES)


def run(folder, *, mechanism, model):
    return train(
        model,
        UNITS,
        training=Training(
            mechanism=mechanism,
            learning=LEARNING,
            performance=FAST,
        ),
        probe=PROBE,
        checkpoints=Checkpoints(folder / "checkpoints"),
        session=session_of(ledger_in(folder)),
    )


@pytest.mark.slow
def test_training_in_bfloat16_lowers_the_loss(tmp_path):
    model = tiny_gpt2(dtype=torch.float32)
    batch = pad_together([unit[0] for unit in UNITS._per_unit])
    before = float(record_losses(model, batch).mean().detach())
    run(tmp_path, mechanism=replace(EXACT, steps=20), model=model)
    assert float(record_losses(model, batch).mean().detach()) < before - 0.2


@pytest.mark.slow
def test_noise_is_added_to_the_float64_sums(tmp_path, monkeypatch):
    from sugarbush.training.dpsgd import optimizer

    types = []
    add = optimizer.add_gaussian

    def recorded(tensors, *, stddev):
        tensors = list(tensors)
        types.append({tensor.dtype for tensor in tensors})
        add(tensors, stddev=stddev)

    monkeypatch.setattr(optimizer, "add_gaussian", recorded)
    for rate in (1.0, 1e-9):  # a full sample and an empty one
        mechanism = replace(MECHANISM, rate=rate, steps=2)
        run(tmp_path / str(rate), mechanism=mechanism, model=tiny_gpt2(dtype=torch.float32))
    assert types == [{torch.float64}] * 4


def test_bfloat16_is_for_one_gpu(monkeypatch):
    monkeypatch.setattr(
        torch.cuda, "is_bf16_supported", lambda including_emulation=True: not including_emulation
    )

    def shapes_on(device, processes=1):
        return performance_on(
            torch.device(device),
            max_length=128,
            micro_batch_tokens=4096,
            checkpoint_every=1,
            processes=processes,
        ).bfloat16_shapes

    assert shapes_on("cuda") == (BatchShape(128, 32), BatchShape(64, 64), BatchShape(32, 128))
    assert shapes_on("cpu") == shapes_on("cuda", processes=2) == ()


def test_the_order_of_rows_comes_from_the_noise_file():
    assert sampling.secret_order.__module__ == "sugarbush.privacy.noise"
