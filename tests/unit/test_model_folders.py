"""Tests that folders of models run no code, by folders that write a file if they run code."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from transformers import (
    BertConfig,
    BertForTokenClassification,
    BertModel,
    BertTokenizerFast,
)

from sugarbush.embedding.encoder import Encoder
from sugarbush.embedding.settings import EmbeddingSettings
from sugarbush.generators.huggingface.model import load_model
from sugarbush.generators.huggingface.settings import HuggingFace
from sugarbush.training.crt.token_classifier import TokenClassifier
from sugarbush.training.dpsgd import models

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "letter", "to", "shop", "."]
SMALL = {
    "vocab_size": len(WORDS), "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
    "intermediate_size": 8,
}  # fmt: skip

Load = Callable[[str], object]


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    """The file that code of a folder writes."""
    return tmp_path / "marker"


@pytest.fixture(autouse=True)
def no_code_ran(marker: Path) -> Iterator[None]:
    yield
    assert not marker.exists(), "the folder ran its code"


@pytest.fixture
def code(marker: Path) -> str:
    return f"import pathlib\npathlib.Path({str(marker)!r}).write_text('ran')\n"


class RunsCode:
    def __init__(self, code: str) -> None:
        self.code = code

    def __reduce__(self) -> Any:
        return exec, (self.code,)


def change(file: Path, **fields: Any) -> None:
    content = json.loads(file.read_text()) if file.exists() else {}
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps({**content, **fields}))


def pickle_the_weights(folder: Path, code: str) -> None:
    """Replace the weights. If the data type is missing, transformers reads it from the weights."""
    (folder / "model.safetensors").unlink()
    torch.save({"weight": RunsCode(code)}, folder / "pytorch_model.bin")
    config = json.loads((folder / "config.json").read_text())
    config.pop("dtype")
    (folder / "config.json").write_text(json.dumps(config))


def pickle_a_layer(folder: Path, kind: str, code: str, **config: Any) -> None:
    modules = json.loads((folder / "modules.json").read_text())
    modules.append({"idx": 2, "name": "2", "path": "2_Layer", "type": kind})
    (folder / "modules.json").write_text(json.dumps(modules))
    names = ("config.json", "lstm_config.json", "wordembedding_config.json", "cnn_config.json")
    for name in names:
        change(folder / "2_Layer" / name, **config)
    (folder / "custom.py").write_text(code + "class Own: ...\n")
    torch.save({"weight": RunsCode(code)}, folder / "2_Layer" / "pytorch_model.bin")


def name_own_classes(folder: Path, code: str, *, kind: str) -> None:
    """Refer to classes of a module in the folder. Transformers knows the model type `bert`."""
    own = ("Model", "Config", "Tokenizer")
    (folder / "own.py").write_text(code + "".join(f"class {name}: ...\n" for name in own))
    loaders = ("AutoModel", "AutoModelForCausalLM", "AutoModelForTokenClassification")
    classes = dict.fromkeys(loaders, "own.Model") | {"AutoConfig": "own.Config"}
    change(folder / "config.json", model_type=kind, auto_map=classes)
    tokenizer = {"AutoTokenizer": ["own.Tokenizer", None]}
    change(folder / "tokenizer_config.json", tokenizer_class="Tokenizer", auto_map=tokenizer)


def add_adapter(folder: Path, code: str) -> None:
    change(
        folder / "adapter_config.json", peft_type="LORA", base_model_name_or_path=str(folder),
        r=2, lora_alpha=2, target_modules=["query", "c_attn"],
        auto_mapping={"base_model_class": "Own", "parent_library": "custom"},
    )  # fmt: skip
    (folder / "custom.py").write_text(code)
    torch.save({"weight": RunsCode(code)}, folder / "adapter_model.bin")


def generate_by_own_code(folder: Path, code: str) -> None:
    (folder / "custom_generate").mkdir()
    (folder / "custom_generate" / "generate.py").write_text(code + "def generate(*_): ...\n")


ANY_FOLDER: dict[str, Callable[[Path, str], None]] = {
    "pickled weights": pickle_the_weights,
    "an unknown model type": lambda folder, code: name_own_classes(folder, code, kind="own"),
    "a known model type": lambda folder, code: name_own_classes(folder, code, kind="bert"),
    "an adapter": add_adapter,
    "its own generate": generate_by_own_code,
}


def embed(folder: str) -> object:
    return Encoder(EmbeddingSettings(model=folder, max_tokens=8), cache=None).encode(["a letter"])


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[Load, Path]:
    """Save a small model for each loader, without code."""
    root = tmp_path_factory.mktemp("models")
    torch.manual_seed(0)
    tokenizer = BertTokenizerFast(vocab={word: i for i, word in enumerate(WORDS)})
    for name, kind in (("encoder", BertModel), ("classifier", BertForTokenClassification)):
        labels = {"id2label": {0: "O", 1: "PER"}} if name == "classifier" else {}
        kind(BertConfig(**SMALL, **labels)).save_pretrained(root / name)
        tokenizer.save_pretrained(root / name)
    modules = [Transformer(str(root / "encoder")), Pooling(8)]
    SentenceTransformer(modules=modules, device="cpu").save(str(root / "sentences"))
    causal = models.train_tokenizer(["a letter to a shop"], vocabulary=300)
    shape = models.ModelShape(layers=1, width=16, heads=2, context=64)
    models.save(models.new_model(causal, shape, seed=1), causal, root / "causal")
    return {
        embed: root / "sentences",
        generate: root / "causal",
        start_training: root / "causal",
        classify: root / "classifier",
    }


def generate(folder: str) -> object:
    return load_model(HuggingFace(model=folder, max_tokens=8)).encode("a letter")


def start_training(folder: str) -> object:
    return models.load(folder, device=torch.device("cpu"))


def classify(folder: str) -> object:
    return TokenClassifier(folder).find(["a letter"])


LOADERS = (embed, generate, start_training, classify)


@pytest.mark.parametrize("load", LOADERS)
def test_a_folder_without_code_loads(load: Load, folders: dict[Load, Path]) -> None:
    load(str(folders[load]))


@pytest.mark.slow
@pytest.mark.parametrize("with_code", ANY_FOLDER.values(), ids=ANY_FOLDER)
@pytest.mark.parametrize("load", LOADERS)
def test_a_folder_of_a_model_runs_no_code(
    load: Load,
    with_code: Callable[[Path, str], None],
    folders: dict[Load, Path],
    tmp_path: Path,
    code: str,
) -> None:
    folder = shutil.copytree(folders[load], tmp_path / "model")
    with_code(folder, code)
    with suppress(Exception):  # most of these folders cannot be loaded
        load(str(folder))


def own_module_type(folder: Path, code: str) -> None:
    pickle_a_layer(folder, "custom.Own", code)


def own_route(folder: Path, code: str) -> None:
    own_module_type(folder, code)
    router = {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Router"}
    (folder / "modules.json").write_text(json.dumps([router]))
    types = {"a": "custom.Own", "2_Layer": "custom.Own"}
    change(folder / "router_config.json", types=types, structure={"query": ["a"]}, parameters={})


def own_settings(key: str, **fields: Any) -> Callable[[Path, str], None]:
    """Choose arguments of transformers in the folder's own settings."""

    def choose(folder: Path, code: str) -> None:
        pickle_the_weights(folder, code)
        change(folder / "sentence_bert_config.json", **{key: fields})
        if "trust_remote_code" in fields:
            name_own_classes(folder, code, kind="own")

    return choose


