"""A GPT-2 and a Llama with a few thousand weights, examples for them, and a slow, simple
clipper."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from sugarbush.training.dpsgd.clipping import STABILISER, PerRecordClipper
from sugarbush.training.dpsgd.language_modelling import (
    Example,
    TokenBatch,
    pad_together,
    record_losses,
)

# With this length, the gradients of some layers are stored as factors, and of other layers in full.
USUAL_LENGTH = 16
Losses = Callable[[nn.Module, TokenBatch], Tensor]


def tiny_gpt2(
    *, dtype: torch.dtype = torch.float64, tied: bool = True, vocabulary: int = 211, seed: int = 1
) -> GPT2LMHeadModel:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        config = GPT2Config(
            vocab_size=vocabulary,
            n_positions=64,
            n_embd=32,
            n_layer=2,
            n_head=4,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            tie_word_embeddings=tied,
            bos_token_id=0,
            eos_token_id=0,
        )
        model = GPT2LMHeadModel(config).to(dtype)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.05)
    return model.train()


def tiny_llama(*, padding_token: int, seed: int = 1) -> LlamaForCausalLM:
    """Make a Llama with a tied embedding, two query heads per key head, and a padding token."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        config = LlamaConfig(
            vocab_size=211,
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=64,
            tie_word_embeddings=True,
            pad_token_id=padding_token,
            bos_token_id=0,
            eos_token_id=0,
        )
        model = LlamaForCausalLM(config)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.05)
    return model.train()


def some_examples(count: int, *, tokens: int = 20, longest: int = 20, seed: int = 2):
    """Make random examples of only a few distinct tokens.

    So the targets of a record also occur in its inputs.
    """
    rng = np.random.default_rng(seed)
    return [
        Example(
            tokens=rng.integers(0, tokens, rng.integers(5, longest + 1)).astype(np.int32),
            prompt_length=2,
        )
        for _ in range(count)
    ]


def trainable(model: nn.Module) -> list[nn.Parameter]:
    return [p for p in model.parameters() if p.requires_grad]


def clip_one_by_one(
    model: nn.Module,
    batches: Sequence[TokenBatch],
    *,
    clip_norm: float,
    losses_of: Losses = record_losses,
) -> tuple[Tensor, list[Tensor]]:
    """Compute the norms `(records,)` and the clipped sums of all parameters, record by record."""
    norms, total = [], [torch.zeros_like(p) for p in trainable(model)]
    for batch in batches:
        loss = losses_of(model, batch).sum()
        found = torch.autograd.grad(loss, trainable(model), allow_unused=True)
        gradients = [
            torch.zeros_like(p) if g is None else g
            for p, g in zip(trainable(model), found, strict=True)
        ]
        norm = torch.stack([g.double().norm() for g in gradients]).norm()
        scale = min(1.0, clip_norm / (float(norm) + STABILISER))
        norms.append(norm)
        total = [t + scale * g for t, g in zip(total, gradients, strict=True)]
    return torch.stack(norms), total


def clip_together(
    model: nn.Module,
    batches: Sequence[TokenBatch],
    *,
    clip_norm: float,
    losses_of: Losses = record_losses,
) -> tuple[Tensor, list[Tensor]]:
    """Compute the same values as `clip_one_by_one` with the clipper, one micro-batch at a time."""
    clipper = PerRecordClipper(model, clip_norm=clip_norm, usual_length=USUAL_LENGTH)
    norms = []
    for batch in batches:
        with clipper.recording(records=len(batch)):
            norms.append(clipper.add_clipped(losses_of(model, batch)))
    clipper.remove()
    total = [p.grad.clone() for p in trainable(model)]
    model.zero_grad()
    return torch.cat(norms), total


def singly(examples: Sequence[Example]) -> list[TokenBatch]:
    return [pad_together([example]) for example in examples]


def relative_error(found: Sequence[Tensor], expected: Sequence[Tensor]) -> float:
    """Return the largest relative error in L2 norm over all parameters."""
    return max(
        float((f - e).detach().double().norm() / (e.detach().double().norm() + 1e-30))
        for f, e in zip(found, expected, strict=True)
    )


def record_l2_sensitivity(tensors: Sequence[Tensor]) -> float:
    return float(torch.stack([t.double().norm() for t in tensors]).norm())
