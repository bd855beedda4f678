"""Tests of texts as training examples, of policies by name, and of the card of confidentiality."""

import json

import numpy as np
import pytest
import torch

from sugarbush.errors import ParamsError
from sugarbush.privacy.events import ConfidentialTraining
from sugarbush.training.crt.card import confidentiality_card
from sugarbush.training.crt.confidentiality import bayesian, uniform
from sugarbush.training.crt.dedup import MASK
from sugarbush.training.crt.patterns import PlainWords, RegexDetector
from sugarbush.training.crt.policies import make_policy, make_public_policy
from sugarbush.training.crt.recall import LabelledText, measure
from sugarbush.training.crt.redact import Policy
from sugarbush.training.crt.units import add_mask_token, give_room_for_mask, text_units
from sugarbush.training.dpsgd import models
from sugarbush.training.dpsgd.language_modelling import IGNORED, pad_together

TRAINING = ConfidentialTraining(noise_multiplier=2.422, rate=0.1, count=100)


def test_a_text_is_between_two_end_tokens_and_a_long_one_is_cut():
    tokenizer = models.train_tokenizer(["a b c d e"] * 5, vocabulary=300)
    end = tokenizer.eos_token_id
    (short,), (long,) = text_units(["a b", "a b c d e" * 9], tokenizer=tokenizer, max_length=8)
    assert (short.tokens[0], short.tokens[-1], short.prompt_length) == (end, end, 1)
    assert tokenizer.decode(short.tokens[1:-1]) == "a b"
    assert len(long.tokens) == 8
    assert end not in long.tokens[1:]


def test_a_mask_is_one_token_that_is_read_and_never_predicted():
    tokenizer = models.train_tokenizer(["a b c d e"] * 5, vocabulary=300)
    add_mask_token(tokenizer)
    (masked,), (plain,) = text_units([f"a {MASK} b", "a b"], tokenizer=tokenizer, max_length=9)
    mask = len(tokenizer) - 1
    batch = pad_together([masked, plain])
    (places,) = np.nonzero(masked.tokens == mask)
    assert len(places) == 1
    assert batch.ids[0, places[0]] == mask
    assert batch.labels[0, places[0]] == IGNORED
    predicted = [int(t) for t in batch.labels[0] if t != IGNORED]
    assert predicted == [int(t) for t in masked.tokens[1:] if t != mask]
    assert plain.given is None


def test_a_model_with_room_for_the_mask_says_of_all_else_what_it_said():
    tokenizer = models.train_tokenizer(["a b c d e"] * 5, vocabulary=300)
    model = models.new_model(
        tokenizer, models.ModelShape(layers=1, width=8, heads=1, context=16), seed=1
    ).eval()
    ids = torch.tensor([[1, 2, 3]])
    before = model(ids).logits.detach()
    add_mask_token(tokenizer)
    give_room_for_mask(model, tokenizer)
    after = model(ids).logits.detach()
    assert after.shape[-1] == before.shape[-1] + 1 == len(tokenizer)
    torch.testing.assert_close(after[..., :-1], before)
    torch.testing.assert_close(after[..., -1], before.mean(-1))


def test_the_mask_takes_no_row_that_a_model_was_never_trained_in():
    # A model has embedding rows without tokens if its vocabulary was rounded up to a multiple of
    # 64.
    tokenizer = models.train_tokenizer(["a b c d e"] * 5, vocabulary=300)
    model = models.new_model(
        tokenizer, models.ModelShape(layers=1, width=8, heads=1, context=16), seed=1
    )
    known = len(tokenizer)
    model.resize_token_embeddings(known + 20, mean_resizing=False)
    rows = model.get_input_embeddings().weight
    with torch.no_grad():
        rows[known:] = 9.0
    mean = rows[:known].mean(0).detach().clone()
    add_mask_token(tokenizer)
    give_room_for_mask(model, tokenizer)
    after = model.get_input_embeddings().weight
    assert len(after) == known + 20
    torch.testing.assert_close(after[known].detach(), mean)


def test_the_conservative_policy_by_name():
    assert make_public_policy(None) is None
    plain = make_public_policy("plain_words")
    assert plain is not None
    assert plain.is_public(["It is late.", "Room 7"]) == [True, False]
    with pytest.raises(ParamsError, match="cannot be loaded"):
        make_public_policy("/no/such/model")


