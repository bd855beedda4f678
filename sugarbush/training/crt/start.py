"""Loads the public model that confidential training starts from, with a token for the mask."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from sugarbush.paths import require
from sugarbush.privacy.results import digest_of_folder
from sugarbush.training.crt import lstm
from sugarbush.training.crt.dedup import MASK
from sugarbush.training.crt.settings import LSTM, CrtSettings
from sugarbush.training.crt.units import add_mask_token, give_room_for_mask
from sugarbush.training.dpsgd import models
from sugarbush.training.dpsgd.settings import TINY


def load_start(pretrained: Path, settings: CrtSettings, *, device: torch.device) -> tuple[Any, Any]:
    """Load the first model and its tokenizer. Raises ParamsError and MissingInputError."""
    if settings.model == LSTM:
        return lstm.load(_made(pretrained, settings), device=device)
    start = str(_made(pretrained, settings)) if settings.model == TINY else settings.model
    return _with_mask(start, settings, device)


def check_start(settings: CrtSettings) -> None:
    """Check that the first model can be loaded and reads texts of `max_length` tokens.

    The models of stage pretrain are not checked. Raises ParamsError.
    """
    if settings.model not in (TINY, LSTM):
        _with_mask(settings.model, settings, torch.device("cpu"))


def special_tokens(pretrained: Path, settings: CrtSettings) -> tuple[str, ...]:
    """Return the mask, and the special tokens of the first model's tokenizer, as text."""
    from_scratch = settings.model in (TINY, LSTM)
    name = str(_made(pretrained, settings)) if from_scratch else settings.model
    tokenizer = models.load_tokenizer(name, section="methods.crt")
    return tuple(dict.fromkeys([MASK, *tokenizer.all_special_tokens]))


def digest_of_start(pretrained: Path, settings: CrtSettings) -> str:
    """Return what identifies the first model: its name, the digest of its folder, or the digest of
    stage pretrain."""
    if settings.model not in (TINY, LSTM):
        folder = Path(settings.model)
        return digest_of_folder(folder) if folder.is_dir() else settings.model
    return str(json.loads((_made(pretrained, settings) / "pretrain.json").read_text())["digest"])


def load_trained(folder: Path, *, device: torch.device) -> tuple[Any, Any]:
    """Load a model that `save` wrote, and its tokenizer."""
    if (folder / "config.json").exists():
        return models.load(str(folder), device=device, section="methods.crt")
    return lstm.load(folder, device=device)


def save(model: Any, tokenizer: Any, folder: Path) -> None:
    """Write a trained model and its tokenizer for `load_trained`."""
    writer = lstm if isinstance(model, lstm.LstmModel) else models
    writer.save(model, tokenizer, folder)


def _with_mask(start: str, settings: CrtSettings, device: torch.device) -> tuple[Any, Any]:
    model, tokenizer = models.load(start, device=device, section="methods.crt")
    models.refuse_beyond_context(model, settings.max_length, section="methods.crt")
    add_mask_token(tokenizer)
    give_room_for_mask(model, tokenizer)
    return model, tokenizer


def _made(pretrained: Path, settings: CrtSettings) -> Path:
    """Return the folder with the output of stage pretrain."""
    folder = pretrained / LSTM if settings.model == LSTM else pretrained
    return require(folder / "pretrain.json", left_by="pretrain").parent
