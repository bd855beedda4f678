"""Tests of our LSTM: it equals torch's LSTM, also token by token, and is clipped exactly."""

import numpy as np
import pytest
import torch
from transformers import GenerationConfig

from research.leakage.exposure import candidate_losses
from sugarbush.training.crt import lstm
from sugarbush.training.crt.dedup import MASK
from sugarbush.training.crt.lstm import LstmModel
from sugarbush.training.crt.units import add_mask_token
from sugarbush.training.dpsgd import models
from sugarbush.training.dpsgd.language_modelling import pad_together
from tests.unit.training.dpsgd.tiny import (
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


def test_single_steps_give_the_same_as_one_pass(model):
    ids = torch.randint(30, (2, 5), generator=torch.Generator().manual_seed(2))
    first = model(ids[:, :2])
    second = model(ids[:, 2:], cache=first.cache)
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


def drawing(**changes):
    asked = {"top_k": 30, "top_p": 1.0, "temperature": 1.0, "max_length": 6} | changes
    return GenerationConfig(do_sample=True, eos_token_id=0, pad_token_id=0, **asked)


def test_top_k_1_generates_the_likeliest_token(model):
    start = torch.tensor([[5, 6], [7, 8]])
    drawn = model.generate(start, generation_config=drawing(top_k=1))
    assert torch.equal(drawn[:, :2], start)
    for row in drawn:
        for place in range(2, len(row)):
            if 0 not in row[2:place]:
                assert row[place] == model(row[None, :place]).logits[0, -1].argmax()


def test_tokens_are_sampled_by_their_probabilities(model):
    """Chi-square test on 20,000 draws among 30 tokens: with 29 degrees of freedom, the statistic
    exceeds 66 with probability 1e-4."""
    with torch.no_grad():
        model.head.bias.copy_(torch.linspace(-1, 1, 30))
    start = torch.full((20_000, 1), 5)
    torch.manual_seed(1)
    chances = (model(start[:1]).logits[0, -1] / 0.7).softmax(-1).detach()

    def misfit(**how):
        drawn = model.generate(start, generation_config=drawing(max_length=2, **how))[:, 1]
        expected = chances * len(drawn)
        return float(((torch.bincount(drawn, minlength=30) - expected) ** 2 / expected).sum())

    assert misfit(temperature=0.7) < 66
    assert misfit(temperature=1.0) > 66


def test_a_row_that_has_ended_is_padded_and_the_others_go_on(model):
    with torch.no_grad():
        model.head.bias[0] = 1.0
    torch.manual_seed(2)
    drawn = model.generate(torch.full((64, 1), 5), generation_config=drawing(max_length=9))
    ends = (drawn == 0).int().cumsum(dim=1) > 0
    assert ends[:, -1].any()
    assert not ends[:, 1].all()
    assert (drawn[ends] == 0).all()


def test_it_comes_back_from_disk_with_its_tokenizer_and_the_mask(tmp_path):
    tokenizer = models.train_tokenizer(["a text of words"] * 3, vocabulary=260)
    add_mask_token(tokenizer)
    kept = LstmModel(vocabulary=len(tokenizer), width=4, seed=1)
    lstm.save(kept, tokenizer, tmp_path)
    model, reader = lstm.load(tmp_path, device=torch.device("cpu"))
    assert reader(f"a {MASK}")["input_ids"] == tokenizer(f"a {MASK}")["input_ids"]
    assert reader.get_added_vocab() == tokenizer.get_added_vocab()
    for name, weight in kept.state_dict().items():
        torch.testing.assert_close(model.state_dict()[name], weight)
