"""Tests that clipped sums equal the sums of a loop over records, and which models are refused."""

import numpy as np
import pytest
import torch
from opacus import GradSampleModule
from opacus.optimizers import DPOptimizer
from torch import nn
from torch.nn import functional as F

from sugarbush.errors import InvariantError, PrivacyError
from sugarbush.training.dpsgd import record_gradients
from sugarbush.training.dpsgd.clipping import PerRecordClipper
from sugarbush.training.dpsgd.exactness import require_exact
from sugarbush.training.dpsgd.language_modelling import Example, pad_together, record_losses
from sugarbush.training.dpsgd.models import with_lora
from sugarbush.training.dpsgd.record_gradients import Tokens
from tests.unit.training.dpsgd.tiny import (
    clip_one_by_one,
    clip_together,
    record_l2_sensitivity,
    relative_error,
    singly,
    some_examples,
    tiny_gpt2,
    tiny_llama,
    trainable,
)

TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-6}
# The clipper's sum is slightly smaller than the sum of the loop, because the clipper adds a bound
# of the rounding errors to the norm of a record.
SUM_TOLERANCE = {torch.float64: 1e-11, torch.float32: 3e-4}
EXAMPLES = some_examples(7)
CLIP_NORM = 3.5  # about the median of the norms of EXAMPLES for the tiny GPT-2


