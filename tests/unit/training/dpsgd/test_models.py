"""Tests of small models, which are loaded from a folder by the same code as real models."""

import json
import logging
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import AutoModelForCausalLM, AutoTokenizer

from sugarbush.errors import ParamsError
from sugarbush.training.dpsgd import models
from sugarbush.training.dpsgd.data import probe_examples
from sugarbush.training.dpsgd.language_modelling import pad_together, record_losses


def test_a_loaded_model_is_the_saved_one_in_float32_without_dropout(saved_model, tmp_path):
    original = AutoModelForCausalLM.from_pretrained(saved_model)
    original.config.resid_pdrop = 0.3
    original.to(torch.bfloat16).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(saved_model).save_pretrained(tmp_path)
    model, tokenizer = models.load(str(tmp_path), device=torch.device("cpu"))
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert {m.p for m in model.modules() if isinstance(m, nn.Dropout)} == {0.0}
    assert model.lm_head.weight is model.transformer.wte.weight
    assert tokenizer.decode(tokenizer.eos_token_id) == "<|endoftext|>"


def test_the_tokenizer_takes_any_text_and_gives_it_back(loaded):
    _, tokenizer = loaded
    text = "product: loan\nÜnseen 世界, tabs\tand\x00 bytes"
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
    assert len(tokenizer) <= 300


def test_equal_seeds_give_equal_models(loaded):
    _, tokenizer = loaded
    shape = models.ModelShape(layers=1, width=8, heads=1, context=16)
    weights = [models.new_model(tokenizer, shape, seed=s).lm_head.weight for s in (1, 1, 2)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


@pytest.mark.parametrize("content", [None, "{}", "no json"])
def test_a_folder_without_a_model_is_an_error_that_names_the_setting(tmp_path, content):
    if content is not None:
        (tmp_path / "config.json").write_text(content)
    with pytest.raises(ParamsError, match=r"methods\.dpft\.model"):
        models.load(str(tmp_path), device=torch.device("cpu"))


def damage(folder, what):
    weights = folder / "model.safetensors"
    match what:
        case "no tokenizer":
            (folder / "tokenizer.json").unlink()
        case "tokenizer of another kind":
            (folder / "tokenizer.json").write_text("{}")
        case "damaged weights":
            weights.write_bytes(b"no tensors" * 99)
        case "a block missing":
            left = {n: t for n, t in load_file(weights).items() if ".h.0." not in n}
            save_file(left, weights, metadata={"format": "pt"})
        case "another width":
            config = json.loads((folder / "config.json").read_text())
            (folder / "config.json").write_text(json.dumps(config | {"n_embd": 64}))


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("no tokenizer", "returns no token for a text"),
        ("tokenizer of another kind", "cannot be loaded"),
        ("damaged weights", "cannot be loaded"),
        ("a block missing", "of its weights"),
        ("another width", "cannot be loaded"),
    ],
)
def test_a_damaged_model_is_an_error_before_any_charge(saved_model, tmp_path, what, said):
    folder = shutil.copytree(saved_model, tmp_path / "gpt2")
    damage(folder, what)
    with pytest.raises(ParamsError, match=rf"methods\.dpft\.model.* {said}"):
        models.load(str(folder), device=torch.device("cpu"))


def test_texts_longer_than_the_model_can_read_are_refused_with_the_setting(loaded):
    model, _ = loaded
    positions = model.config.n_positions
    models.refuse_beyond_context(model, positions)
    with pytest.raises(ParamsError, match=rf"max_length={positions + 1} .* {positions} tokens"):
        models.refuse_beyond_context(model, positions + 1)


def test_a_tokenizer_with_tokens_that_the_model_does_not_know_is_refused(saved_model, tmp_path):
    """If such a tokenizer were accepted, a text with such a token would stop the training after the
    charge.
    """
    shutil.copytree(saved_model, tmp_path / "gpt2")
    tokenizer = AutoTokenizer.from_pretrained(saved_model)
    tokenizer.add_tokens(["[PAD]"])
    tokenizer.save_pretrained(tmp_path / "gpt2")
    with pytest.raises(ParamsError, match="more than the model knows"):
        models.load(str(tmp_path / "gpt2"), device=torch.device("cpu"))


def test_loading_and_saving_show_no_progress_bars(saved_model, tmp_path, capfd):
    model, tokenizer = models.load(str(saved_model), device=torch.device("cpu"))
    models.save(model, tokenizer, tmp_path)
    assert capfd.readouterr() == ("", "")


def test_lora_trains_a_few_weights_and_merges_into_a_plain_model(loaded):
    model, _ = loaded
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    adapted = models.with_lora(model, rank=2)
    trainable = [p for p in adapted.parameters() if p.requires_grad]
    assert sum(p.numel() for p in trainable) < 0.2 * sum(p.numel() for p in adapted.parameters())
    with torch.no_grad():
        for parameter in trainable:
            parameter.add_(0.1)
    batch = pad_together(probe_examples(300, max_length=64))
    expected = record_losses(adapted.eval(), batch)
    plain = models.merged(adapted)
    torch.testing.assert_close(record_losses(plain.eval(), batch), expected)
    assert {name for name, _ in plain.named_parameters()} == before.keys()
    changed = [n for n, p in plain.named_parameters() if not torch.equal(p, before[n])]
    assert changed
    assert all(".h." in name for name in changed)


def test_merging_a_plain_model_gives_it_back(loaded):
    assert models.merged(loaded[0]) is loaded[0]


def test_lora_on_a_model_without_blocks_is_an_error_that_names_the_setting():
    with pytest.raises(ParamsError, match="lora_rank"):
        models.with_lora(nn.Sequential(nn.Linear(2, 2)), rank=2)


def test_nothing_is_logged_of_a_long_text(loaded, caplog):
    """By default, tokenizers log a warning with the number of tokens if a text is too long for the
    model."""
    from research.leakage.selective import marked_examples
    from sugarbush.training.crt.patterns import RegexDetector
    from sugarbush.training.crt.redact import Policy
    from sugarbush.training.dpsgd.data import token_ids

    _, tokenizer = loaded
    tokenizer.model_max_length = 8
    tokenizer.deprecation_warnings.clear()  # it warns once
    caplog.set_level(logging.WARNING, logger="transformers")  # other tests may have silenced it
    logging.getLogger("transformers").propagate = True
    try:
        token_ids(tokenizer, ["a long private text, " * 50], at_most=5)
        texts = ["a long private text, " * 50]
        policy = Policy([RegexDetector(["EMAIL"])])
        (unit,) = marked_examples(texts, policy=policy, tokenizer=tokenizer, max_length=5)
        assert len(unit.tokens) == len(unit.private) == 5
        assert caplog.text == ""
        token_ids(tokenizer, ["a long private text, " * 50])
        assert "longer than" in caplog.text  # the test would have seen the warning
    finally:
        logging.getLogger("transformers").propagate = False
