"""Fixtures: public texts, and a small model whose tokenizer was trained on these texts."""

import pytest
import torch

from sugarbush.training.dpsgd import models

PUBLIC_TEXTS = [
    f"the {who} asked about {what}, it was {how}"
    for who in ("man", "woman", "shop")
    for what in ("a loan", "fees", "the card")
    for how in ("late", "fine", "wrong")
]


@pytest.fixture(scope="session")
def saved_model(tmp_path_factory):
    """Save a GPT-2 (2 layers of width 32) and its tokenizer as a model of transformers.

    Return the folder.
    """
    folder = tmp_path_factory.mktemp("model")
    tokenizer = models.train_tokenizer(PUBLIC_TEXTS, vocabulary=300)
    shape = models.ModelShape(layers=2, width=32, heads=2, context=64)
    models.save(models.new_model(tokenizer, shape, seed=1), tokenizer, folder)
    return folder


@pytest.fixture
def loaded(saved_model):
    return models.load(str(saved_model), device=torch.device("cpu"))
