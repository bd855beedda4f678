"""Loads, makes and saves models of the GPT-2 and Llama families, and adds LoRA factors."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from tokenizers import ByteLevelBPETokenizer
from torch import nn
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GPT2Config,
    GPT2LMHeadModel,
    GPT2Tokenizer,
)
from transformers.pytorch_utils import Conv1D
from transformers.utils import logging

from sugarbush.errors import ParamsError
from sugarbush.randomness import seed_of
from sugarbush.training.dpsgd.data import token_ids

END = "<|endoftext|>"
# The libraries raise these errors if a folder is missing, is damaged, or has no model.
_UNREADABLE = (OSError, ValueError, KeyError, RuntimeError, ImportError, SafetensorError)
_BLOCKS = (".h.", ".layers.")  # the names of the blocks in a GPT-2 and in a Llama


@dataclass(frozen=True, kw_only=True)
class ModelShape:
    """The size of a new model."""

    layers: int
    width: int
    heads: int
    context: int


TINY = ModelShape(layers=4, width=256, heads=4, context=256)


def load(
    name_or_path: str, *, device: torch.device, section: str = "methods.dpft"
) -> tuple[Any, Any]:
    """Load a causal language model in float32 without dropout, and its tokenizer.

    A name that is not in Hugging Face's cache is downloaded. Code that comes with a model is never
    run. Dropout is off, because DP-SGD's noise regularises enough. `section` is the section of the
    settings that names the model.

    Raises ParamsError if there is no such model, or if some of its weights are missing. Raises
    ParamsError if the tokenizer returns no token for a text or has no end token. Raises ParamsError
    if the tokenizer reads the name of a special token in a text as that token. Raises ParamsError
    if the tokenizer has tokens that the model does not know.
    """

    def refusal(problem: str) -> ParamsError:
        return _refusal(name_or_path, section, problem)

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    tokenizer = load_tokenizer(name_or_path, section=section)
    try:
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            name_or_path, dtype=torch.float32, output_loading_info=True, trust_remote_code=False
        )
    except _UNREADABLE as error:
        raise _unreadable(name_or_path, section, error) from None
    model, info = loaded
    if info["missing_keys"]:
        raise refusal(
            f"lacks {len(info['missing_keys'])} of its weights, which would be random. Restore its "
            "files, or choose another model."
        )
    if not tokenizer("a text")["input_ids"]:
        raise refusal(
            "has a tokenizer that returns no token for a text. Put its tokenizer's files beside "
            "the weights, or choose another model."
        )
    if tokenizer.eos_token_id is None:
        raise refusal(
            "has a tokenizer without an end-of-text token, so its texts would not end. Choose "
            "another model."
        )
    named = token_ids(tokenizer, tokenizer.all_special_tokens)
    special = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
    if any(special & set(ids) for ids in named):
        raise refusal(
            "has a tokenizer that reads the name of a special token in a text as that token, so a "
            "text could end in its middle. Choose another model."
        )
    if len(tokenizer) > model.get_input_embeddings().num_embeddings:
        raise refusal(
            f"has a tokenizer of {len(tokenizer)} tokens, which is more than the model knows. "
            "Choose another model."
        )
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return model.to(device), tokenizer


def load_tokenizer(name_or_path: str, *, section: str) -> Any:
    """Load the tokenizer of a model. Raises ParamsError if the tokenizer cannot be read."""
    try:
        return AutoTokenizer.from_pretrained(name_or_path, trust_remote_code=False)
    except _UNREADABLE as error:
        raise _unreadable(name_or_path, section, error) from None


def _unreadable(name_or_path: str, section: str, error: Exception) -> ParamsError:
    return _refusal(
        name_or_path,
        section,
        f"cannot be loaded ({type(error).__name__}). Name a folder with a causal language model, "
        "or a model that can be downloaded.",
    )


def _refusal(name_or_path: str, section: str, problem: str) -> ParamsError:
    return ParamsError(f"params.yaml: {section}.model={name_or_path!r} {problem}")


def refuse_beyond_context(model: Any, max_length: int, *, section: str = "methods.dpft") -> None:
    """Raise ParamsError if texts of `max_length` tokens are longer than the model can read.

    Without this check, training would fail at the first long text, after the charge.
    """
    positions = getattr(model.config, "max_position_embeddings", None)
    if positions is not None and max_length > positions:
        raise ParamsError(
            f"params.yaml: {section}.max_length={max_length} is more than the {positions} tokens "
            "that the model can read. Lower max_length. The tiny model reads pretrain.max_length "
            "tokens."
        )


def save(model: Any, tokenizer: Any, folder: Path) -> None:
    """Write a model and its tokenizer for `load` and other tools."""
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def train_tokenizer(texts: Iterable[str], *, vocabulary: int) -> Any:
    """Train a byte-level BPE tokenizer of at most `vocabulary` tokens on *public* texts.

    Every text can be encoded, because every byte is a token.
    """
    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator(
        texts, vocab_size=vocabulary, min_frequency=2, special_tokens=[END], show_progress=False
    )
    with tempfile.TemporaryDirectory() as folder:
        trained.save_model(folder)
        return GPT2Tokenizer.from_pretrained(folder, trust_remote_code=False)


def new_model(tokenizer: Any, shape: ModelShape, *, seed: int) -> GPT2LMHeadModel:
    """Make an untrained GPT-2 with weights from a public seed."""
    config = GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=shape.context,
        n_embd=shape.width,
        n_layer=shape.layers,
        n_head=shape.heads,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        # The same function as GPT-2's `gelu_new`, in one operation: a step is about a sixth faster.
        activation_function="gelu_pytorch_tanh",
        bos_token_id=tokenizer.eos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_of(seed, "weights"))
        return GPT2LMHeadModel(config)


def with_lora(model: Any, *, rank: int) -> Any:
    """Freeze the weights of `model`, and add low-rank factors beside the weights of every block.

    The factor alpha of LoRA is twice the rank, so that one learning rate suits several ranks. Move
    the model to its device before this call. Source: Hu et al. 2022.
    """
    from peft import LoraConfig, get_peft_model  # imported here, because peft loads slowly

    blocks = [
        name
        for name, module in model.named_modules()
        if isinstance(module, Conv1D | nn.Linear) and any(block in name for block in _BLOCKS)
    ]
    if not blocks:
        raise ParamsError(
            "params.yaml: methods.dpft.lora_rank is set, but the model has no blocks of the GPT-2 "
            "or Llama kind. Set lora_rank to null to train all weights."
        )
    config = LoraConfig(
        r=rank,
        lora_alpha=2 * rank,
        lora_dropout=0.0,
        target_modules=blocks,
        fan_in_fan_out=isinstance(model.get_submodule(blocks[0]), Conv1D),
        task_type="CAUSAL_LM",
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`is_gradient_checkpointing` is deprecated")
        return get_peft_model(model, config)


def merged(model: Any) -> Any:
    """Add the LoRA factors of the model to its weights."""
    return model.merge_and_unload() if hasattr(model, "merge_and_unload") else model
