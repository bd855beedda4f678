"""Texts as training examples, policies by name, and the card of confidentiality."""

import json

import pytest

from sugarbush.crt.card import confidentiality_card
from sugarbush.crt.patterns import RegexDetector
from sugarbush.crt.policies import make_policy
from sugarbush.crt.recall import Labelled, measure
from sugarbush.crt.redact import Policy
from sugarbush.crt.units import text_units
from sugarbush.dpsgd import models
from sugarbush.errors import ParamsError
from sugarbush.privacy.events import ConfidentialTraining

TRAINING = ConfidentialTraining(noise_multiplier=2.422, rate=0.1, count=100)


def test_a_text_stands_between_two_ends_and_a_long_one_is_cut():
    tokenizer = models.train_tokenizer(["a b c d e"] * 5, vocabulary=300)
    end = tokenizer.eos_token_id
    (short,), (long,) = text_units(["a b", "a b c d e" * 9], tokenizer=tokenizer, max_length=8)
    assert (short.tokens[0], short.tokens[-1], short.prompt_length) == (end, end, 1)
    assert tokenizer.decode(short.tokens[1:-1]) == "a b"
    assert len(long.tokens) == 8
    assert end not in long.tokens[1:]


def test_policies_by_name():
    assert "@" not in make_policy(["regex"], threshold=0.3).redact(["write to a@b.org"])[0]
    with pytest.raises(ParamsError, match="cannot be loaded"):
        make_policy(["/no/such/model"], threshold=0.3)
    with pytest.raises(ParamsError, match="at least one detector"):
        make_policy([], threshold=0.3)


def test_the_card_keeps_confidentiality_apart_from_dp():
    sample = [Labelled(text="call 555-010-2345", spans=((5, 17, "PHONE"),))] * 50
    measured = measure(sample, Policy([RegexDetector()]), name="sample.jsonl")
    card = confidentiality_card(
        TRAINING, gamma=measured.gamma, delta=1e-5, measured=measured, in_theorem=True
    )
    assert card["differential_privacy"]["epsilon"].startswith("infinite")
    assert card["uniform"]["epsilon"] == pytest.approx(3.50, abs=0.005)
    assert card["bayesian"]["epsilon"] < 1.08  # of gamma 0.1; here it is 0.058
    assert card["bayesian"]["gamma_from"] == "sample.jsonl"
    assert card["recall"]["missed_by_label"]["PHONE"]["total"] == 50
    json.dumps(card, allow_nan=False)
