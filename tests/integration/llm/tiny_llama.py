"""Makes a very small Llama for tests, and writes it as a GGUF file as llama.cpp does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Weights
from numpy.typing import NDArray
from transformers import AutoConfig, AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from tests.integration.llm.tiny_gpt2 import CONTEXT_TOKENS, make_tokenizer, train

_HEADS = 4
_NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
_TOP = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def save_tiny_llama(folder: Path, *, chats: bool, size: int = 64, trained: bool = True) -> Path:
    """Make and save a model and its tokenizer. `chats` adds a chat template."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        tokenizer = make_tokenizer(chats=chats)
        config = LlamaConfig(
            vocab_size=len(tokenizer), max_position_embeddings=CONTEXT_TOKENS, hidden_size=size,
            intermediate_size=2 * size, num_hidden_layers=2, num_attention_heads=_HEADS,
            num_key_value_heads=2, bos_token_id=tokenizer.eos_token_id,
            eos_token_id=tokenizer.eos_token_id, tie_word_embeddings=False,
        )  # fmt: skip
        model = LlamaForCausalLM(config)
        if trained:
            train(model, tokenizer)
        else:
            for parameter in model.parameters():  # far from uniform, so that no two scores are near
                parameter.data.mul_(4.0)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def save_random(
    folder: Path, *, kind: str = "llama", tied: bool = False, seed: int = 1, **settings: Any
) -> Path:
    """Save an untrained model of an architecture that OpenVINO reads, and its tokenizer."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        tokenizer = make_tokenizer(chats=False)
        config = AutoConfig.for_model(
            kind, vocab_size=len(tokenizer), max_position_embeddings=CONTEXT_TOKENS,
            hidden_size=128, intermediate_size=256, num_hidden_layers=2,
            num_attention_heads=_HEADS, num_key_value_heads=2,
            bos_token_id=tokenizer.eos_token_id, eos_token_id=tokenizer.eos_token_id,
            tie_word_embeddings=tied, **({"head_dim": 64} if kind == "qwen3" else {}), **settings,
        )  # fmt: skip
        model = AutoModelForCausalLM.from_config(config)
        for parameter in model.parameters():  # far from uniform, so that no two scores are near
            parameter.data.mul_(4.0)
            if parameter.ndim == 1:
                parameter.data.add_(0.1 * torch.randn_like(parameter))
            else:  # else rounding to 16 bits would decide between two near scores
                parameter.data = parameter.data.half().float()
    model.save_pretrained(folder, max_shard_size="200KB")
    tokenizer.save_pretrained(folder)
    return folder


def write_gguf(folder: Path, path: Path, weights: Weights = Weights.F32, **extra: float) -> Path:
    """Write the Llama of `folder` as a GGUF file, with further settings `extra` of numbers."""
    model = LlamaForCausalLM.from_pretrained(folder)
    config = model.config
    made = gguf.GGUFWriter(str(path), "llama")
    made.add_file_type(gguf.LlamaFileType.ALL_F32)
    made.add_block_count(config.num_hidden_layers)
    made.add_context_length(config.max_position_embeddings)
    made.add_embedding_length(config.hidden_size)
    made.add_feed_forward_length(config.intermediate_size)
    made.add_head_count(config.num_attention_heads)
    made.add_head_count_kv(config.num_key_value_heads)
    made.add_layer_norm_rms_eps(config.rms_norm_eps)
    made.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    made.add_rope_freq_base(10000.0)
    for name, value in extra.items():
        made.add_float32(name, value)
    _add_tokenizer(made, folder)
    for name, tensor in model.state_dict().items():
        _add_tensor(made, name, tensor.numpy(), weights, config)
    made.write_header_to_file()
    made.write_kv_data_to_file()
    made.write_tensors_to_file()
    made.close()
    return path


def _add_tokenizer(made: Any, folder: Path) -> None:
    bpe = json.loads((folder / "tokenizer.json").read_text())
    vocabulary = bpe["model"]["vocab"]
    special = {token["content"]: token["id"] for token in bpe["added_tokens"]}
    tokens = sorted(vocabulary | special, key=(vocabulary | special).__getitem__)
    made.add_tokenizer_model("gpt2")
    made.add_tokenizer_pre("gpt-2")
    made.add_token_list(tokens)
    made.add_token_types(
        [gguf.TokenType.CONTROL if t in special else gguf.TokenType.NORMAL for t in tokens]
    )
    made.add_token_merges([" ".join(pair) for pair in bpe["model"]["merges"]])
    made.add_bos_token_id(0)
    made.add_eos_token_id(0)
    template = folder / "chat_template.jinja"
    if template.exists():
        made.add_chat_template(template.read_text())


def _add_tensor(
    made: Any, name: str, values: NDArray[np.float32], weights: Weights, config: Any
) -> None:
    stem, _, kind = name.rpartition(".")
    if stem.startswith("model.layers."):
        layer, _, inner = stem.removeprefix("model.layers.").partition(".")
        to = f"blk.{layer}.{_NAMES[inner]}.{kind}"
        if inner in {"self_attn.q_proj", "self_attn.k_proj"}:
            heads = config.num_attention_heads if "q_" in inner else config.num_key_value_heads
            # GGUF files of Llamas have the two halves of each head in turns.
            parts = values.reshape(heads, 2, len(values) // heads // 2, -1)
            values = parts.swapaxes(1, 2).reshape(values.shape)
    else:
        to = f"{_TOP[stem]}.{kind}"
    if values.ndim == 1 or weights is Weights.F32:
        made.add_tensor(to, np.ascontiguousarray(values))
    elif weights is Weights.F16:
        made.add_tensor(to, values.astype(np.float16))
    elif weights is Weights.Q6_K:
        made.add_tensor(to, _six_bits(values.shape, len(to)), raw_dtype=weights)
    else:
        made.add_tensor(to, gguf.quants.quantize(values, weights), raw_dtype=weights)


def _six_bits(shape: tuple[int, ...], seed: int) -> NDArray[np.uint8]:
    """Return random weights of the type Q6_K, because the package gguf only reads them."""
    rng = np.random.default_rng(seed)
    blocks = rng.integers(0, 256, (shape[0], shape[1] // 256, 210), dtype=np.uint8)
    blocks[..., 192:208] = rng.integers(1, 40, blocks[..., 192:208].shape)  # scales of 16 weights
    blocks[..., 208:] = np.frombuffer(np.float16(3e-4).tobytes(), dtype=np.uint8)
    return blocks.reshape(shape[0], -1)
