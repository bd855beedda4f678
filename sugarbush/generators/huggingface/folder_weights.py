"""Rewrites a model's folder as a GGUF file, so that OpenVINO GenAI reads its weights.

The folder has a config.json and safetensors, as at the Hugging Face hub. Each weight is rounded to
16 bits.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import huggingface_hub
import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import safe_open
from transformers import AutoConfig, PretrainedConfig

ARCHITECTURES: Final = ("llama", "qwen2", "qwen3")
# What a folder may set, and the only value that OpenVINO's arithmetic has
_FIXED: Final[dict[str, tuple[Any, ...]]] = {
    "hidden_act": ("silu",),
    "attention_bias": (False, None),
    "mlp_bias": (False, None),
    "use_sliding_window": (False, None),
    "quantization_config": (None,),
    "pretraining_tp": (1, None),
}
_FILES = ["*.json", "*.safetensors", "*.jinja", "*.txt", "*.model"]  # in the folder itself


def unreadable_folder(name: str) -> str:
    """Return why OpenVINO cannot run a folder or a model of the hub, or an empty string.

    The hub's description of the model is downloaded. Raises an error of transformers or of the hub
    if there is no such model.
    """
    config = AutoConfig.from_pretrained(name, trust_remote_code=False)
    if config.model_type not in ARCHITECTURES:
        return f"it runs the architectures {', '.join(ARCHITECTURES)}, not {config.model_type}"
    for key, values in _FIXED.items():
        if getattr(config, key, None) not in values:
            return f"it ignores {key}"
    rope = config.rope_parameters
    if rope.get("rope_type", "default") != "default" or rope.get("partial_rotary_factor", 1) != 1:
        return "it ignores rope_parameters"
    if config.model_type != "qwen3" and _head_size(config) * config.num_attention_heads != (
        config.hidden_size
    ):
        return "it ignores head_dim"
    return "" if _weight_files(local_folder(name)) else "it reads weights in safetensors only"


def local_folder(name: str) -> Path:
    """Return a model's folder on this machine. A model of the hub is downloaded."""
    if Path(name).exists():
        return Path(name)
    return Path(
        huggingface_hub.snapshot_download(name, allow_patterns=_FILES, ignore_patterns=["*/*"])
    )


def write_folder(folder: Path, to: Path) -> PretrainedConfig:
    """Write the model in a folder to the GGUF file `to`, without its tokenizer. Return its config.

    Raises ValueError if a weight has no 16-bit number or no place in such a file.
    """
    import gguf  # in the extra gguf

    config: PretrainedConfig = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    architecture = config.model_type
    writer = gguf.GGUFWriter(str(to), architecture)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(_head_size(config))
    writer.add_value_length(_head_size(config))
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_dimension_count(_head_size(config))
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    kind = gguf.MODEL_ARCH[architecture.upper()]
    names = gguf.get_tensor_name_map(kind, config.num_hidden_layers)
    for name, values in _weights(folder, config):
        given = names.get_name(name, try_suffixes=(".weight", ".bias"))
        if given is None:
            raise ValueError(f"a GGUF file has no place for {name}")
        writer.add_tensor(given, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return config


def _weights(folder: Path, config: PretrainedConfig) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the name and the values of each tensor; 16-bit numbers for matrices."""
    for file in _weight_files(folder):
        with safe_open(file, framework="pt") as tensors:
            for name in tensors.keys():  # noqa: SIM118 - not a dict
                tied = config.tie_word_embeddings and name == "lm_head.weight"
                if tied or name.endswith("rotary_emb.inv_freq"):
                    continue
                tensor = tensors.get_tensor(name)
                values = tensor.to(torch.float16 if tensor.ndim > 1 else torch.float32).numpy()
                if not np.isfinite(values).all():
                    raise ValueError(f"a weight of {name} is too large")
                yield name, _interleaved(name, values, config)


def _interleaved(name: str, values: NDArray[Any], config: PretrainedConfig) -> NDArray[Any]:
    """Return the values in the order of a GGUF file, in which the two halves of each head of a
    Llama take turns."""
    if config.model_type != "llama" or not name.endswith(("q_proj.weight", "k_proj.weight")):
        return values
    halves = values.reshape(-1, 2, _head_size(config) // 2, values.shape[-1])
    return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(values.shape)


def _head_size(config: PretrainedConfig) -> int:
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return int(size)


def _weight_files(folder: Path) -> list[Path]:
    """Return the files that have the weights, without others that lie beside them."""
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        return [
            folder / n for n in sorted(set(json.loads(index.read_text())["weight_map"].values()))
        ]
    return [file for file in (folder / "model.safetensors",) if file.is_file()]
