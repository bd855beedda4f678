"""Tests that padding is masked, and that the loss of a record depends on this record alone."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from sugarbush.training.dpsgd.language_modelling import (
    Example,
    pad_together,
    record_losses,
    token_losses,
)
from tests.unit.training.dpsgd.tiny import singly, some_examples, tiny_gpt2

END = 7


def test_padding_does_not_hide_the_end_of_a_text_whatever_its_id_is():
    examples = [
        Example(tokens=np.array([1, 2, END], dtype=np.int32), prompt_length=1),
        Example(tokens=np.array([1, 2, 3, 0, END], dtype=np.int32), prompt_length=2),
    ]
    batch = pad_together(examples)
    assert batch.mask.tolist() == [[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]
    assert batch.labels.tolist() == [[-100, 2, END, -100, -100], [-100, -100, 3, 0, END]]


def test_the_loss_is_a_records_mean_over_its_own_text():
    model = tiny_gpt2()
    (example,) = some_examples(1)
    logits = model(torch.tensor(example.tokens[None]).long()).logits[0]
    targets = torch.tensor(example.tokens).long()
    expected = F.cross_entropy(logits[1:-1], targets[2:])  # the prompt has two tokens
    (found,) = record_losses(model, pad_together([example]))
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=0)


def test_the_loss_of_a_record_does_not_depend_on_who_is_beside_it():
    model, examples = tiny_gpt2(), some_examples(6)
    together = record_losses(model, pad_together(examples))
    alone = torch.cat([record_losses(model, batch) for batch in singly(examples)])
    torch.testing.assert_close(together, alone, rtol=1e-12, atol=0)


@pytest.mark.parametrize("prompt_length", [0, 1, 3])
def test_as_many_tokens_are_predicted_as_follow_the_prompt(prompt_length):
    example = Example(tokens=np.arange(3, dtype=np.int32), prompt_length=prompt_length)
    _, counts = token_losses(tiny_gpt2(), pad_together([example]))
    assert counts.tolist() == [3 - max(prompt_length, 1)]  # the first token is never predicted


def test_a_record_without_a_text_has_loss_zero_and_a_gradient_of_zero():
    model = tiny_gpt2()
    example = Example(tokens=np.array([1, 2], dtype=np.int32), prompt_length=2)
    loss = record_losses(model, pad_together([example])).sum()
    loss.backward()
    assert float(loss.detach()) == 0
    assert all(bool((p.grad == 0).all()) for p in model.parameters())