def test_with_a_conservative_policy_nothing_holds_for_every_secret():
    sample = fifty_numbers()
    policy = Policy([RegexDetector()])
    measured = measure(sample, policy, name="sample.jsonl", conservative=PlainWords())
    delta = 2 * measured.delta_2
    card = confidentiality_card(
        TRAINING, gamma=measured.gamma, delta=delta, measured=measured,
        all_private=False,
    )  # fmt: skip
    without = confidentiality_card(TRAINING, gamma=measured.gamma, delta=delta, measured=measured)
    assert card["uniform"]["epsilon"] == "infinite"
    assert card["bayesian"]["delta_2"] == measured.delta_2 > 0
    assert card["bayesian"]["epsilon"] >= without["bayesian"]["epsilon"]
    assert (card["bayesian"]["confidence"], card["recall"]["confidence_each"]) == (0.95, 0.975)
    assert card["recall"]["shown"]["upper"] == pytest.approx(1 - 0.025 ** (1 / 50), abs=1e-5)
    with pytest.raises(ParamsError, match="not below delta"):
        confidentiality_card(
            TRAINING, gamma=measured.gamma, delta=1e-5, measured=measured,
            all_private=False,
        )  # fmt: skip


def fifty_numbers():
    """Return fifty texts with one labelled secret each. All secrets differ."""
    return [
        LabelledText(text=f"call 555-010-{i:04d}", spans=((5, 17, "PHONE"),)) for i in range(50)
    ]


def test_policies_by_name():
    assert "@" not in make_policy(["regex"], threshold=0.3).redact(["write to a@b.org"])[0]
    with pytest.raises(ParamsError, match="cannot be loaded"):
        make_policy(["/no/such/model"], threshold=0.3)
    with pytest.raises(ParamsError, match="at least one detector"):
        make_policy([], threshold=0.3)


def test_the_card_tells_a_gamma_of_1_that_is_set_from_one_of_which_nothing_is_known():
    sample = fifty_numbers()
    measured = measure(sample, Policy([RegexDetector()]), name="sample.jsonl")
    given, unknown = (
        confidentiality_card(TRAINING, gamma=1.0, delta=1e-5, measured=of)
        for of in (measured, None)
    )
    assert given["bayesian"]["gamma_from"] == "a setting"
    assert unknown["bayesian"]["gamma_from"].startswith("nothing measured")


def test_the_card_rounds_its_bounds_up():
    sample = fifty_numbers()
    measured = measure(sample, Policy([RegexDetector()]), name="sample.jsonl")
    for delta in np.geomspace(1e-7, 1e-4, 7):
        card = confidentiality_card(TRAINING, gamma=measured.gamma, delta=delta, measured=measured)
        kind, told = card["by_kind"]["PHONE"], [row["epsilon"] for row in card["by_gamma"]]
        assert kind["gamma"] >= measured.traced_by_label["PHONE"].upper
        assert card["recall"]["traced"]["upper"] >= measured.gamma
        assert kind["epsilon"] >= bayesian(TRAINING, gamma=measured.gamma, delta=delta).epsilon
        assert card["uniform"]["epsilon"] >= uniform(TRAINING, delta=delta).epsilon
        for row, shown in zip(card["by_gamma"], told, strict=True):
            assert shown >= bayesian(TRAINING, gamma=row["gamma"], delta=delta).epsilon


def test_the_card_says_that_labelled_secrets_are_not_covered():
    card = confidentiality_card(TRAINING, gamma=1.0, delta=1e-5, measured=None)
    said = " ".join(card["not_covered"])
    assert "Secrets in the labelled texts" in said
    assert "kinds that methods.crt.must_find leaves out" in said
    assert "Other trainings on the same texts, and a choice among several" in said


def test_the_card_names_the_package_of_a_detector():
    for packages in ((), ("toy-package 1.0",)):
        card = confidentiality_card(
            TRAINING, gamma=1.0, delta=1e-5, measured=None, other_packages=packages
        )
        assert ("toy-package 1.0" in " ".join(card["not_covered"])) == bool(packages)


def test_the_card_keeps_confidentiality_apart_from_dp():
    sample = fifty_numbers()
    measured = measure(sample, Policy([RegexDetector()]), name="sample.jsonl")
    card = confidentiality_card(TRAINING, gamma=measured.gamma, delta=1e-5, measured=measured)
    assert card["differential_privacy"]["epsilon"].startswith("infinite")
    assert card["uniform"]["epsilon"] == pytest.approx(3.50, abs=0.005)
    # epsilon is 1.08 for gamma 0.1; here gamma is only 0.058
    assert card["bayesian"]["epsilon"] < 1.08
    assert card["bayesian"]["gamma_from"] == "sample.jsonl"
    assert card["recall"]["missed_by_label"]["PHONE"]["total"] == 50
    assert card["recall"]["counted"].startswith("distinct secrets")
    json.dumps(card, allow_nan=False)


@pytest.mark.parametrize("threshold", [0.0, 0.59, 0.61, 0.94, 0.96])
def test_a_policy_masks_what_its_threshold_says(threshold: float) -> None:
    """An e-mail address has the score 0.95, and a handle 0.6."""
    policy = make_policy(["regex"], threshold=threshold)
    (redacted,) = policy.redact(["write to ann@example.org or to @ann_lee99 today"])
    assert ("ann@example.org" in redacted) == (threshold > 0.95)
    assert ("@ann_lee99" in redacted) == (threshold > 0.6)
