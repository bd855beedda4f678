"""Tests that problems with a model are reported before the metadata stage spends budget."""

from pathlib import Path

import pytest
from transformers import BertConfig, BertForMaskedLM

from sugarbush.data.schema import Schema
from sugarbush.errors import PrivacyError
from sugarbush.training.dpsgd import models
from tests.settings import params

SCHEMA = Schema.model_validate(
    {"subject": "letters", "attributes": [{"name": "topic", "column": "t", "values": ["a", "b"]}]}
)


def folder_of(folder: Path, kind: str) -> str:
    """Save a small model of kind `kind` with its tokenizer, and return its folder."""
    tokenizer = models.train_tokenizer(["a letter to a shop"], vocabulary=300)
    small = {"num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    made = {
        "gpt2": lambda: models.new_model(
            tokenizer, models.ModelShape(layers=1, width=16, heads=2, context=64), seed=1
        ),
        "bert": lambda: BertForMaskedLM(
            BertConfig(vocab_size=len(tokenizer), hidden_size=16, **small)
        ),
    }
    models.save(made[kind](), tokenizer, folder)
    return str(folder)


@pytest.mark.parametrize("rank", [0, 2])
def test_a_model_that_can_be_clipped_is_ready(tmp_path: Path, rank: int) -> None:
    ready = params(
        methods=["dpft"], methods__dpft__model=folder_of(tmp_path, "gpt2"),
        methods__dpft__max_length=64, methods__dpft__lora_rank=rank,
    )  # fmt: skip
    ready.method("dpft").preflight(SCHEMA, ready.training)


def test_a_model_that_has_no_clipping_rule_is_refused(tmp_path: Path) -> None:
    bert = params(
        methods=["dpft"], methods__dpft__model=folder_of(tmp_path, "bert"),
        methods__dpft__max_length=64, methods__dpft__lora_rank=0,
    )  # fmt: skip
    with pytest.raises(PrivacyError, match=r"no clipping rule.*methods\.dpft\.model"):
        bert.method("dpft").preflight(SCHEMA, bert.training)
