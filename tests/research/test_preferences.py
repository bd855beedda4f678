"""Preferences: which texts are paired, and what a tiny model learns from them."""

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from research.preferences import Pair, coin_flips, log_likelihoods, ranked_pairs, train


def test_the_best_of_ten_similar_texts_is_preferred_to_the_fifth():
    codes = np.repeat([[0, 1], [2, 0]], 10, axis=0)
    scores = np.concatenate([np.arange(10), 100 - np.arange(10)])
    assert sorted(ranked_pairs(codes, scores, seed=1)) == [(9, 5), (10, 14)]


def test_a_group_that_is_not_whole_has_no_pair():
    assert len(ranked_pairs(np.zeros((19, 1), dtype=np.int64), np.arange(19), seed=1)) == 1


def test_the_control_has_the_same_pairs_with_about_half_of_them_reversed():
    pairs = [Pair(f"{i}", "good", "bad") for i in range(400)]
    flipped = coin_flips(pairs, seed=1)
    assert [pair.prompt for pair in flipped] == [pair.prompt for pair in pairs]
    assert {(pair.better, pair.worse) for pair in flipped} == {("good", "bad"), ("bad", "good")}
    # 200 ± 10 (standard deviation): a fair coin leaves 150 to 250 with probability over 1 - 6e-7
    assert 150 < sum(pair.better == "good" for pair in flipped) < 250


def test_a_likelihood_does_not_depend_on_the_batch(tiny_llama):
    model = AutoModelForCausalLM.from_pretrained(tiny_llama).eval()
    tokenizer = AutoTokenizer.from_pretrained(tiny_llama)

    def of(*texts):
        with torch.no_grad():
            return log_likelihoods(model, tokenizer, ["Say:"] * len(texts), texts, max_tokens=20)

    together = of("a card", "a much longer text about a loan and a bank")
    torch.testing.assert_close(together[:1], of("a card"), rtol=1e-4, atol=1e-4)


def test_training_prefers_the_better_text(tiny_llama, tmp_path):
    pair = Pair("Complaints:", "the bank closed my account", "weather is fine")
    losses = list(
        train(tiny_llama, [pair] * 4, tmp_path / "new", seed=1, epochs=15, learning_rate=1e-2)
    )
    assert losses[0] == pytest.approx(np.log(2), abs=0.02)  # the reference is the model itself
    assert losses[-1] < losses[0] - 0.1
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "new").config.hidden_size == 16
