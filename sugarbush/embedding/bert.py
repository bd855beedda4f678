"""Loads sentence encoders with the architecture of BERT, such as the bundled one, by PyTorch alone.

sentence-transformers and transformers need seconds to import, in each process. The bundled model
has six layers of a common form, so this module computes them itself, with the library's result
(`tests/unit/embedding/test_bert.py`). It reads model.safetensors, tokenizer.json and config.json of
a folder, and no pickle.

Source: Devlin et al. 2019, BERT; Reimers & Gurevych 2019, Sentence-BERT (mean pooling).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.nn import functional

_MODULES = ("Transformer", "Pooling", "Normalize")
_CONFIG = {
    "model_type": "bert",
    "hidden_act": "gelu",
    "position_embedding_type": "absolute",
}
_TEXTS_AT_ONCE = 512  # an encoding needs much more memory than its ids
_FILES = ("model.safetensors", "tokenizer.json", "sentence_bert_config.json", "modules.json")


def is_plain_bert(folder: Path) -> bool:
    """Return whether a folder has a BERT encoder with mean pooling, which this module computes."""
    try:
        if not all((folder / name).exists() for name in _FILES):
            return False
        config, pooling = _json(folder / "config.json"), _json(folder / "1_Pooling/config.json")
        kinds = [module["type"].rpartition(".")[2] for module in _json(folder / "modules.json")]
        prompts = _json(folder / "config_sentence_transformers.json").get("prompts")
        lowers = _json(folder / "sentence_bert_config.json").get("do_lower_case")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False
    modes = {name for name, value in pooling.items() if name.startswith("pooling_mode") and value}
    return (
        tuple(kinds) == _MODULES
        and all(config.get(name, value) == value for name, value in _CONFIG.items())
        and modes == {"pooling_mode_mean_tokens"}
        and not prompts
        and not lowers
    )


class Bert(nn.Module):
    """A BERT encoder with mean pooling. All texts of a batch have the same number of tokens."""

    words: Tensor
    positions: Tensor

    def __init__(self, folder: Path) -> None:
        super().__init__()
        from safetensors.torch import load_file

        config, weights = _json(folder / "config.json"), load_file(folder / "model.safetensors")
        own = {name: tensor.float() for name, tensor in weights.items()}
        self.dim = int(config["hidden_size"])
        eps = float(config["layer_norm_eps"])
        positions = own["embeddings.position_embeddings.weight"]
        positions = positions + own["embeddings.token_type_embeddings.weight"][0]
        self.register_buffer("words", own["embeddings.word_embeddings.weight"])
        self.register_buffer("positions", positions)
        self.norm = layer_norm(own, "embeddings.LayerNorm", eps)
        self.layers = nn.ModuleList(
            _Layer(own, f"encoder.layer.{i}", heads=int(config["num_attention_heads"]), eps=eps)
            for i in range(int(config["num_hidden_layers"]))
        )

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the mean of the last layer's vectors (n, dim), for `input_ids` (n, tokens)."""
        ids = features["input_ids"]
        states = self.norm(functional.embedding(ids, self.words) + self.positions[: ids.shape[1]])
        for layer in self.layers:
            states = layer(states)
        return {"sentence_embedding": states.mean(dim=1)}


class _Layer(nn.Module):
    def __init__(self, weights: dict[str, Tensor], name: str, *, heads: int, eps: float) -> None:
        super().__init__()
        self.heads = heads
        self.query = linear(weights, f"{name}.attention.self.query")
        self.key = linear(weights, f"{name}.attention.self.key")
        self.value = linear(weights, f"{name}.attention.self.value")
        self.attended = linear(weights, f"{name}.attention.output.dense")
        self.norm_attended = layer_norm(weights, f"{name}.attention.output.LayerNorm", eps)
        self.widened = linear(weights, f"{name}.intermediate.dense")
        self.narrowed = linear(weights, f"{name}.output.dense")
        self.norm_narrowed = layer_norm(weights, f"{name}.output.LayerNorm", eps)

    def forward(self, states: Tensor) -> Tensor:
        rows, tokens, dim = states.shape

        def by_head(vectors: Tensor) -> Tensor:
            return vectors.view(rows, tokens, self.heads, -1).transpose(1, 2)

        attention = functional.scaled_dot_product_attention(
            by_head(self.query(states)), by_head(self.key(states)), by_head(self.value(states))
        )
        mixed = attention.transpose(1, 2).reshape(rows, tokens, dim)
        states = self.norm_attended(self.attended(mixed) + states)
        widened = functional.gelu(self.widened(states))
        result: Tensor = self.norm_narrowed(self.narrowed(widened) + states)
        return result


@dataclass(frozen=True)
class WordPieces:
    """The tokenizer of tokenizer.json, called like those of transformers."""

    tokenizer: Any
    model_max_length: int
    is_fast: bool = True

    @classmethod
    def of(cls, folder: Path) -> WordPieces:
        """Read a folder's tokenizer. Texts are not padded."""
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        tokenizer.no_padding()
        most = _json(folder / "sentence_bert_config.json")["max_seq_length"]
        return cls(tokenizer, int(most))

    def __call__(
        self,
        texts: Sequence[str],
        *,
        max_length: int,
        return_overflowing_tokens: bool = False,
        **_: Any,
    ) -> dict[str, list[Any]]:
        """Return the token ids of each text, at most `max_length`. With
        `return_overflowing_tokens`, return all windows, and the text of each."""
        self.tokenizer.enable_truncation(max_length)
        ids: list[Any] = []
        owners: list[Any] = []
        for start in range(0, len(texts), _TEXTS_AT_ONCE):
            batch = list(texts[start : start + _TEXTS_AT_ONCE])
            for place, encoding in enumerate(self.tokenizer.encode_batch_fast(batch), start):
                windows = [encoding, *(encoding.overflowing if return_overflowing_tokens else ())]
                ids += [window.ids for window in windows]
                owners += [place] * len(windows)
        found = {"input_ids": ids}
        return (
            found | {"overflow_to_sample_mapping": owners} if return_overflowing_tokens else found
        )


def linear(weights: Mapping[str, Tensor], name: str) -> nn.Linear:
    """Return the layer `name` of a file's weights, with its bias if the file has one."""
    weight, bias = weights[f"{name}.weight"], weights.get(f"{name}.bias")
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, device="meta")
    layer.weight = nn.Parameter(weight, requires_grad=False)
    if bias is not None:
        layer.bias = nn.Parameter(bias, requires_grad=False)
    return layer


def layer_norm(weights: Mapping[str, Tensor], name: str, eps: float = 1e-5) -> nn.LayerNorm:
    """Return the normalisation `name` of a file's weights."""
    norm = nn.LayerNorm(weights[f"{name}.weight"].shape[0], eps=eps, device="meta")
    norm.weight = nn.Parameter(weights[f"{name}.weight"], requires_grad=False)
    norm.bias = nn.Parameter(weights[f"{name}.bias"], requires_grad=False)
    return norm


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
