"""An LSTM and its tokenizer on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer

from sugarbush.training.crt.lstm import LstmModel

WEIGHTS = "lstm.safetensors"


def save(model: LstmModel, tokenizer: Any, folder: Path) -> None:
    """Write the files that `load` reads."""
    save_file(model.state_dict(), folder / WEIGHTS)
    tokenizer.save_pretrained(folder)


def load(folder: Path, *, device: torch.device) -> tuple[LstmModel, Any]:
    """The model, with the size of its weights, and its tokenizer."""
    weights = load_file(folder / WEIGHTS)
    vocabulary, width = weights["embedding.weight"].shape
    model = LstmModel(vocabulary=vocabulary, width=width, seed=0)
    model.load_state_dict(weights)
    return model.to(device), AutoTokenizer.from_pretrained(folder)