OF_AN_ENCODER: dict[str, Callable[[Path, str], None]] = {
    "a module type": own_module_type,
    "a route": own_route,
    "a dense layer": lambda folder, code: pickle_a_layer(
        folder, "sentence_transformers.models.Dense", code,
        in_features=8, out_features=2, activation_function="custom.Own",
    ),
    "an LSTM": lambda folder, code: pickle_a_layer(
        folder, "sentence_transformers.models.LSTM", code,
        word_embedding_dimension=8, hidden_dim=2, num_layers=1, dropout=0, bidirectional=False,
    ),
    "word vectors": lambda folder, code: pickle_a_layer(
        folder, "sentence_transformers.models.WordEmbeddings", code,
        tokenizer_class="custom.Own", update_embeddings=False, max_seq_length=8,
    ),
} | {
    f"{key} {fields}": own_settings(key, **fields)
    for key in (
        "model_args", "model_kwargs", "tokenizer_args", "processor_kwargs", "config_args",
        "config_kwargs",
    )
    for fields in ({"weights_only": False}, {"trust_remote_code": True})
}  # fmt: skip


@pytest.mark.parametrize("with_code", OF_AN_ENCODER.values(), ids=OF_AN_ENCODER)
def test_the_folder_of_an_encoder_runs_no_code(
    with_code: Callable[[Path, str], None],
    folders: dict[Load, Path],
    tmp_path: Path,
    code: str,
) -> None:
    folder = shutil.copytree(folders[embed], tmp_path / "model")
    with_code(folder, code)
    with suppress(Exception):
        embed(str(folder))


def test_the_code_in_these_folders_would_be_noticed(
    tmp_path: Path, marker: Path, code: str
) -> None:
    torch.save({"weight": RunsCode(code)}, tmp_path / "weights.bin")
    torch.load(tmp_path / "weights.bin", weights_only=False)
    assert marker.exists()
    marker.unlink()
