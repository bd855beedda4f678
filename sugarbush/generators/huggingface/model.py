"""Loads a causal language model on this machine, through transformers.

Code in a model's folder never runs. The model's default sampling settings have no effect.
`openvino_engine.py` loads a model for a CPU.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import sys
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, TypeVar

import huggingface_hub
import torch
from jinja2 import TemplateError
from safetensors import SafetensorError
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    GgufConfig,
    PreTrainedTokenizerFast,
)

from sugarbush.errors import ParamsError
from sugarbush.extras import require_extra
from sugarbush.generators.huggingface.model_settings import LocalModelSettings, is_gguf
from sugarbush.progress import working

# transformers raises these errors for a folder that is incomplete, damaged or of another kind.
CANNOT_LOAD = (
    OSError,
    ValueError,
    KeyError,
    ImportError,
    RuntimeError,
    EOFError,
    UnpicklingError,
    SafetensorError,
)
M = TypeVar("M", bound="TextModel")

_VALUES = 1024  # approximate number of values per tensor in a model's fingerprint


@dataclass(frozen=True, kw_only=True)
class TextModel:
    """A loaded model, in any program that runs it. An answer ends at a token of `end_ids`.

    `fingerprint` is a hash of weights, architecture and vocabulary. `dtype` is the type of the
    numbers that the model computes with. `engine` is the program and its version; empty for
    transformers. `chats` states whether prompts are chats; other prompts are lists that the model
    continues.
    """

    tokenizer: Any
    context_tokens: int
    end_ids: tuple[int, ...]
    fingerprint: str
    dtype: str
    chats: bool
    engine: str = ""

    def encode(self, text: str) -> list[int]:
        """Return token ids. Outside a chat, the tokenizer adds the special tokens."""
        ids: list[int] = self.tokenizer(
            text, add_special_tokens=not self.chats, split_special_tokens=not self.chats
        )["input_ids"]
        return ids

    def chat(self, content: str) -> str:
        """Write the chat in the model's own format, up to the start of the answer.

        Templates of reasoning models read `enable_thinking`. Other templates ignore
        `enable_thinking`.
        """
        messages = [{"role": "user", "content": content}]
        written: str = self.tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True, enable_thinking=False
        )
        return written


@dataclass(frozen=True, kw_only=True)
class LocalModel(TextModel):
    """A model that transformers has loaded."""

    model: Any
    device: torch.device
    pad_id: int


def load_model(params: LocalModelSettings) -> LocalModel:
    """Return the model of the settings, in transformers. The model is loaded once per process.

    Raises ParamsError, which names the wrong setting.
    """
    device = device_of(params.device)
    with working(f"loading the model {Path(params.model).name}"):
        local = _load(params.model, device, dtype_of(params.dtype, device))
    return with_form(local, params)


def with_form(local: M, params: LocalModelSettings) -> M:
    """Return the model with the form of prompts in the settings.

    Raises ParamsError, which names the wrong setting.
    """
    if params.max_tokens >= local.context_tokens:
        raise ParamsError(
            f"generator.huggingface.max_tokens={params.max_tokens} leaves no room for a prompt, "
            f"because the model's context has {local.context_tokens} tokens. Lower max_tokens"
        )
    if params.form == "chat" and not local.chats:
        raise ParamsError(
            f"generator.huggingface.form=chat, but model '{params.model}' has no chat template. "
            "Set form: list"
        )
    return replace(local, chats=local.chats and params.form != "list")


@lru_cache(maxsize=1)
def _load(name: str, device: torch.device, dtype: torch.dtype) -> LocalModel:
    try:
        folder, gguf = _split_gguf(name)
        ask_hub(folder)
        tokenizer = load_tokenizer(folder, gguf)
        model: Any = AutoModelForCausalLM.from_pretrained(
            folder,
            dtype=dtype,
            gguf_file=gguf,
            # Packed weights would need a kernel that is not installed.
            quantization_config=GgufConfig(dequantize=True) if gguf else None,
            trust_remote_code=False,
        )
    except CANNOT_LOAD as error:
        raise ParamsError(cannot_load(name, error)) from None
    check_vocabulary(name, tokenizer, model.get_input_embeddings().num_embeddings)
    context_tokens = _context_of(model, tokenizer)
    # an infinite limit, because this package shortens prompts itself
    tokenizer.model_max_length = sys.maxsize
    end_ids = _end_ids(model, tokenizer)
    pad_id = next(i for i in (*end_ids, tokenizer.pad_token_id, 0) if i is not None)
    model.generation_config = GenerationConfig(  # type: ignore[no-untyped-call]
        eos_token_id=list(end_ids) or None, pad_token_id=pad_id
    )
    local = LocalModel(
        model=model.to(device).eval(),
        tokenizer=tokenizer,
        device=device,
        context_tokens=context_tokens,
        pad_id=pad_id,
        end_ids=end_ids,
        fingerprint=_fingerprint(model, tokenizer),
        dtype=str(model.dtype),
        chats=bool(tokenizer.chat_template),
    )
    if local.chats:
        try_template(local, name)
    return local


def load_tokenizer(folder: str, gguf: str | None) -> Any:
    """Return the tokenizer of a folder, or of the GGUF file `gguf` in the folder."""
    if gguf is None:
        return AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    # AutoTokenizer makes the same tokenizer, but reads the file twice (6 CPU-s more), and mixes it
    # with other tokenizers' files in the folder.
    return PreTrainedTokenizerFast(name_or_path=folder, gguf_file=gguf)  # type: ignore[no-untyped-call]


def check_vocabulary(name: str, tokenizer: Any, size: int) -> None:
    """Raise ParamsError if a tokenizer has no words, or tokens that a model lacks."""
    # If a folder has no tokenizer, transformers returns a tokenizer with an empty vocabulary.
    token_ids = tokenizer("Known words.", add_special_tokens=False)["input_ids"]
    if not token_ids or max(token_ids) >= size:
        raise ParamsError(
            f"generator.huggingface.model='{name}' has no tokenizer that fits its weights. Add the "
            "model's tokenizer to its folder, or use another model"
        )


def ask_hub(name: str) -> None:
    """Download the description of a model, or find it on this machine. A path is not asked for.

    Raises an error of the hub after one round of retries. The hub's own lines about each retry are
    not shown, because the final message says what to do.
    """
    if Path(name).exists():
        return
    logger = logging.getLogger("huggingface_hub")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        huggingface_hub.hf_hub_download(name, "config.json")
    finally:
        logger.setLevel(level)


def cannot_load(name: str, error: BaseException) -> str:
    """Return the message. For a name at the hub, it lists other sources of a model."""
    if Path(name).exists() or name.startswith((".", "/", "~")) or name.count("/") > 1:
        return (
            f"generator.huggingface.model='{name}' cannot be loaded: {first_line(error)} Set it "
            "to a folder of a causal language model (config.json, weights, tokenizer), to a GGUF "
            "file, or to a model's name at the Hugging Face hub."
        )
    offline = " HF_HUB_OFFLINE is set." if huggingface_hub.constants.HF_HUB_OFFLINE else ""
    return (
        f"generator.huggingface.model='{name}' is not on this machine, and the Hugging Face hub "
        f"did not give it.{offline} Ways to a generator:\n"
        f"  with a network   run again; a download that was cut off continues\n"
        f"  a folder         on another machine: hf download {name} --local-dir MODEL; copy the "
        "folder, and set generator.huggingface.model to its path\n"
        "  a GGUF file      set generator.huggingface.model to its path (the extra gguf)\n"
        "  an endpoint      set generator.provider: openai and generator.openai.base_url\n"
        "  a pool           set generator.provider: pool and name public texts in "
        "generator.pool.sources"
    )


def _split_gguf(name: str) -> tuple[str, str | None]:
    """Split the path of a GGUF file into folder and file name.

    Any other model's name is returned unchanged. Raises ParamsError if a package is missing.
    """
    if not is_gguf(name):
        return name, None
    require_extra("gguf")
    return str(Path(name).parent), Path(name).name


def try_template(local: TextModel, name: str) -> None:
    """Raise ParamsError if the model's chat template fails."""
    try:
        local.chat("Known words.")
    except (TemplateError, ValueError, TypeError) as error:
        raise ParamsError(
            f"generator.huggingface.model='{name}' has a chat template that fails for a chat with "
            f"one user message: {first_line(error)} Fix the template in the model's folder, or "
            "use another model."
        ) from None


