"""A small encoder that learned to give the vectors of the bundled MiniLM, in a tenth of its time.

The word vectors are MiniLM's own. Each token's vector is mixed with those of its neighbours, passes
two small blocks that also read the mean of the text, and is averaged in groups with learned
weights. No attention compares pairs of tokens. The weights are in `light.safetensors`; how they
were trained, and on which public texts, is in docs/decisions/embeddings.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional

from sugarbush.embedding.bert import layer_norm, linear

_WORDS: Final = "embeddings.word_embeddings.weight"
GROUPS: Final = 8  # the features of a text are averaged in groups, each with its own weights
_SCALE: Final = ".scale"
MOST_LOGIT: Final = 8.0
_FEWEST_ROWS: Final = 4


class Light(nn.Module):
    """The small encoder. All texts of a batch have the same number of tokens."""

    # What a token gives its right neighbour, itself and its left neighbour (vocabulary, 3 * width).
    words: Tensor
    start: Tensor
    # Weights of the features of the tokens around a token (places, width).
    window: Tensor
    # What a token gives its text, and with which weights (vocabulary, own + groups).
    alone: Tensor

    def __init__(self, folder: Path, own: Mapping[str, Tensor]) -> None:
        """Load the word vectors of MiniLM in `folder`. `own` are the weights of this encoder."""
        super().__init__()
        words = minilm_words(folder)
        self.dim = int(own["o.bias"].shape[0])
        self.register_buffer("words", words @ own["conv.weight"].T)
        logits = words @ own["gs.weight"].T + own["gs.bias"]
        self.register_buffer("alone", torch.cat([words @ own["st.weight"].T, logits], dim=1))
        self.register_buffer("start", own["cb"])
        self.register_buffer("window", own["dw"])
        self.first, self.second = _Block(own, "1"), _Block(own, "2")
        self.group_weights = linear(own, "gc")
        self.norm = layer_norm(own, "ln")
        self.direct, self.hidden, self.out = (linear(own, name) for name in ("skip", "h", "o"))

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return vectors (n, dim) for `input_ids` (n, tokens)."""
        ids = features["input_ids"]
        left, middle, right = functional.embedding(ids, self.words).chunk(3, dim=2)
        states = middle + self.start
        states[:, 1:] += left[:, :-1]
        states[:, :-1] += right[:, 1:]
        states = functional.relu(states)
        parts = [states.mean(dim=1)]
        normed = self.first.norm(states)
        states = self.first(states, normed, normed.mean(dim=1))
        normed = self.second.norm(states)
        states = self.second(states, self._mixed(normed), normed.mean(dim=1))
        parts.append(states.mean(dim=1))
        parts.append(_weighted(states, self.group_weights(states)))
        own = functional.embedding(ids, self.alone)
        parts.append(_weighted(own[:, :, :-GROUPS], own[:, :, -GROUPS:]))
        joined = self.norm(torch.cat(parts, dim=1))
        filled = _filled(joined)
        vectors = self.direct(filled) + self.out(functional.relu(self.hidden(filled)))
        return {"sentence_embedding": vectors[: len(ids)]}

    def _mixed(self, states: Tensor) -> Tensor:
        """Add to each token the weighted features of the tokens up to two places away."""
        tokens, reach = states.shape[1], len(self.window) // 2
        padded = functional.pad(states, (0, 0, reach, reach))
        mixed = states.clone()
        for place, weights in enumerate(self.window):
            mixed += padded[:, place : place + tokens] * weights
        return mixed


class _Block(nn.Module):
    """Two layers with a residual, which read a token and the mean of its text."""

    def __init__(self, weights: Mapping[str, Tensor], name: str) -> None:
        super().__init__()
        self.norm = layer_norm(weights, f"n{name}")
        self.widen = linear(weights, f"a{name}")
        self.widen_mean = linear(weights, f"x{name}")
        self.narrow = linear(weights, f"b{name}")

    def forward(self, states: Tensor, inputs: Tensor, mean: Tensor) -> Tensor:
        of_text = self.widen_mean(_filled(mean))[: len(mean)]
        widened = self.widen(inputs) + of_text[:, None]
        result: Tensor = states + self.narrow(functional.relu_(widened))
        return result


def write_weights(path: Path, weights: Mapping[str, Tensor]) -> None:
    """Write matrices in eight bits with one scale for each row, and vectors in 16 bits."""
    stored: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        if tensor.ndim == 1:
            stored[name] = tensor.half()
        else:
            scale = tensor.abs().amax(dim=1, keepdim=True).clamp(min=1e-8) / 127
            stored[name] = (tensor / scale).round().to(torch.int8)
            stored[f"{name}{_SCALE}"] = scale.half()
    save_file(stored, path)


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read what `write_weights` wrote, in float32."""
    stored = load_file(path)
    scales = {name: stored.pop(name) for name in list(stored) if name.endswith(_SCALE)}
    return {
        name: tensor.float() * scales[f"{name}{_SCALE}"].float()
        if f"{name}{_SCALE}" in scales
        else tensor.float()
        for name, tensor in stored.items()
    }


def minilm_words(folder: Path) -> Tensor:
    """Return the word vectors of MiniLM (vocabulary, d), around 0 and of mean length sqrt(d)."""
    with safe_open(folder / "model.safetensors", "pt") as file:
        words: Tensor = file.get_tensor(_WORDS).float()
    words = words - words.mean(dim=0)
    scale: Tensor = words.shape[1] ** 0.5 / words.norm(dim=1).mean()
    return words * scale


def _weighted(states: Tensor, logits: Tensor) -> Tensor:
    """Return means over the tokens (n, features), each group of features with its own weights."""
    rows, tokens, _ = states.shape
    weights = torch.exp(logits.clamp(-MOST_LOGIT, MOST_LOGIT))
    weights = weights / weights.sum(dim=1, keepdim=True)
    groups = states.view(rows, tokens, GROUPS, -1) * weights[..., None]
    return groups.sum(dim=1).reshape(rows, -1)


def _filled(rows: Tensor) -> Tensor:
    """Return at least `_FEWEST_ROWS` rows, filled up with copies.

    Matrix libraries multiply one row in another order than several, with other last bits.
    """
    return rows if len(rows) >= _FEWEST_ROWS else rows.repeat(_FEWEST_ROWS, 1)[:_FEWEST_ROWS]