def assert_equal_to_the_loop(model, *, losses_of=record_losses, micro_batches=1):
    dtype = trainable(model)[0].dtype
    alone = singly(EXAMPLES)
    norms, _ = clip_one_by_one(model, alone, clip_norm=1.0, losses_of=losses_of)
    clip_norm = float(norms.median())  # only some records are clipped
    expected_norms, expected = clip_one_by_one(
        model, alone, clip_norm=clip_norm, losses_of=losses_of
    )
    size = -(-len(EXAMPLES) // micro_batches)
    batches = [pad_together(EXAMPLES[i : i + size]) for i in range(0, len(EXAMPLES), size)]
    norms, found = clip_together(model, batches, clip_norm=clip_norm, losses_of=losses_of)
    torch.testing.assert_close(norms, expected_norms, rtol=TOLERANCE[dtype], atol=0)
    assert relative_error(found, expected) < SUM_TOLERANCE[dtype]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("micro_batches", [1, 3])
@pytest.mark.parametrize("vocabulary", [211, 20], ids=["factors", "whole"])
def test_padded_records_are_clipped_as_if_each_were_alone(dtype, tied, micro_batches, vocabulary):
    model = tiny_gpt2(dtype=dtype, tied=tied, vocabulary=vocabulary)
    assert_equal_to_the_loop(model, micro_batches=micro_batches)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_an_embedding_that_is_used_three_times_is_clipped_once(dtype):
    def losses_of(model, batch):
        logits = model(
            input_ids=batch.ids, attention_mask=batch.mask, token_type_ids=batch.ids // 2
        ).logits
        targets = F.pad(batch.labels[:, 1:], (0, 1), value=-100)
        return F.cross_entropy(logits.transpose(1, 2), targets, reduction="none").sum(1)

    assert_equal_to_the_loop(tiny_gpt2(dtype=dtype), losses_of=lambda m, b: losses_of(m, b) / 10)


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_lora_factors_are_clipped_as_if_each_record_were_alone(dtype):
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(
        r=4, lora_alpha=8, target_modules=["c_attn", "c_fc"], fan_in_fan_out=True, lora_dropout=0.0
    )
    model = get_peft_model(tiny_gpt2(dtype=dtype), config).train()
    with torch.no_grad():
        for parameter in trainable(model):
            parameter.add_(torch.randn_like(parameter) * 0.05)
    assert_equal_to_the_loop(model)
    assert all(p.grad is None for p in model.parameters() if not p.requires_grad)


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated")
@pytest.mark.parametrize("rank", [None, 4], ids=["all weights", "LoRA"])
def test_a_llama_is_clipped_as_if_each_record_were_alone(rank):
    """The padding token occurs in the records. The head trains its row; the embedding does not.

    The test uses only float32, because the norm layers of the model always compute in float32.
    """
    model = tiny_llama(padding_token=3)
    if rank is not None:
        model = with_lora(model, rank=rank)
        with torch.no_grad():
            for parameter in trainable(model):
                parameter.add_(torch.randn_like(parameter) * 0.05)
    assert any((example.tokens == 3).any() for example in EXAMPLES)
    assert_equal_to_the_loop(model, micro_batches=2)


def test_gradient_checkpointing_changes_nothing():
    model = tiny_gpt2()
    model.activation_checkpointing_enable()
    assert model.is_activation_checkpointing
    assert_equal_to_the_loop(model)


def test_a_weight_that_is_applied_many_times_is_clipped_exactly():
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(211, 8)
            self.step = nn.Linear(16, 8)
            self.head = nn.Linear(8, 211)

        def forward(self, ids):
            state = torch.zeros(len(ids), 8, dtype=torch.float64)
            for position in self.embedding(ids).unbind(1):
                state = torch.tanh(self.step(torch.cat([state, position], dim=1)))
            return self.head(state)

    def losses_of(model, batch):
        return 10 * F.cross_entropy(model(batch.ids), batch.ids[:, 0], reduction="none")

    torch.manual_seed(0)
    model = Recurrent().double()
    batches = [pad_together(some_examples(6, longest=5))]
    alone = [pad_together([example]) for example in some_examples(6, longest=5)]
    expected = clip_one_by_one(model, alone, clip_norm=3.0, losses_of=losses_of)
    found = clip_together(model, batches, clip_norm=3.0, losses_of=losses_of)
    assert relative_error(found[1], expected[1]) < 1e-12


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
def test_the_sum_equals_that_of_opacus_hooks():
    model = tiny_gpt2()
    batch = pad_together(EXAMPLES)
    _, found = clip_together(model, [batch], clip_norm=CLIP_NORM)
    hooked = GradSampleModule(tiny_gpt2(), loss_reduction="sum")
    positions = torch.arange(batch.ids.shape[1]).repeat(len(batch), 1)
    logits = hooked(input_ids=batch.ids, attention_mask=batch.mask, position_ids=positions).logits
    targets = F.pad(batch.labels[:, 1:], (0, 1), value=-100)
    losses = F.cross_entropy(logits.transpose(1, 2), targets, reduction="none").sum(1)
    (losses / targets.ne(-100).sum(1)).sum().backward()
    optimizer = DPOptimizer(
        torch.optim.SGD(hooked.parameters(), lr=1.0),
        noise_multiplier=0.0,
        max_grad_norm=CLIP_NORM,
        expected_batch_size=None,
        loss_reduction="sum",
    )
    optimizer.clip_and_accumulate()
    assert relative_error(found, [p.summed_grad for p in hooked.parameters()]) < 1e-12


def test_a_record_with_a_gradient_that_is_not_finite_adds_zero():
    def losses_of(model, batch):
        losses = record_losses(model, batch)
        spoiled = batch.ids[:, 0] == EXAMPLES[2].tokens[0]
        return losses * torch.where(spoiled, float("inf"), 1.0)

    model = tiny_gpt2()
    kept = [e for e in EXAMPLES if e.tokens[0] != EXAMPLES[2].tokens[0]]
    assert len(kept) < len(EXAMPLES)
    _, expected = clip_one_by_one(model, singly(kept), clip_norm=CLIP_NORM)
    norms, found = clip_together(
        model, [pad_together(EXAMPLES)], clip_norm=CLIP_NORM, losses_of=losses_of
    )
    assert int((~norms.isfinite()).sum()) == len(EXAMPLES) - len(kept)
    assert relative_error(found, expected) < 1e-12


def test_autocast_is_refused():
    """In bfloat16, padding a batch changed the sum of its other records' gradients by several clip
    norms."""
    model = tiny_gpt2(dtype=torch.float32)

    def losses_of(model, batch):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return record_losses(model, batch)

    with pytest.raises(PrivacyError, match="autocast"):
        clip_together(model, singly(EXAMPLES[:1]), clip_norm=0.5, losses_of=losses_of)


def test_a_frozen_layer_in_half_precision_is_refused():
    model = nn.Sequential(nn.Linear(4, 4).bfloat16().requires_grad_(False), nn.Linear(4, 4))
    with pytest.raises(PrivacyError, match="bfloat16"):
        PerRecordClipper(model, clip_norm=1.0)


def gpt2_with_a_gradient_that_cancels():
    """Make a GPT-2 and an example whose gradient nearly cancels.

    The tied head gets the same input at all positions, and its outputs are nearly uniform over 20
    tokens. The example contains each of these tokens once, so the gradients of its positions nearly
    cancel.
    """
    length = 1000.0
    model = tiny_gpt2(dtype=torch.float32)
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(32, generator=generator)
    hidden *= length / hidden.norm()
    outputs = torch.full((211, 1), -60.0)
    with torch.no_grad():
        model.transformer.ln_f.weight.zero_()
        model.transformer.ln_f.bias.copy_(hidden)
        weight = 1e-6 * torch.randn(211, 32, generator=generator)
        weight -= (weight @ hidden)[:, None] * hidden / length**2
        outputs[:20] = 0.042 * 20**0.5 / length * torch.randn(20, 1, generator=generator)
        model.lm_head.weight.copy_(weight + outputs * hidden / length**2)
    tokens = np.concatenate([[0], torch.randperm(20, generator=generator).numpy()])
    return model, Example(tokens=tokens.astype(np.int32), prompt_length=0)


def test_a_gpt2_with_a_gradient_that_cancels_adds_at_most_the_clip_norm():
    model, example = gpt2_with_a_gradient_that_cancels()
    norms, _ = clip_one_by_one(model, singly([example]), clip_norm=1.0)
    assert 0.02 < float(norms) < 0.1  # 2 to 10 times the clip norm
    _, added = clip_together(model, singly([example]), clip_norm=0.01)
    assert record_l2_sensitivity(added) <= 0.01 * (1 + 2**-20)


def test_an_empty_micro_batch_is_refused():
    clipper = PerRecordClipper(tiny_gpt2(), clip_norm=1.0)
    with pytest.raises(InvariantError, match="empty"), clipper.recording(records=0):
        pass


def test_losses_that_are_not_one_a_record_are_refused():
    model = tiny_gpt2()
    clipper = PerRecordClipper(model, clip_norm=1.0)
    batch = pad_together(EXAMPLES)
    with pytest.raises(InvariantError, match="one loss"), clipper.recording(records=len(batch)):
        clipper.add_clipped(record_losses(model, batch).mean())


def test_the_model_is_as_before_when_recording_fails():
    model = tiny_gpt2()
    clipper = PerRecordClipper(model, clip_norm=1.0)
    with pytest.raises(ValueError), clipper.recording(records=2):
        raise ValueError
    assert len(trainable(model)) == len(list(model.parameters()))
    assert record_losses(model, pad_together(EXAMPLES)).requires_grad


# -- what has no exact rule ---------------------------------------------------------------------


class Bilinear(nn.Linear):
    def forward(self, values):
        return super().forward(values) + super().forward(values * 2)


@pytest.mark.parametrize(
    ("layer", "says"),
    [
        (nn.LSTM(4, 4), "LSTM has no clipping rule"),
        (nn.BatchNorm1d(4), "BatchNorm1d has no clipping rule"),
        (Bilinear(4, 4), "Bilinear has no clipping rule"),
        (nn.Embedding(4, 4, max_norm=1.0), "max_norm"),
        (nn.LayerNorm((4, 4)), "several axes"),
        (nn.Linear(4, 4).bfloat16(), "bfloat16"),
        (nn.ParameterList([torch.zeros(3)]), "ParameterList has no clipping rule"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else "",
)
def test_a_trainable_layer_without_an_exact_rule_is_refused(layer, says):
    with pytest.raises(PrivacyError, match=says):
        PerRecordClipper(nn.Sequential(layer), clip_norm=1.0)


def test_such_a_layer_may_stay_when_it_is_frozen():
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4).requires_grad_(False))
    PerRecordClipper(model, clip_norm=1.0)


def test_less_than_float32_matrix_products_are_refused():
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        with pytest.raises(PrivacyError, match="precision"):
            PerRecordClipper(tiny_gpt2(), clip_norm=1.0)
    finally:
        torch.set_float32_matmul_precision(before)


def test_a_model_that_moves_records_off_the_first_axis_is_refused():
    class Flat(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(1, 1)

        def forward(self, values):
            return self.layer(values.flatten().unsqueeze(1)).view(len(values), -1).sum(1)

    model = Flat()
    clipper = PerRecordClipper(model, clip_norm=1.0)
    with pytest.raises(PrivacyError, match="first axis"), clipper.recording(records=2):
        clipper.add_clipped(model(torch.ones(2, 3)))


# -- the check before training ------------------------------------------------------------------


def run_check(model, losses_of=record_losses):
    clipper = PerRecordClipper(model, clip_norm=1.0)
    pair = some_examples(2, seed=5)
    assert len(pair[0].tokens) != len(pair[1].tokens)
    require_exact(model, clipper, losses_of, together=pad_together(pair), alone=singly(pair))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_check_passes_a_gpt2_and_leaves_it_alone(dtype):
    model = tiny_gpt2(dtype=dtype)
    model.transformer.drop.p = 0.5
    model.lm_head.weight.grad = torch.ones_like(model.lm_head.weight)
    before = [p.detach().clone() for p in model.parameters()]
    run_check(model)
    assert model.transformer.drop.p == 0.5
    assert bool((model.lm_head.weight.grad == 1).all())
    assert relative_error(list(model.parameters()), before) == 0


def test_the_check_refuses_a_clipper_that_drops_the_cross_term(monkeypatch):
    inner = record_gradients._inner

    def without_cross_terms(one, other):
        mixed = type(one) is not type(other)
        return torch.zeros(2, dtype=torch.float64) if mixed else inner(one, other)

    monkeypatch.setattr(record_gradients, "_inner", without_cross_terms)
    with pytest.raises(PrivacyError, match="cannot be clipped exactly"):
        run_check(tiny_gpt2())


def test_the_check_refuses_a_clipper_that_forgets_a_use(monkeypatch):
    add = record_gradients.RecordGradients.add
    monkeypatch.setattr(
        record_gradients.RecordGradients,
        "add",
        lambda self, use: None if isinstance(use, Tokens) else add(self, use),
    )
    with pytest.raises(PrivacyError, match="cannot be clipped exactly"):
        run_check(tiny_gpt2())


def test_the_check_refuses_a_sum_with_other_scales_than_its_norms(monkeypatch):
    """The norms are right here: only the clipped sum shows the fault."""
    add_scaled = record_gradients.RecordGradients.add_scaled
    monkeypatch.setattr(
        record_gradients.RecordGradients,
        "add_scaled",
        lambda self, scales, *, out: add_scaled(self, 1.01 * scales, out=out),
    )
    with pytest.raises(PrivacyError, match="cannot be clipped exactly"):
        run_check(tiny_gpt2())


def test_the_check_refuses_a_loss_that_is_a_mean_over_the_tokens_of_the_batch():
    def token_mean(model, batch):
        counts = batch.labels[:, 1:].ne(-100).sum(1)
        return record_losses(model, batch) * counts * len(batch) / counts.sum()

    with pytest.raises(PrivacyError, match="cannot be clipped exactly"):
        run_check(tiny_gpt2(), losses_of=token_mean)


def test_the_check_refuses_a_layer_that_couples_records():
    class Coupled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(211, 8)
            self.norm = nn.BatchNorm1d(8, affine=False)
            self.head = nn.Linear(8, 2)

        def forward(self, ids):
            return self.head(self.norm(self.embedding(ids).transpose(1, 2)).mean(2))

    with pytest.raises(PrivacyError, match="cannot be clipped exactly"):
        run_check(Coupled().double(), losses_of=lambda model, batch: model(batch.ids)[:, 0] ** 2)


def test_the_check_refuses_a_weight_that_is_used_outside_its_own_module():
    class Sneaky(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(211, 8)
            self.head = nn.Linear(8, 8)

        def forward(self, ids):
            hidden = self.head(self.embedding(ids))
            return (hidden @ self.embedding.weight.T).pow(2).mean((1, 2))

    with pytest.raises(PrivacyError, match="cannot be clipped exactly"):
        run_check(Sneaky().double(), losses_of=lambda model, batch: 100 * model(batch.ids[:, :4]))