def device_of(name: str) -> torch.device:
    """Return the device `name`. `auto` means a GPU if there is one. Raises ParamsError."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError):
        raise ParamsError(
            f"generator.huggingface.device='{name}' is not available. Set it to auto, cpu, or a "
            "GPU that torch can use, such as cuda or cuda:1"
        ) from None
    return device


def dtype_of(name: str, device: torch.device) -> torch.dtype:
    """Return the type of the weights. `auto` means float32 on a CPU, and 16 bits on a GPU."""
    if name != "auto":
        dtype: torch.dtype = getattr(torch, name)
        return dtype
    if device.type != "cuda":
        return torch.float32
    return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16


def _context_of(model: Any, tokenizer: Any) -> int:
    """Return the maximum number of tokens of prompt and answer together.

    A tokenizer without a limit reports 1e30.
    """
    positions = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    return int(min(positions or math.inf, tokenizer.model_max_length, sys.maxsize))


def _end_ids(model: Any, tokenizer: Any) -> tuple[int, ...]:
    """Return the end tokens. The tokenizer of a chat model often lists only some of them."""
    configured = model.generation_config.eos_token_id
    listed = configured if isinstance(configured, list) else [configured]
    return tuple(dict.fromkeys(i for i in (*listed, tokenizer.eos_token_id) if i is not None))


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or the error's name."""
    line = str(error).strip().partition("\n")[0].rstrip(".")
    return f"{line}." if line else f"{type(error).__name__}."


def _fingerprint(model: Any, tokenizer: Any) -> str:
    """Return a hash of the vocabulary, the architecture, and a sample of the values of every
    tensor.

    Training changes nearly every value of a trained tensor, so a sample is enough.
    """
    config = model.config.to_dict()
    for name in ("_name_or_path", "transformers_version"):
        config.pop(name, None)
    described = [sorted(tokenizer.get_vocab().items()), config]
    digest = hashlib.sha256(json.dumps(described, sort_keys=True, default=str).encode())
    for name, tensor in model.state_dict().items():
        values = tensor.detach().flatten()
        picked = values[:: max(1, values.numel() // _VALUES)]
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        digest.update(picked.double().cpu().numpy().tobytes())
    return digest.hexdigest()
