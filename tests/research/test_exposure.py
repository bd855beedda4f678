"""Tests of exposure: it is exact, high for learned canaries, and 1.44 bits on average by chance."""

import math

import numpy as np
import pytest
import torch
from tokenizers import Regex, pre_tokenizers

from research.leakage.canaries import (
    CANDIDATES,
    MEAN_BY_CHANCE,
    PREFIX,
    Canary,
    draw_canaries,
    highest_by_chance,
    inserted,
    missed,
)
from research.leakage.exposure import Exposure, candidate_losses, candidate_tokens, ranked
from sugarbush.training.dpsgd import models

TEXTS = ["My ID is: 12 34 567", "My ID is: 12 12 12", "call 1234 or 12", "it is 90 past 12"]


@pytest.fixture(scope="module")
def tokenizer():
    # The tokenizer merges only some pairs of digits, so the numbers of tokens of candidates differ.
    return models.train_tokenizer(TEXTS * 20, vocabulary=300)


@pytest.fixture(scope="module")
def model(tokenizer):
    model = models.new_model(
        tokenizer, models.ModelShape(layers=2, width=16, heads=2, context=32), seed=3
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)
    return model.eval()


def slow_loss(model, tokenizer, text, first):
    ids = torch.tensor([tokenizer(text)["input_ids"]])
    with torch.no_grad():
        chances = torch.log_softmax(model(ids).logits[0], -1)
    return -sum(float(chances[i - 1, ids[0, i]]) for i in range(first, ids.shape[1]))


def test_the_tree_gives_what_one_candidate_at_a_time_gives(model, tokenizer, monkeypatch):
    prefix, candidates = candidate_tokens(tokenizer, digits=3)
    assert len(set((candidates >= 0).sum(1))) > 1
    monkeypatch.setattr("research.leakage.exposure._LOGITS", 16)  # forces the smallest chunks
    losses = candidate_losses(model, prefix, candidates)
    for number in range(0, 1000, 7):
        expected = slow_loss(model, tokenizer, f"{PREFIX}{number:03d}", len(prefix))
        assert losses[number] == pytest.approx(expected, abs=1e-4)


def whole(tokenizer, prefix, number):
    encoded = tokenizer(prefix + number, add_special_tokens=False, split_special_tokens=True)
    return encoded["input_ids"]


@pytest.mark.parametrize("prefix", [PREFIX, models.END + PREFIX, "My ID is 7", ""])
def test_every_candidate_has_the_tokens_that_its_text_has(tokenizer, prefix):
    tokenizer("one", split_special_tokens=not prefix)  # the tokenizer remembers this option
    common, candidates = candidate_tokens(tokenizer, prefix=prefix, digits=3)
    for number, row in enumerate(candidates.tolist()):
        own = [token for token in row if token >= 0]
        assert common + own == whole(tokenizer, prefix, f"{number:03d}")


def test_a_tokenizer_that_cuts_numbers_up_or_reads_some_otherwise_is_asked_for_the_whole():
    for pattern in (r"\d", r"\d{1,2}", "(?=99[47])"):
        tokenizer = models.train_tokenizer(TEXTS * 20, vocabulary=300)
        before = tokenizer.backend_tokenizer.pre_tokenizer
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Split(Regex(pattern), "isolated"), before]
        )
        common, candidates = candidate_tokens(tokenizer, digits=3)
        for number, row in enumerate(candidates.tolist()):
            own = [token for token in row if token >= 0]
            assert common + own == whole(tokenizer, PREFIX, f"{number:03d}")


def test_the_order_of_candidates_does_not_matter(model, tokenizer):
    prefix, candidates = candidate_tokens(tokenizer, digits=2)
    shuffled = np.random.default_rng(1).permutation(100)
    losses = candidate_losses(model, prefix, candidates)
    np.testing.assert_allclose(
        candidate_losses(model, prefix, candidates[shuffled]), losses[shuffled], rtol=1e-5
    )


def test_the_chances_of_all_candidates_add_up_to_less_than_one(model, tokenizer):
    losses = candidate_losses(model, *candidate_tokens(tokenizer, digits=3))
    assert 0 < np.exp(-losses).sum() <= 1


def test_the_likeliest_candidate_has_all_the_bits_and_the_last_one_none():
    losses = np.random.default_rng(1).permutation(CANDIDATES).astype(float)
    canaries = [Canary(int(losses.argmin())), Canary(int(losses.argmax()))]
    found = ranked(losses, canaries)
    assert found.highest == pytest.approx(math.log2(CANDIDATES))
    assert found.bits[1] == 0


def test_the_figures_for_a_guess():
    # With 200,000 draws, the standard deviation of the mean is 0.003. The standard deviation of the
    # mean of the highest of ten is 0.012.
    ranks = np.random.default_rng(2).integers(1, CANDIDATES + 1, size=(20_000, 10))
    bits = np.log2(CANDIDATES) - np.log2(ranks)
    runs = [Exposure(bits=tuple(row)) for row in bits]
    assert np.mean([run.mean for run in runs]) == pytest.approx(MEAN_BY_CHANCE, abs=0.015)
    assert np.mean([run.highest for run in runs]) == pytest.approx(highest_by_chance(10), abs=0.06)
    assert np.mean([run.highest < 7.61 for run in runs]) == pytest.approx(0.95, abs=0.008)


def test_canaries_are_different_and_inserted_as_often_as_asked():
    canaries = draw_canaries(count=10, seed=1)
    assert len({c.text for c in canaries}) == 10
    assert all(c.text.startswith("My ID is: ") and len(c.secret) == 6 for c in canaries)
    texts = inserted(["a", "b"], canaries, repeats=20, seed=1)
    assert len(texts) == 202
    assert all(texts.count(c.text) == 20 for c in canaries)


@pytest.mark.parametrize(("gamma", "expected"), [(0.0, 0), (0.1, 1), (0.5, 5), (1.0, 10)])
def test_a_policy_misses_as_many_as_its_rate_says(gamma, expected):
    canaries = draw_canaries(count=10, seed=1)
    chosen = missed(canaries, gamma=gamma, seed=2)
    assert len(chosen) == expected
    assert set(chosen) <= set(canaries)
