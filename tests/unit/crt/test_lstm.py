"""The LSTM: that of torch, a step at a time as all at once, and clipped exactly."""

import numpy as np
import pytest
import torch

from sugarbush.attacks.exposure import candidate_losses
from sugarbush.crt.lstm import LstmModel
from sugarbush.dpsgd.language_modelling import pad_together
from tests.unit.dpsgd.tiny import (
    clip_one_by_one,
    clip_together,
    relative_error,
    singly,
    some_examples,
)


@pytest.fixture
def model():
    return LstmModel(vocabulary=30, width=8, seed=1).double()


def test_it_is_the_lstm_of_torch(model):
    theirs = torch.nn.LSTM(8, 8, batch_first=True).double()
    with torch.no_grad():
        theirs.weight_ih_l0.copy_(model.from_input.weight)
        theirs.weight_hh_l0.copy_(model.from_hidden.weight)
        theirs.bias_ih_l0.copy_(model.from_input.bias)
        theirs.bias_hh_l0.zero_()
    ids = torch.randint(30, (3, 7), generator=torch.Generator().manual_seed(1))
    expected = model.head(theirs(model.embedding(ids))[0])
    torch.testing.assert_close(model(ids).logits, expected)


def test_a_step_at_a_time_gives_what_all_at_once_gives(model):
    ids = torch.randint(30, (2, 5), generator=torch.Generator().manual_seed(2))
    first = model(ids[:, :2])
    second = model(ids[:, 2:], past_key_values=first.past_key_values)
    together = torch.cat([first.logits, second.logits], dim=1)
    torch.testing.assert_close(together, model(ids).logits)


def test_exposure_takes_it_as_it_takes_a_transformer(model):
    candidates = np.array([[a, b] for a in range(3) for b in range(3)])
    losses = candidate_losses(model, [5, 6], candidates)
    for (a, b), loss in zip(candidates, losses, strict=True):
        chances = torch.log_softmax(model(torch.tensor([[5, 6, a]])).logits[0], -1)
        assert loss == pytest.approx(-float((chances[1, a] + chances[2, b]).detach()), abs=1e-5)


def test_it_is_clipped_as_a_loop_over_records_clips_it(model):
    examples = some_examples(5)
    norms, total = clip_together(model, [pad_together(examples)], clip_norm=0.05)
    expected_norms, expected = clip_one_by_one(model, singly(examples), clip_norm=0.05)
    assert relative_error(total, expected) < 1e-9
    assert torch.allclose(norms, expected_norms)


def test_a_seed_gives_one_model():
    one, other = (LstmModel(vocabulary=9, width=4, seed=s).state_dict() for s in (1, 1))
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert LstmModel(vocabulary=9, seed=1).width == 200
