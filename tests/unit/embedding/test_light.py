"""The light encoder has nearly the vectors of MiniLM, and a text's vector depends on it alone."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch.nn.functional import normalize

from benchmarks import light_encoder
from sugarbush.embedding import encoder as encode
from sugarbush.embedding import light, transformer
from sugarbush.embedding.cache import EmbeddingsInMemory
from sugarbush.embedding.encoder import Encoder, model_folder
from sugarbush.embedding.settings import EmbeddingSettings
from sugarbush.errors import ParamsError
from sugarbush.examples.embedded import FOLDER
from sugarbush.randomness import public_rng

WORDS = ["a", "the", "lamp", "order", "broken", "refund", "late", "please", "thanks", "red"]


def encoder(model: str = "light") -> Encoder:
    return Encoder(EmbeddingSettings(model=model), cache=None, private=False)


def example_texts(count: int) -> list[str]:
    lines = (FOLDER / "pool.jsonl").read_text(encoding="utf-8").splitlines()[:count]
    return [json.loads(line)["text"] for line in lines]


@pytest.fixture(scope="module")
def vectors() -> dict[str, NDArray[np.float32]]:
    texts = example_texts(200)
    return {model: encoder(model).encode(texts) for model in ("bundled", "light")}


def test_cosines_of_texts_are_nearly_those_of_minilm(
    vectors: dict[str, NDArray[np.float32]],
) -> None:
    """All texts are of one subject. Weights of a broken file give a correlation near 0."""
    pairs = np.triu_indices(200, 1)
    cosines = [(own @ own.T)[pairs] for own in vectors.values()]
    assert np.corrcoef(cosines)[0, 1] > 0.5
    assert (vectors["bundled"] * vectors["light"]).sum(axis=1).mean() > 0.6


def test_the_nearest_text_is_among_the_nearest_of_minilm(
    vectors: dict[str, NDArray[np.float32]],
) -> None:
    """By chance, 5% would be."""
    near = {
        model: np.argsort(np.eye(len(own)) - own @ own.T, axis=1) for model, own in vectors.items()
    }
    found = (near["bundled"][:, :10] == near["light"][:, :1]).any(axis=1)
    assert found.mean() > 0.5


def test_a_text_has_the_same_bits_alone_and_beside_others(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = public_rng(3, "light")
    lengths = [n for n in (1, 2, 5, 9, 20, 40) for _ in range(200)]
    texts = list(dict.fromkeys(" ".join(rng.choice(WORDS, n)) for n in lengths))
    together = encoder().encode(texts)
    assert max(rows for rows, _ in encoder()._model.tested) > 1
    monkeypatch.setattr(transformer, "_LEAST_TEXTS", 10**9)
    for i in range(0, len(texts), 29):
        assert np.array_equal(encoder().encode([texts[i]])[0], together[i])


@pytest.mark.parametrize("text", ["", "lamp", "\u200b", "Crème brûlée 価格 🙂", "word " * 3000])
def test_odd_texts_have_vectors_of_length_1(text: str) -> None:
    (vector,) = encoder().encode([text])
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-6)


def test_the_two_bundled_encoders_share_no_cached_vector() -> None:
    assert encoder()._space != encoder("bundled")._space


def test_what_learns_computes_what_the_encoder_computes() -> None:
    """`Learner` has a mask and `Light` has none. Weights of one are weights of the other."""
    folder = model_folder("bundled")
    torch.manual_seed(0)
    learner = light_encoder.Learner(light.minilm_words(folder)).eval()
    ids = torch.randint(1000, 20_000, (2, 9))
    mask = torch.ones(2, 9)
    mask[1, 5:] = 0
    with torch.inference_mode():
        expected = learner(ids, mask)
        network = light.Light(folder, learner.state_dict())
        for row, tokens in enumerate((9, 5)):
            vector = network({"input_ids": ids[row : row + 1, :tokens]})["sentence_embedding"]
            assert torch.allclose(normalize(vector, dim=1)[0], expected[row], atol=1e-5)


def test_weights_on_disk_are_close_to_those_written(tmp_path: Path) -> None:
    matrix = torch.tensor(public_rng(1, "weights").normal(size=(6, 50)), dtype=torch.float32)
    vector = torch.linspace(-3, 3, 20)
    light.write_weights(tmp_path / "w", {"m.weight": matrix, "v": vector})
    found = light.read_weights(tmp_path / "w")
    assert set(found) == {"m.weight", "v"}
    largest = matrix.abs().amax(dim=1, keepdim=True)
    assert ((found["m.weight"] - matrix).abs() <= largest / 200).all()
    assert torch.allclose(found["v"], vector, atol=2e-3)


@pytest.mark.parametrize("damaged", [None, b"", b"no weights"])
def test_damaged_weights_have_one_clear_message(
    damaged: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "light.safetensors"
    if damaged is not None:
        file.write_bytes(damaged)
    monkeypatch.setattr(encode, "_LIGHT_WEIGHTS", file)
    encode._load_light.cache_clear()
    for cache in (None, EmbeddingsInMemory()):
        with pytest.raises(ParamsError, match=r"light\.safetensors is not a model"):
            Encoder(EmbeddingSettings(model="light"), cache=cache).encode(["a text"])
    encode._load_light.cache_clear()
