"""The bundled encoder is computed without the libraries, with the same result."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sugarbush.embedding.bert import WordPieces, is_plain_bert
from sugarbush.embedding.encoder import Encoder, _load_network, model_folder
from sugarbush.embedding.settings import EmbeddingSettings
from sugarbush.embedding.transformer import Transformer
from sugarbush.errors import ParamsError

TEXTS = [
    "hello",
    "",
    "The parcel came late, and the lamp is broken!",
    "Crème brûlée für 12,50 € – 価格は千円です 🙂",
    "word " * 200,
]


def test_its_vectors_are_those_of_the_library() -> None:
    network, _ = _load_network(model_folder("bundled"))
    expected = network.encode(TEXTS, show_progress_bar=False)
    found = Encoder(EmbeddingSettings(), cache=None).encode(TEXTS)
    assert np.abs(found - expected).max() < 1e-6


def test_its_tokens_are_those_of_the_library() -> None:
    network, _ = _load_network(model_folder("bundled"))
    own = WordPieces.of(model_folder("bundled"))
    texts = [*TEXTS, "many words of one text " * 300]
    options = {"truncation": True, "max_length": 64, "return_overflowing_tokens": True}
    expected, found = network.tokenizer(texts, **options), own(texts, **options)
    assert found["input_ids"] == expected["input_ids"]
    assert found["overflow_to_sample_mapping"] == list(expected["overflow_to_sample_mapping"])
    assert own.model_max_length == network.tokenizer.model_max_length


@pytest.mark.slow
def test_it_needs_no_slow_library() -> None:
    code = (
        "import sys\n"
        "from sugarbush.embedding.encoder import Encoder\n"
        "from sugarbush.embedding.settings import EmbeddingSettings\n"
        "Encoder(EmbeddingSettings(), cache=None).encode(['a text'])\n"
        "print([n for n in ('transformers', 'sentence_transformers') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(model_folder("bundled"), tmp_path / "model"))


@pytest.mark.parametrize(
    ("file", "changes"),
    [
        ("config.json", {"model_type": "roberta"}),
        ("config.json", {"hidden_act": "relu"}),
        ("config.json", {"position_embedding_type": "relative_key"}),
        ("1_Pooling/config.json", {"pooling_mode_cls_token": True}),
        ("config_sentence_transformers.json", {"prompts": {"query": "query: "}}),
        ("sentence_bert_config.json", {"do_lower_case": True}),
    ],
)
def test_another_architecture_is_left_to_the_library(
    folder: Path, file: str, changes: dict[str, object]
) -> None:
    assert is_plain_bert(folder)
    path = folder / file
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    assert not is_plain_bert(folder)


def test_damaged_weights_get_a_message(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"no weights")
    encoder = Encoder(EmbeddingSettings(model=str(folder)), cache=None)
    with pytest.raises(ParamsError, match=r"embedding\.model"):
        encoder.encode(["a text"])


def test_it_embeds_as_a_transformer_that_reads_token_ids() -> None:
    assert isinstance(Encoder(EmbeddingSettings(), cache=None)._model, Transformer)
