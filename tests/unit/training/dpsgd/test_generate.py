"""Tests of texts that a model generates for control codes.

The model was trained without noise on a few sentences.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch

from sugarbush.errors import GeneratorError
from sugarbush.privacy.data_types import Private, Released
from sugarbush.privacy.events import NonPrivate
from sugarbush.training.dpsgd import models
from sugarbush.training.dpsgd.data import control_codes, token_ids
from sugarbush.training.dpsgd.generate import generate
from sugarbush.training.dpsgd.language_modelling import Example, perplexity
from sugarbush.training.dpsgd.ordinary import (
    OrdinaryTraining,
    train_on_public,
    train_without_privacy,
)
from sugarbush.training.dpsgd.settings import SamplingSettings
from sugarbush.training.dpsgd.train import Decay, Learning
from tests.unit.training.dpsgd.small_runs import ledger_in, session_of

PAIRS = {
    control_codes([("about", "fees")]): "the fees were wrong",
    control_codes([("about", "a loan")]): "the man asked about a loan",
    control_codes([("about", "the card")]): "it was late",
}
WRITING = SamplingSettings()
SETTINGS = {
    "training": OrdinaryTraining(
        learning=Learning(learning_rate=1e-2, decay=Decay.LINEAR, warmup_steps=5, weight_decay=0.0),
        epochs=100,
        batch_size=3,
        micro_batch_tokens=40,
    ),
    "seed": 1,
}


def examples(tokenizer):
    return [
        Example(
            tokens=np.array(
                [*token_ids(tokenizer, [prompt])[0], *token_ids(tokenizer, [text])[0], 0],
                dtype=np.int32,
            ),
            prompt_length=len(token_ids(tokenizer, [prompt])[0]),
        )
        for prompt, text in PAIRS.items()
    ]


@pytest.fixture(scope="module")
def trained(saved_model):
    model, tokenizer = models.load(str(saved_model), device=torch.device("cpu"))
    assert tokenizer.eos_token_id == 0
    told = []
    train_on_public(
        model, examples(tokenizer), **SETTINGS, report=lambda *progress: told.append(progress)
    )
    assert [step for step, *_ in told] == list(range(1, 101))
    assert told[-1][2] < 0.1 < told[0][2]
    return Released(model, ("paid",)), tokenizer


def write(trained, prompts, *, after_end=False, attempts=4, seed=1, **changes):
    model, tokenizer = trained
    return generate(
        model,
        Released(prompts, ("codes",)),
        tokenizer=tokenizer,
        settings=WRITING.model_copy(update=changes),
        seed=seed,
        max_length=40,
        after_end=after_end,
        attempts=attempts,
    )


def test_every_prompt_gets_its_own_text_in_order(trained):
    prompts = [prompt for _ in range(5) for prompt in PAIRS]
    generation = write(trained, prompts).value
    assert list(generation.texts) == [PAIRS[prompt] for prompt in prompts]
    assert generation.redrawn == 0


def test_the_texts_are_paid_for_by_the_model_and_the_codes(trained):
    assert write(trained, list(PAIRS)).ledger_ids == ("paid", "codes")


def test_equal_seeds_give_equal_texts(saved_model):
    model, tokenizer = models.load(str(saved_model), device=torch.device("cpu"))
    untrained = Released(model), tokenizer
    prompts = list(PAIRS) * 3
    torch.manual_seed(5)
    texts = [write(untrained, prompts, seed=seed).value.texts for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]
    assert len(set(texts[0])) == len(prompts)
    state = torch.get_rng_state()
    write(untrained, prompts)
    assert torch.equal(torch.get_rng_state(), state)


def test_only_a_requested_end_token_precedes_a_text(saved_model, monkeypatch):
    """If a control code contains the name of the end token, the name is plain text, as in
    training."""
    model, tokenizer = models.load(str(saved_model), device=torch.device("cpu"))
    untrained, seen, write_on = (Released(model), tokenizer), [], model.generate

    def watched(ids, **how):
        seen.extend(ids.tolist())
        return write_on(ids, **how)

    monkeypatch.setattr(model, "generate", watched)
    for prompt, after_end in (("", True), ("about: <|endoftext|>\n", False)):
        write(untrained, [prompt], after_end=after_end)
    assert seen[0] == [0]
    assert 0 not in seen[-1]


@pytest.fixture
def often_empty(saved_model):
    """Return a model that, with a probability of about 0.5, writes an empty text."""
    model, tokenizer = models.load(str(saved_model), device=torch.device("cpu"))
    ends = [
        Example(tokens=np.array([*prompt, *rest], dtype=np.int32), prompt_length=len(prompt))
        for prompt in token_ids(tokenizer, list(PAIRS))
        for rest in ([0], [*token_ids(tokenizer, ["late"])[0], 0])
    ]
    train_on_public(model, ends, **SETTINGS)
    return Released(model), tokenizer


def test_empty_texts_are_counted_and_written_again(often_empty):
    """About half of the 30 texts are empty at first. After 30 attempts, an empty text remains with
    probability 30/2^30."""
    prompts = list(PAIRS) * 10
    generation = write(often_empty, prompts, attempts=30).value
    assert len(generation.texts) == 30
    assert all(generation.texts)
    assert generation.redrawn >= 5


def test_texts_that_stay_empty_stop_the_run(often_empty):
    with pytest.raises(GeneratorError, match="of 30 texts empty in 1 draws"):
        write(often_empty, list(PAIRS) * 10, attempts=1)


def test_perplexity_is_low_on_what_was_learned_and_high_on_what_was_not(trained, saved_model):
    model, tokenizer = trained
    untrained, _ = models.load(str(saved_model), device=torch.device("cpu"))
    learned = perplexity(model.value, examples(tokenizer), batch_size=2)
    assert 1 <= learned < 1.2
    assert perplexity(untrained, examples(tokenizer), batch_size=2) > 50
    with pytest.raises(ValueError, match="no token"):
        perplexity(model.value, [], batch_size=2)


def test_training_without_privacy_is_charged_as_that_and_equals_ordinary_training(
    saved_model, tmp_path
):
    ledger = ledger_in(tmp_path)
    weights = []
    for private in (False, True):
        model, tokenizer = models.load(str(saved_model), device=torch.device("cpu"))
        settings = SETTINGS | {"training": replace(SETTINGS["training"], epochs=3)}
        if private:
            units = Private([(example,) for example in examples(tokenizer)])
            released = train_without_privacy(model, units, **settings, session=session_of(ledger))
            (entry,) = ledger.entries()
            assert entry.event == NonPrivate()
            assert released.ledger_ids == (entry.id,)
        else:
            train_on_public(model, examples(tokenizer), **settings)
        weights.append(model.lm_head.weight.detach())
    assert torch.equal(*weights)
