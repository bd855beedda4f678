"""Tests that a language model in a GGUF file (the format of llama.cpp) is loaded correctly."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from sugarbush import extras
from sugarbush.errors import ParamsError
from sugarbush.generators.huggingface.model import load_model
from tests.integration.llm.test_huggingface import settings_for, texts_of, wishes
from tests.integration.llm.tiny_gpt2 import CONTEXT_TOKENS, save_tiny_gpt2

_NAMES = {
    "attn.c_attn": "attn_qkv",
    "attn.c_proj": "attn_output",
    "mlp.c_fc": "ffn_up",
    "mlp.c_proj": "ffn_down",
    "ln_1": "attn_norm",
    "ln_2": "ffn_norm",
}
_TOP = {"wte": "token_embd", "wpe": "position_embd", "ln_f": "output_norm", "lm_head": "output"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_gpt2(tmp_path_factory.mktemp("plain"), chats=False)


def write_gguf(folder: Path, path: Path) -> Path:
    """Write the GPT-2 of `folder` as a GGUF file, as llama.cpp's converter does."""
    gguf = pytest.importorskip("gguf")
    model = load_model(settings_for(folder)).model
    made = gguf.GGUFWriter(str(path), "gpt2")
    made.add_block_count(model.config.n_layer)
    made.add_context_length(1024)
    made.add_embedding_length(model.config.n_embd)
    made.add_feed_forward_length(4 * model.config.n_embd)
    made.add_head_count(model.config.n_head)
    made.add_layer_norm_eps(model.config.layer_norm_epsilon)
    bpe = json.loads((folder / "tokenizer.json").read_text())
    vocabulary = bpe["model"]["vocab"]
    special = {token["content"] for token in bpe["added_tokens"]}
    tokens = sorted(vocabulary, key=vocabulary.get)
    made.add_tokenizer_model("gpt2")
    made.add_tokenizer_pre("gpt-2")
    made.add_token_list(tokens)
    made.add_token_types(
        [gguf.TokenType.CONTROL if t in special else gguf.TokenType.NORMAL for t in tokens]
    )
    made.add_token_merges([" ".join(pair) for pair in bpe["model"]["merges"]])
    made.add_bos_token_id(model.config.bos_token_id)
    made.add_eos_token_id(model.config.eos_token_id)
    for name, tensor in model.state_dict().items():
        places = name.removeprefix("transformer.").split(".")
        kind = places[-1]
        if places[0] == "h":
            to = f"blk.{places[1]}.{_NAMES['.'.join(places[2:-1])]}.{kind}"
        else:
            to = f"{_TOP[places[0]]}.{kind}"
        # The matrices of GPT-2's layers are stored transposed.
        values = tensor.T if places[0] == "h" and tensor.ndim == 2 else tensor
        if places[0] == "wpe":  # transformers expects GPT-2's own 1024 positions in a GGUF file
            values = torch.nn.functional.pad(values, (0, 0, 0, 1024 - CONTEXT_TOKENS))
        made.add_tensor(to, values.contiguous().numpy())
    made.write_header_to_file()
    made.write_kv_data_to_file()
    made.write_tensors_to_file()
    made.close()
    return path


def test_a_model_in_a_gguf_file_writes_the_texts_of_its_folder(
    folder: Path, tmp_path: Path
) -> None:
    gguf = write_gguf(folder, tmp_path / "tiny.gguf")
    asked = wishes(6)
    texts = texts_of(gguf, *asked)
    assert texts == texts_of(folder, *asked)
    assert any(texts)


def test_a_damaged_gguf_file_is_refused_by_its_setting(tmp_path: Path) -> None:
    pytest.importorskip("gguf")
    damaged = tmp_path / "damaged.gguf"
    damaged.write_bytes(b"GGUF" + b"\0" * 40)
    with pytest.raises(ParamsError, match=r"generator\.huggingface\.model"):
        load_model(settings_for(damaged))
    with pytest.raises(ParamsError, match=r"generator\.huggingface\.model"):
        load_model(settings_for(tmp_path / "missing.gguf"))


def test_a_gguf_file_without_its_package_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    with pytest.raises(ParamsError, match=r"package gguf.*'\.\[gguf\]'"):
        load_model(settings_for(tmp_path / "some.gguf"))
